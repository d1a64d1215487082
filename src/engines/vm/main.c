/* brig-vmm: the monitor of one virtual machine. brig starts it in the place of the code, inside the
 * walls of the container tier:
 *
 *   brig-vmm MEMORY CPUS UID NETWORK KVM KERNEL INITRAMFS PLAN SECONDS TERMINAL
 *   brig-vmm serve MEMORY CPUS UID NETWORK SECONDS
 *   brig-vmm join …                                (join.c)
 *
 * KVM to PLAN are descriptors: /dev/kvm, opened outside, and sealed files. NETWORK is a
 * guest_network, SECONDS are what the guest has to come up, TERMINAL is 1 if descriptors 0 to 2 are
 * one. It boots the kernel, tells init in the guest what to run, carries input, output and
 * connections, and ends as the code ended. With `serve` it runs no code by itself: it gets the
 * descriptors over a socket that is descriptor 3, says on its output by which name programs can be
 * joined to the guest (joins.h), and lasts as long as the machine.
 *
 * One thread serves the devices, one runs each processor. Before the guest's first instruction each
 * of them gives up all system calls but those that it works with.
 *
 * VM-13  Of KVM's calls only KVM_RUN is left; nothing is executed, and files are opened below
 * folders that are open. No socket is made; with network rules, those of one family and type.
 * VM-14  A guest that does not say in time that it is up ends the run. */
#include "base/num.h"
#include "engines/vm/egress.h"
#include "engines/vm/fs.h"
#include "engines/vm/join.h"
#include "engines/vm/joins.h"
#include "engines/vm/machine.h"
#include "engines/vm/session.h"
#include "engines/vm/vsock.h"
#include "os/rights.h"
#include "os/seal.h"
#include "os/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/kvm.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

struct monitor {
    struct machine machine;
    struct vsock vsock;
    struct fs fs;
    struct session session;
    struct egress egress;
    struct joins joins;
    int ended_fd;    /* a processor stopped for good */
    _Atomic int end; /* MACHINE_GOES_ON until one did */
    pthread_barrier_t sealed;
};
static struct monitor monitor;

/* Most of it is room for streams that are not there: in huge pages, each that is would take as much
 * as thirty. The guest's memory may well lie in such pages. */
static void stay_small(struct monitor *m)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t from = ((uintptr_t)m + page - 1) & ~(page - 1);
    madvise((void *)from, (uintptr_t)(m + 1) - from, MADV_NOHUGEPAGE);
}

static int stop(const struct err *err)
{
    dprintf(2, "brig-vmm: %s\n", err->message);
    if (err->hint[0])
        dprintf(2, "  hint: %s\n", err->hint);
    return 125;
}

/* VM-13: a processor runs, and says when it has ended. */
static int seal_processor(struct err *err)
{
    static const int allowed[] = {SEAL_CALLS_LIFE, SYS_write, SYS_writev, SYS_ppoll};
    static const struct seal_choice choices[] = {SEAL_CHOICES_NO_CODE,
                                                 {SYS_ioctl, 1, ~0u, {KVM_RUN}, 1}};
    return seal_calls(&(struct seal_calls){allowed, sizeof allowed / sizeof *allowed, choices,
                                           sizeof choices / sizeof *choices},
                      "a processor of the guest", err);
}

/* Where the code's connections lead is up to the network that the monitor stands in: there every
 * address ends at brig-proxy, or nowhere. */
static int seal_devices(const struct monitor *m, struct err *err)
{
    bool carry = m->vsock.carried_max > 0;
    static const int allowed[] = {
        SEAL_CALLS_LIFE, SYS_read,         SYS_write,     SYS_writev,     SYS_preadv,
        SYS_pwritev,     SYS_close,        SYS_fstat,     SYS_newfstatat, SYS_statx,
        SYS_fstatfs,     SYS_fcntl,        SYS_lseek,     SYS_getdents64, SYS_readlinkat,
        SYS_mkdirat,     SYS_unlinkat,     SYS_symlinkat, SYS_linkat,     SYS_renameat2,
        SYS_fchmodat,    SYS_utimensat,    SYS_ftruncate, SYS_fallocate,  SYS_fsync,
        SYS_ppoll,       SYS_rt_sigaction,
#ifdef SYS_poll
        SYS_poll,
#endif
#ifdef SYS_renameat
        SYS_renameat,
#endif
        SYS_connect,     SYS_shutdown, /* the last two: with network rules alone */
    };
    const size_t allowed_count = sizeof allowed / sizeof *allowed - (carry ? 0 : 2);
    const uint32_t listener = (uint32_t)m->joins.listener;
    struct seal_choice choices[] = {
        SEAL_CHOICES_NO_CODE,
        {SYS_openat, 0, 0x80000000u, {0}, 1},        /* below an open folder */
        {SYS_kill, 0, ~0u, {(uint32_t)getpid()}, 1}, /* to end as the code ended */
        {SYS_ioctl, 1, ~0u, {TIOCGWINSZ, TCGETS, TCSETS}, m->session.terminal ? 3 : 0},
        {SYS_socket, 0, ~0u, {(uint32_t)m->egress.family}, 1, true},
        {SYS_socket, 2, ~0u, {0}, 1, true},
        {SYS_socket, 1, ~0u, {SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC}, carry ? 1 : 0},
        {SYS_accept4, 0, ~0u, {listener}, m->joins.listener >= 0 ? 1 : 0},
    };
    return seal_calls(
        &(struct seal_calls){allowed, allowed_count, choices, sizeof choices / sizeof *choices},
        "the monitor", err);
}

static void *run_processor(void *argument)
{
    struct monitor *m = &monitor;
    unsigned cpu = (unsigned)(uintptr_t)argument;
    struct err err = ERR_INIT;
    const uint64_t one = 1;
    enum machine_end end;
    if (seal_processor(&err) < 0)
        _exit(stop(&err));
    pthread_barrier_wait(&m->sealed);
    while ((end = machine_step(&m->machine, cpu)) == MACHINE_GOES_ON)
        ;
    /* How the machine ended is what the first one met: the others stop in its wake. */
    atomic_compare_exchange_strong(&m->end, &(int){MACHINE_GOES_ON}, (int)end);
    while (write(m->ended_fd, &one, sizeof one) < 0 && errno == EINTR)
        ;
    for (;;) /* the end of a thread makes calls that are not left */
        syscall(SYS_ppoll, NULL, 0, NULL, NULL, 0);
    return NULL;
}

static int start_processors(struct monitor *m, struct err *err)
{
    pthread_t thread;
    pthread_attr_t attr;
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, 128 << 10);
    pthread_barrier_init(&m->sealed, NULL, m->machine.cpu_count + 1);
    for (unsigned i = 0; i < m->machine.cpu_count; i++)
        if ((errno = pthread_create(&thread, &attr, run_processor, (void *)(uintptr_t)i)))
            return err_sys(err, "start a processor's thread");
    return 0;
}

enum {
    AT_SESSION,
    AT_ENDED = SESSION_FDS,
    AT_EGRESS,
    AT_JOINS = AT_EGRESS + EGRESS_FDS,
    AT_BELLS = AT_JOINS + JOINS_FDS,
};
#define BELLS (MACHINE_DEVICES_MAX * DEVICE_QUEUES_MAX)

static unsigned watch_bells(struct monitor *m, struct pollfd *fds)
{
    unsigned n = 0;
    for (unsigned d = 0; d < m->machine.device_count; d++)
        for (unsigned q = 0; q < m->machine.devices[d]->queue_count; q++)
            fds[n++] = (struct pollfd){.fd = m->machine.bells[d][q], .events = POLLIN};
    return n;
}

static void answer_bells(struct monitor *m, const struct pollfd *fds)
{
    uint64_t count;
    for (unsigned d = 0; d < m->machine.device_count; d++)
        for (unsigned q = 0; q < m->machine.devices[d]->queue_count; q++, fds++)
            if ((fds->revents & POLLIN) && read(fds->fd, &count, sizeof count) == sizeof count) {
                pthread_mutex_lock(&m->machine.lock);
                device_notify(m->machine.devices[d], q);
                pthread_mutex_unlock(&m->machine.lock);
            }
}

/* How the run ended, as an exit status; a signal ends this process by itself. */
static int serve(struct monitor *m)
{
    for (;;) {
        struct pollfd fds[AT_BELLS + BELLS];
        pthread_mutex_lock(&m->machine.lock);
        session_watch(&m->session, fds);
        egress_watch(&m->egress, fds + AT_EGRESS);
        joins_watch(&m->joins, fds + AT_JOINS);
        pthread_mutex_unlock(&m->machine.lock);
        fds[AT_ENDED] = (struct pollfd){.fd = m->ended_fd, .events = POLLIN};
        unsigned bells = watch_bells(m, fds + AT_BELLS);
        int n = poll(fds, AT_BELLS + bells, session_patience(&m->session));
        if (n < 0 && errno != EINTR)
            return 125;
        if (n < 0)
            continue;
        answer_bells(m, fds + AT_BELLS);
        pthread_mutex_lock(&m->machine.lock);
        egress_step(&m->egress, fds + AT_EGRESS);
        joins_step(&m->joins, fds + AT_JOINS);
        int status = session_step(&m->session, fds);
        pthread_mutex_unlock(&m->machine.lock);
        if (status >= 0)
            return status;
        if (fds[AT_ENDED].revents)
            return session_lost(&m->session,
                                m->end == MACHINE_RESET ? "the guest's kernel gave up (it panicked)"
                                : m->end == MACHINE_OFF ? "the guest switched itself off"
                                : m->end == MACHINE_FAULT
                                    ? "the guest's kernel gave up (its processor found no way on)"
                                    : "the guest's processor cannot go on");
    }
}

struct arguments {
    uint64_t memory, cpus, uid, network, kvm, kernel, initramfs, plan, seconds, terminal;
    bool serves;
};

static int check_arguments(const struct arguments *a, struct err *err)
{
    if (a->cpus < 1 || a->cpus > MACHINE_CPUS_MAX || a->memory < (64u << 20) ||
        (a->memory & 0x1fffff))
        return err_set(err, ERR_USAGE, "memory or processors are out of range");
    if (a->seconds < 1 || a->seconds > SESSION_BOOT_MAX)
        return err_set(err, ERR_USAGE, "the time to come up is out of range");
    return 0;
}

static int read_arguments(char **argv, struct arguments *a, struct err *err)
{
    uint64_t *numbers[] = {&a->memory, &a->cpus,      &a->uid,  &a->network, &a->kvm,
                           &a->kernel, &a->initramfs, &a->plan, &a->seconds, &a->terminal};
    *a = (struct arguments){0};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (!argv[i] || num_parse_uint(argv[i], numbers[i], err) < 0)
            return err_set(err, ERR_USAGE, "it is started by brig, with ten numbers");
    return check_arguments(a, err);
}

#define SERVED_HANDOVER 3

/* What a run is handed by init comes from the warden here: init keeps none of it. */
static int take_handover(struct arguments *a, struct err *err)
{
    uint64_t *fds[] = {&a->kvm, &a->kernel, &a->initramfs, &a->plan};
    enum { COUNT = sizeof fds / sizeof *fds };
    int got[COUNT];
    char byte;
    const struct iovec part = {&byte, 1};
    struct rights rights = {.fds = got, .room = COUNT};
    if (rights_receive(SERVED_HANDOVER, &part, 1, 0, &rights) != 1 || rights.count != COUNT)
        return err_set(err, ERR_USAGE, "it is started by brig, with descriptors");
    for (size_t i = 0; i < COUNT; i++)
        *fds[i] = (uint64_t)got[i];
    close(SERVED_HANDOVER);
    return 0;
}

static int read_served(char **argv, struct arguments *a, struct err *err)
{
    uint64_t *numbers[] = {&a->memory, &a->cpus, &a->uid, &a->network, &a->seconds};
    *a = (struct arguments){.serves = true};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (!argv[i] || num_parse_uint(argv[i], numbers[i], err) < 0)
            return err_set(err, ERR_USAGE, "it is started by brig, with five numbers");
    return check_arguments(a, err) < 0 ? err_number(err) : take_handover(a, err);
}

static int open_view(struct monitor *m, struct err *err)
{
    int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    int self = open("/proc/self/fd", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (root < 0 || self < 0)
        return err_sys(err, "open the view");
    errno = -fs_init(&m->fs, &m->machine.memory, root, self);
    return errno ? err_sys(err, "serve the view") : 0;
}

static int make(struct monitor *m, const struct arguments *a, struct err *err)
{
    if (machine_make(&m->machine, (int)a->kvm, a->memory, (unsigned)a->cpus, err) < 0)
        return err_number(err);
    vsock_init(&m->vsock, &m->machine.memory);
    if (open_view(m, err) < 0 || machine_add(&m->machine, &m->vsock.device, err) < 0 ||
        machine_add(&m->machine, &m->fs.device, err) < 0)
        return err_number(err);
    if (machine_load(&m->machine, (int)a->kernel, (int)a->initramfs, err) < 0 ||
        session_open(&m->session, &m->vsock, (int)a->plan, (uint32_t)a->uid, a->terminal != 0,
                     err) < 0 ||
        egress_open(&m->egress, &m->vsock, a->network != GUEST_NETWORK_NONE,
                    a->network == GUEST_NETWORK_RULES, err) < 0)
        return err_number(err);
    joins_init(&m->joins, &m->vsock);
    if (a->serves && joins_open(&m->joins, err) < 0)
        return err_number(err);
    if (a->serves)
        session_serve(&m->session, m->joins.name);
    fs_share(&m->fs, a->serves);
    close((int)a->kernel);
    close((int)a->initramfs);
    close((int)a->kvm);
    m->ended_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return m->ended_fd < 0 ? err_sys(err, "make an eventfd") : 0;
}

int main(int argc, char **argv)
{
    struct monitor *m = &monitor;
    struct arguments a;
    struct err err = ERR_INIT;
    prctl(PR_SET_NAME, "brig-vmm");
    stay_small(m);
    if (argc > 1 && strcmp(argv[1], "join") == 0)
        join_main(argc, argv);
    bool serves = argc == 7 && strcmp(argv[1], "serve") == 0;
    int result = serves       ? read_served(argv + 2, &a, &err)
                 : argc == 11 ? read_arguments(argv + 1, &a, &err)
                              : err_set(&err, ERR_USAGE, "it is started by brig");
    if (result < 0 || make(m, &a, &err) < 0)
        return stop(&err);
    if (start_processors(m, &err) < 0 || seal_devices(m, &err) < 0)
        return stop(&err);
    session_begin(&m->session, (unsigned)a.seconds);
    pthread_barrier_wait(&m->sealed);
    int status = serve(m);
    session_end_as(&m->session);
    _exit(status);
}
