/* Signals as something to read. */
#include "os/signals.h"

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
