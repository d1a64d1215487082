/* Signals as a descriptor to read from, and their names. */
#include "os/signals.h"

#include "base/cleanup.h"

#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>

int signals_open(const int *numbers, size_t count, sigset_t *old, struct err *err)
{
    sigset_t set;
    sigemptyset(&set);
    for (size_t i = 0; i < count; i++)
        sigaddset(&set, numbers[i]);
    sigprocmask(SIG_BLOCK, &set, old);
    int fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    return fd < 0 ? err_sys(err, "signalfd") : fd;
}

const char *signal_words(int number, char ret[static SIGNAL_WORDS_SIZE])
{
    static const char *const words[] = {
        [SIGHUP] = "hangup",
        [SIGINT] = "interrupt",
        [SIGQUIT] = "quit",
        [SIGILL] = "illegal instruction",
        [SIGTRAP] = "trace/breakpoint trap",
        [SIGABRT] = "aborted",
        [SIGBUS] = "bus error",
        [SIGFPE] = "floating point exception",
        [SIGKILL] = "killed",
        [SIGUSR1] = "user defined signal 1",
        [SIGSEGV] = "segmentation fault",
        [SIGUSR2] = "user defined signal 2",
        [SIGPIPE] = "broken pipe",
        [SIGALRM] = "alarm clock",
        [SIGTERM] = "terminated",
    };
    const char *word = number > 0 && (size_t)number < ARRAY_LEN(words) ? words[number] : NULL;
    if (word)
        snprintf(ret, SIGNAL_WORDS_SIZE, "%s", word);
    else
        snprintf(ret, SIGNAL_WORDS_SIZE, "signal %d", number);
    return ret;
}

int signal_of_words(const char *words)
{
    char each[SIGNAL_WORDS_SIZE];
    for (int number = 1; number <= SIGRTMAX; number++)
        if (!strcmp(words, signal_words(number, each)))
            return number;
    return 0;
}
