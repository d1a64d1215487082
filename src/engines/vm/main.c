/* brig-vmm: the monitor of one virtual machine. brig starts it in the place of the code, inside the
 * walls of the container tier:
 *
 *   brig-vmm MEMORY CPUS UID NETWORK KVM KERNEL INITRAMFS PLAN SECONDS TERMINAL
 *   brig-vmm serve MEMORY CPUS UID NETWORK SECONDS
 *   brig-vmm park MEMORY CPUS UID NETWORK SECONDS     (park.c)
 *   brig-vmm clone MEMORY CPUS UID NETWORK SECONDS
 *   brig-vmm join …                                (join.c)
 *
 * KVM to PLAN are descriptors: /dev/kvm, opened outside, and sealed files. NETWORK is a
 * guest_network, SECONDS are what the guest has to come up, TERMINAL is 1 if descriptors 0 to 2 are
 * one. It boots the kernel, tells init in the guest what to run, carries input, output and
 * connections, and ends as the code ended. With `serve` it runs no code by itself: it gets the
 * descriptors over a socket that is descriptor 3, says on its output by which name programs can be
 * joined to the guest (joins.h), and lasts as long as the machine. With `park` it boots a guest
 * into a file of memory and ends, with 0, when that waits for its identity; with `clone` it serves
 * in a copy of it.
 *
 * One thread serves the devices, one runs each processor. Before the guest's first instruction each
 * of them gives up all system calls but those that it works with.
 *
 * VM-14  A guest that does not say in time that it is up ends the run. */
#include "base/cleanup.h"
#include "base/num.h"
#include "engines/vm/join.h"
#include "engines/vm/monitor.h"
#include "os/rights.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

static struct monitor monitor;

/* Most of it is room for streams that are not in use. In huge pages each used one would take the
 * memory of thirty. The guest's memory may well lie in huge pages. */
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

enum {
    AT_SESSION,
    AT_ENDED = SESSION_FDS,
    AT_EGRESS,
    AT_JOINS = AT_EGRESS + EGRESS_FDS,
    AT_BELLS = AT_JOINS + JOINS_FDS,
};

/* How the run ended, as an exit status; a signal ends this process by itself. */
static int serve(struct monitor *m)
{
    for (;;) {
        struct pollfd fds[AT_BELLS + BELLS_FDS];
        pthread_mutex_lock(&m->machine.lock);
        session_watch(&m->session, fds);
        egress_watch(&m->egress, fds + AT_EGRESS);
        joins_watch(&m->joins, fds + AT_JOINS);
        pthread_mutex_unlock(&m->machine.lock);
        fds[AT_ENDED] = (struct pollfd){.fd = m->ended_fd, .events = POLLIN};
        unsigned bells = bells_watch(m, fds + AT_BELLS);
        int n = poll(fds, AT_BELLS + bells, session_patience(&m->session));
        if (n < 0 && errno != EINTR)
            return 125;
        if (n < 0)
            continue;
        bells_answer(m, fds + AT_BELLS);
        pthread_mutex_lock(&m->machine.lock);
        egress_step(&m->egress, fds + AT_EGRESS);
        joins_step(&m->joins, fds + AT_JOINS);
        int status = session_step(&m->session, fds);
        pthread_mutex_unlock(&m->machine.lock);
        if (status >= 0)
            return status;
        if (fds[AT_ENDED].revents)
            return session_lost(&m->session, processors_end(m));
    }
}

struct arguments {
    enum monitor_mode mode;
    uint64_t memory, cpus, uid, network, kvm, kernel, initramfs, plan, seconds, terminal;
    uint64_t memory_file, state_file;
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

#define HANDOVER     3
#define HANDOVER_MAX 5

/* The descriptors that init hands to the monitor of a run come over a socket, so that init keeps
 * none of them. */
static int take_handover(uint64_t *const *fds, size_t count, struct err *err)
{
    int got[HANDOVER_MAX] = {0};
    char byte;
    const struct iovec part = {&byte, 1};
    struct rights rights = {.fds = got, .room = (unsigned)count};
    if (rights_receive(HANDOVER, &part, 1, 0, &rights) != 1 || rights.count != count)
        return err_set(err, ERR_USAGE, "it is started by brig, with descriptors");
    for (size_t i = 0; i < count; i++)
        *fds[i] = (uint64_t)got[i];
    close(HANDOVER);
    return 0;
}

static int take_descriptors(struct arguments *a, struct err *err)
{
    uint64_t *const served[] = {&a->kvm, &a->kernel, &a->initramfs, &a->plan};
    uint64_t *const parked[] = {&a->kvm, &a->kernel, &a->initramfs, &a->memory_file,
                                &a->state_file};
    uint64_t *const cloned[] = {&a->kvm, &a->memory_file, &a->state_file, &a->plan};
    switch (a->mode) {
    case MONITOR_PARKS:
        return take_handover(parked, ARRAY_LEN(parked), err);
    case MONITOR_CLONES:
        return take_handover(cloned, ARRAY_LEN(cloned), err);
    default:
        return take_handover(served, ARRAY_LEN(served), err);
    }
}

static int read_served(enum monitor_mode mode, char **argv, struct arguments *a, struct err *err)
{
    uint64_t *numbers[] = {&a->memory, &a->cpus, &a->uid, &a->network, &a->seconds};
    *a = (struct arguments){.mode = mode};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (!argv[i] || num_parse_uint(argv[i], numbers[i], err) < 0)
            return err_set(err, ERR_USAGE, "it is started by brig, with five numbers");
    return check_arguments(a, err) < 0 ? err_number(err) : take_descriptors(a, err);
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

static int make_machine(struct monitor *m, const struct arguments *a, struct err *err)
{
    struct machine_wish wish = {.kvm = (int)a->kvm,
                                .memory = a->memory,
                                .cpus = (unsigned)a->cpus,
                                .kind = a->mode == MONITOR_PARKS    ? MACHINE_PARKS
                                        : a->mode == MONITOR_CLONES ? MACHINE_CLONE
                                                                    : MACHINE_ALONE,
                                .file = (int)a->memory_file};
    if (machine_make(&m->machine, &wish, err) < 0)
        return err_number(err);
    if (wish.kind != MACHINE_ALONE) /* VM-33: it is mapped */
        close(wish.file);
    vsock_init(&m->vsock, &m->machine.memory);
    if (open_view(m, err) < 0 || machine_add(&m->machine, &m->vsock.device, err) < 0 ||
        machine_add(&m->machine, &m->fs.device, err) < 0)
        return err_number(err);
    if (a->mode == MONITOR_CLONES)
        return park_restore(m, (int)a->state_file, err);
    int result = machine_load(&m->machine, (int)a->kernel, (int)a->initramfs, err);
    close((int)a->kernel);
    close((int)a->initramfs);
    return result;
}

/* A guest that is to be parked is connected with nothing. */
static int connect_session(struct monitor *m, const struct arguments *a, struct err *err)
{
    bool serves = a->mode != MONITOR_RUNS;
    joins_init(&m->joins, &m->vsock);
    if (a->mode == MONITOR_PARKS) {
        vsock_silence(&m->vsock);
        return 0;
    }
    if (session_open(&m->session, &m->vsock, (int)a->plan, (uint32_t)a->uid, a->terminal != 0,
                     err) < 0 ||
        egress_open(&m->egress, &m->vsock, a->network != GUEST_NETWORK_NONE,
                    a->network == GUEST_NETWORK_RULES, err) < 0 ||
        (serves && joins_open(&m->joins, err) < 0))
        return err_number(err);
    if (serves)
        session_serve(&m->session, m->joins.name);
    return 0;
}

static int make(struct monitor *m, const struct arguments *a, struct err *err)
{
    m->mode = a->mode;
    if (make_machine(m, a, err) < 0 || connect_session(m, a, err) < 0)
        return err_number(err);
    fs_share(&m->fs, a->mode != MONITOR_RUNS);
    if (a->mode != MONITOR_PARKS)
        close((int)a->kvm);
    return processors_start(m, err) < 0 ? err_number(err) : seal_devices(m, err);
}

static int run(struct monitor *m, const struct arguments *a)
{
    if (m->mode == MONITOR_CLONES) /* when it was parked, a notification may have been on its way */
        bells_ring(m);
    session_begin(&m->session, (unsigned)a->seconds);
    pthread_barrier_wait(&m->sealed);
    int status = serve(m);
    session_end_as(&m->session);
    return status;
}

static int run_parking(struct monitor *m, const struct arguments *a)
{
    struct err err = ERR_INIT;
    pthread_barrier_wait(&m->sealed);
    return park(m, (int)a->state_file, (unsigned)a->seconds, &err) < 0 ? stop(&err) : 0;
}

static int read_words(int argc, char **argv, struct arguments *a, struct err *err)
{
    static const struct {
        const char *name;
        enum monitor_mode mode;
    } modes[] = {{"serve", MONITOR_SERVES}, {"park", MONITOR_PARKS}, {"clone", MONITOR_CLONES}};
    for (size_t i = 0; argc == 7 && i < ARRAY_LEN(modes); i++)
        if (strcmp(argv[1], modes[i].name) == 0)
            return read_served(modes[i].mode, argv + 2, a, err);
    return argc == 11 ? read_arguments(argv + 1, a, err)
                      : err_set(err, ERR_USAGE, "it is started by brig");
}

int main(int argc, char **argv)
{
    struct monitor *m = &monitor;
    struct arguments a = {0};
    struct err err = ERR_INIT;
    prctl(PR_SET_NAME, "brig-vmm");
    stay_small(m);
    if (argc > 1 && strcmp(argv[1], "join") == 0)
        join_main(argc, argv);
    if (read_words(argc, argv, &a, &err) < 0 || make(m, &a, &err) < 0)
        return stop(&err);
    _exit(m->mode == MONITOR_PARKS ? run_parking(m, &a) : run(m, &a));
}
