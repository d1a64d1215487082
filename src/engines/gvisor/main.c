/* brig-gvisor: runs one command behind gVisor's Sentry. brig starts it as the code of a sandbox
 * (sandbox/engine.c), so that all walls stand around it and around runsc:
 *
 *   brig-gvisor RUNSC PLATFORM CONFS INPUT UID CWD MEMORY CPUS FILES SIZE -- COMMAND [ARG…]
 *
 * or, in a sandbox of brig serve, as the first program there, and for each process after it:
 *
 *   brig-gvisor RUNSC PLATFORM CONFS serve UID / MEMORY CPUS FILES SIZE -- LEADER reap
 *   brig-gvisor join …                                                      (join.c)
 *
 * or in the place of a container's program:
 *
 *   brig-gvisor contain …, exec …                                        (contain.c)
 *
 * It makes the Sentry's control socket, narrows itself (seal.c), starts runsc's two processes
 * (runsc.c), tells the Sentry to begin, passes signals on, and ends as the code did. In a sandbox
 * of brig serve it says the socket's name when the Sentry has begun, and ends with it.
 *
 * Of its environment the code gets all; what stands behind the mark "brig:" in the place of what
 * has the same name without it. runsc gets none. Exit status: the code's; 126 or 127 if it cannot
 * be started; SIGKILL if the Sentry ended before the code. */
#include "engines/gvisor/gvisor.h"

#include "base/cleanup.h"
#include "base/num.h"
#include "base/text.h"
#include "base/utf8.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define NOT_EXECUTABLE 126
#define NOT_FOUND      127
#define FIXED_ARGS     12
#define VARIABLE       "brig:" /* as credentials/credentials.h has it */
#define ANSWER_MAX     65536

void engine_fail(int status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fputs("brig-gvisor: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    _exit(status);
}

void engine_end_by(int number)
{
    sigset_t one;
    sigemptyset(&one);
    sigaddset(&one, number);
    signal(number, SIG_DFL);
    sigprocmask(SIG_UNBLOCK, &one, NULL);
    raise(number);
    _exit(128 + number);
}

uint64_t engine_number(const char *text)
{
    uint64_t value = 0;
    if (num_parse_uint(text, &value, NULL) < 0)
        engine_fail(NOT_EXECUTABLE, "%s is no number", text);
    return value;
}

static bool same_name(const char *a, const char *b)
{
    size_t len = strcspn(a, "=");
    return strncmp(a, b, len + 1) == 0;
}

static bool is_replaced(const char *entry)
{
    for (char **e = environ; *e; e++)
        if (text_begins(*e, VARIABLE) && same_name(*e + strlen(VARIABLE), entry))
            return true;
    return false;
}

char **engine_variables(void)
{
    size_t count = 0, used = 0;
    while (environ[count])
        count++;
    char **found = calloc(count + 1, sizeof *found);
    if (!found)
        engine_fail(NOT_EXECUTABLE, "no memory");
    for (size_t i = 0; i < count; i++) {
        bool marked = text_begins(environ[i], VARIABLE);
        if (marked || !is_replaced(environ[i]))
            found[used++] = environ[i] + (marked ? strlen(VARIABLE) : 0);
    }
    return found;
}

bool engine_is_text(const char *at)
{
    uint32_t code;
    size_t left = strlen(at), n = 1;
    for (; left && n; at += n, left -= n)
        n = utf8_decode(at, left, &code);
    return n > 0;
}

/* The description is JSON, which has no place for other bytes; nothing is silently changed. */
static void check_text(char *const *list, const char *what)
{
    for (; *list; list++)
        if (!engine_is_text(*list))
            engine_fail(NOT_EXECUTABLE, "%s is not UTF-8, which gVisor's description of it must be",
                        what);
}

static void take_options(int argc, char *argv[], struct sentry_code *code)
{
    if (argc <= FIXED_ARGS || strcmp(argv[FIXED_ARGS - 1], "--") != 0)
        engine_fail(NOT_EXECUTABLE, "brig starts this program, as brig run --tier gvisor");
    *code = (struct sentry_code){.runsc = argv[1],
                                 .platform = argv[2],
                                 .mount_confs = strcmp(argv[3], "confs") == 0,
                                 .terminal = strcmp(argv[4], "terminal") == 0,
                                 .serves = strcmp(argv[4], "serve") == 0,
                                 .uid = engine_number(argv[5]),
                                 .cwd = argv[6],
                                 .memory = engine_number(argv[7]),
                                 .cpus = engine_number(argv[8]),
                                 .files = engine_number(argv[9]),
                                 .file_size = engine_number(argv[10]),
                                 .argv = &argv[FIXED_ARGS],
                                 .env = engine_variables()};
    check_text(code->argv, "an argument");
    check_text(code->env, "a variable");
}

__attribute__((noreturn)) static void engine_died(const struct sentry *s, const char *when)
{
    char why[256];
    sentry_last_words(s, why, sizeof why);
    fprintf(stderr, "brig-gvisor: runsc ended %s%s%s\n", when, why[0] ? ": " : "", why);
    engine_end_by(SIGKILL);
}

/* Blocks until the Sentry has answered on this connection. */
static void await(const struct sentry *s, int fd, struct control_answer *ret, const char *when)
{
    static char text[ANSWER_MAX];
    size_t have = 0;
    int r = 0;
    while (r == 0) {
        ssize_t n = recv(fd, text + have, sizeof text - have, 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            engine_died(s, when);
        have += (size_t)n;
        r = control_parse(text, have, ret);
    }
    if (r < 0)
        engine_died(s, when);
}

/* The Sentry's own words are the only ones that there are. */
__attribute__((noreturn)) static void not_started(const struct sentry_code *code, const char *why)
{
    bool missing = strstr(why, "no such file or directory") || strstr(why, "not found");
    engine_fail(missing ? NOT_FOUND : NOT_EXECUTABLE, "cannot start %.200s: %s", code->argv[0],
                why);
}

/* What is typed from now on (^C, ^Z), and each change of the size, the host's kernel tells the
 * Sentry, which tells the code's foreground job. What was typed before came here, and follows. */
static void give_terminal(const struct sentry_code *code, const struct sentry *s)
{
    if (code->terminal && tcsetpgrp(0, s->boot) < 0)
        engine_fail(NOT_EXECUTABLE, "cannot give the Sentry the terminal: %s", strerror(errno));
}

static void begin(const struct sentry_code *code, const struct control *c, const struct sentry *s)
{
    struct err err = ERR_INIT;
    struct control_answer answer;
    char byte;
    if (read(s->ready, &byte, 1) != 1)
        engine_died(s, "before it had booted (`brig doctor` tries its platforms)");
    give_terminal(code, s);
    if (control_ask(c->wait, "containerManager.StartRoot", NULL, &err) < 0)
        engine_died(s, "before the code began");
    await(s, c->wait, &answer, "before the code began");
    if (!answer.success)
        not_started(code, answer.why);
}

/* Signals that were sent to this process are the code's, and the Sentry delivers them. Without a
 * terminal they were meant for all that the code started: init sends them to the whole group. With
 * one, jobs have groups of their own, and they were meant for who leads the session. Those for a
 * container are for its first process. */
static void pass_on(int signals, const struct control *c, const struct sentry_code *code)
{
    struct signalfd_siginfo info;
    struct err err = ERR_INIT;
    if (read(signals, &info, sizeof info) != sizeof info)
        return;
    /* As PID 1 it has children that it did not make. */
    while (code->contained && waitpid(-1, NULL, WNOHANG) > 0)
        ;
    if (info.ssi_signo != SIGCHLD && !code->serves)
        (void)control_signal(c, (int)info.ssi_signo, !code->terminal && !code->contained, &err);
}

__attribute__((noreturn)) static void follow(int signals, const struct control *c,
                                             const struct sentry *s, const struct sentry_code *code)
{
    struct err err = ERR_INIT;
    struct control_answer answer;
    struct pollfd fds[2] = {{.fd = c->wait, .events = POLLIN}, {.fd = signals, .events = POLLIN}};
    if (control_ask(c->wait, "containerManager.Wait", NULL, &err) < 0)
        engine_died(s, "before the code did");
    do {
        if (poll(fds, 2, -1) > 0 && fds[1].revents)
            pass_on(signals, c, code);
    } while (!fds[0].revents);
    await(s, c->wait, &answer, "before the code did");
    int status = (int)answer.result;
    if (!answer.success)
        engine_died(s, "before the code did");
    if (WIFSIGNALED(status))
        engine_end_by(WTERMSIG(status));
    _exit(WEXITSTATUS(status));
}

/* To the warden, and nothing after it. */
static void say_name(const struct control *c)
{
    char line[JOIN_NAME_LEN + 2];
    int len = snprintf(line, sizeof line, "%s\n", c->name);
    if (write(1, line, (size_t)len) != len)
        engine_fail(NOT_EXECUTABLE, "cannot say the socket's name: %s", strerror(errno));
    close(1);
}

int main(int argc, char *argv[])
{
    if (argc > 1 && strcmp(argv[1], "join") == 0)
        join_main(argc, argv);
    struct sentry_code code;
    struct control control;
    struct sentry sentry;
    struct err err = ERR_INIT;
    sigset_t all;
    if (argc > 1 && strcmp(argv[1], "exec") == 0)
        exec_main(argc, argv);
    if (argc > 1 && strcmp(argv[1], "contain") == 0) {
        contain_take(argc, argv, &code, &control);
    } else {
        take_options(argc, argv, &code);
        if (control_open(&control, &err) < 0)
            engine_fail(NOT_EXECUTABLE, "%s", err.message);
    }
    int r = seal_engine();
    if (r < 0)
        engine_fail(NOT_EXECUTABLE, "cannot narrow itself: %s", strerror(-r));
    if (sentry_start(&code, &control, &sentry, &err) < 0)
        engine_fail(NOT_EXECUTABLE, "%s", err.message);
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, NULL);
    int signals = signalfd(-1, &all, SFD_CLOEXEC);
    if (signals < 0)
        engine_fail(NOT_EXECUTABLE, "cannot watch signals: %s", strerror(errno));
    begin(&code, &control, &sentry);
    if (code.serves)
        say_name(&control);
    if (code.contained)
        close(code.begun);
    follow(signals, &control, &sentry, &code);
}
