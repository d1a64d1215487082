/* The threads that run the guest's processors. */
#include "engines/vm/monitor.h"

#include "os/sys.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* Interrupts KVM_RUN when a monitor parks; nobody else sends this signal. */
#define KICK        SIGUSR1
#define STACK_BYTES (128u << 10)

static struct monitor *monitor;

static void tell_end(const struct monitor *m)
{
    const uint64_t one = 1;
    while (write(m->ended_fd, &one, sizeof one) < 0 && errno == EINTR)
        ;
}

static void *run_processor(void *argument)
{
    struct monitor *m = monitor;
    unsigned cpu = (unsigned)(uintptr_t)argument;
    struct err err = ERR_INIT;
    enum machine_end end;
    m->threads[cpu] = (int)syscall(SYS_gettid);
    if (seal_processor(&err) < 0) {
        dprintf(2, "brig-vmm: %s\n", err.message);
        _exit(125);
    }
    pthread_barrier_wait(&m->sealed);
    while ((end = machine_step(&m->machine, cpu)) == MACHINE_GOES_ON)
        ;
    if (end == MACHINE_HALTED)
        atomic_fetch_add(&m->halted, 1);
    else /* The first processor that ends says how the machine ended: the others only follow. */
        atomic_compare_exchange_strong(&m->end, &(int){MACHINE_GOES_ON}, (int)end);
    tell_end(m);
    for (;;) /* pthread_exit would need system calls that the filter forbids */
        syscall(SYS_ppoll, NULL, 0, NULL, NULL, 0);
    return NULL;
}

static void do_nothing(int sig)
{
    (void)sig;
}

static int take_kick(void)
{
    const struct sigaction kick = {.sa_handler = do_nothing};
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, KICK);
    return sigaction(KICK, &kick, NULL) < 0 ? -1 : sigprocmask(SIG_UNBLOCK, &set, NULL);
}

int processors_start(struct monitor *m, struct err *err)
{
    pthread_t thread;
    pthread_attr_t attr;
    monitor = m;
    m->ended_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (m->ended_fd < 0)
        return err_sys(err, "make an eventfd");
    if (m->mode == MONITOR_PARKS && take_kick() < 0)
        return err_sys(err, "set up a signal");
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, STACK_BYTES);
    pthread_barrier_init(&m->sealed, NULL, m->machine.cpu_count + 1);
    for (unsigned i = 0; i < m->machine.cpu_count; i++)
        if ((errno = pthread_create(&thread, &attr, run_processor, (void *)(uintptr_t)i)))
            return err_sys(err, "start a processor's thread");
    return 0;
}

int processors_halt(struct monitor *m, struct err *err)
{
    struct pollfd fd = {.fd = m->ended_fd, .events = POLLIN};
    uint64_t count;
    machine_halt(&m->machine);
    for (unsigned i = 0; i < m->machine.cpu_count; i++)
        if (syscall(SYS_tgkill, getpid(), m->threads[i], KICK) < 0)
            return err_sys(err, "stop a processor");
    while (m->halted < m->machine.cpu_count) {
        if (m->end != MACHINE_GOES_ON)
            return err_set(err, ERR_SYSTEM, "%s", processors_end(m));
        if (poll(&fd, 1, -1) > 0)
            (void)!read(m->ended_fd, &count, sizeof count);
    }
    return 0;
}

const char *processors_end(const struct monitor *m)
{
    return m->end == MACHINE_RESET   ? "the guest's kernel gave up (it panicked)"
           : m->end == MACHINE_OFF   ? "the guest switched itself off"
           : m->end == MACHINE_FAULT ? "the guest's kernel gave up (its processor found no way on)"
                                     : "the guest's processor cannot go on";
}
