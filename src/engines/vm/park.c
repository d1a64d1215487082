/* `brig-vmm park`: a guest is booted until init in it dials the monitor for its identity. Nobody
 * answers: its processors are stopped, and what it is lies in two files then, its memory and its
 * state. The process ends; a template has none while it waits. `brig-vmm clone` puts the state into
 * a machine of its own and answers.
 *
 * VM-29  What is parked has begun nothing: no stream is open but the one that is being dialled, no
 * file is open, and it was told nothing that a clone must not share with another one. */
#include "base/cleanup.h"
#include "engines/vm/monitor.h"
#include "os/fd.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define TAG_MACHINE STATE_TAG('b', 'r', 'i', 'g')
#define VERSION     1u

struct machine_state {
    uint64_t memory;
    uint32_t version, cpus, devices, run_size;
};

static struct machine_state describe(const struct machine *m)
{
    return (struct machine_state){.memory = m->memory.size,
                                  .version = VERSION,
                                  .cpus = m->cpu_count,
                                  .devices = m->device_count,
                                  .run_size = (uint32_t)m->run_size};
}

/* ---- park ---- */

static int milliseconds_left(const struct timespec *begun, unsigned seconds)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    int64_t left = (int64_t)seconds - (now.tv_sec - begun->tv_sec);
    return left > 0 ? (int)left * 1000 : 0;
}

/* VM-14 holds here as well. */
static int wait_for_dial(struct monitor *m, unsigned seconds, struct err *err)
{
    struct timespec begun;
    clock_gettime(CLOCK_MONOTONIC, &begun);
    for (;;) {
        struct pollfd fds[1 + BELLS_FDS] = {{.fd = m->ended_fd, .events = POLLIN}};
        int left = milliseconds_left(&begun, seconds);
        if (left == 0)
            return err_set(err, ERR_SYSTEM, "the guest did not come up in time");
        int n = poll(fds, 1 + bells_watch(m, fds + 1), left);
        if (n < 0 && errno != EINTR)
            return err_sys(err, "wait for the guest");
        if (n <= 0)
            continue;
        bells_answer(m, fds + 1);
        enum vsock_dial dial = vsock_dialled(&m->vsock);
        if (dial == VSOCK_WAITS)
            return 0;
        if (dial == VSOCK_ASTRAY)
            return err_set(err, ERR_SYSTEM, "the guest did not come to where it waits");
        if (fds[0].revents)
            return err_set(err, ERR_SYSTEM, "%s", processors_end(m));
    }
}

static int save(struct monitor *m, int state, struct err *err)
{
    static uint8_t room[STATE_MAX];
    struct state_writer w = {.data = room, .room = sizeof room};
    const struct machine_state is = describe(&m->machine);
    state_put(&w, TAG_MACHINE, &is, sizeof is);
    if (!device_live(&m->vsock.device) || !device_live(&m->fs.device) ||
        vsock_dialled(&m->vsock) != VSOCK_WAITS)
        return err_set(err, ERR_SYSTEM, "the guest did not stay where it waits");
    vsock_save(&m->vsock, &w);
    if (fs_save(&m->fs, &w, err) < 0 || arch_save(&m->machine, &w, err) < 0)
        return err_number(err);
    if (w.failed)
        return err_set(err, ERR_LIMIT, "the state of the machine is too large");
    if (fd_write_all(state, w.data, w.len) < 0)
        return err_sys(err, "write the state of the machine");
    return 0;
}

int park(struct monitor *m, int state, unsigned seconds, struct err *err)
{
    if (wait_for_dial(m, seconds, err) < 0 || processors_halt(m, err) < 0)
        return err_number(err);
    return save(m, state, err);
}

/* ---- clone ---- */

static int read_all(int fd, uint8_t *to, size_t len, struct err *err)
{
    for (size_t done = 0; done < len;) {
        ssize_t n = pread(fd, to + done, len - done, (off_t)done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return err_sys(err, "read the state of the machine");
        done += (size_t)n;
    }
    return 0;
}

static bool is_same(const struct machine_state *a, const struct machine_state *b)
{
    return a->memory == b->memory && a->version == b->version && a->cpus == b->cpus &&
           a->devices == b->devices && a->run_size == b->run_size;
}

static int restore(struct monitor *m, struct state_reader *r, struct err *err)
{
    const struct machine_state is = describe(&m->machine);
    struct machine_state was;
    if (!state_get(r, TAG_MACHINE, &was, sizeof was) || !is_same(&was, &is))
        return err_set(err, ERR_PROTOCOL, "it is the state of another machine");
    if (!vsock_restore(&m->vsock, r))
        return err_set(err, ERR_PROTOCOL, "the state of the streams is malformed");
    if (fs_restore(&m->fs, r, err) < 0 || arch_restore(&m->machine, r, err) < 0)
        return err_number(err);
    if (!state_ended(r))
        return err_set(err, ERR_PROTOCOL, "the state of the machine is malformed");
    return 0;
}

/* An interrupt may have been on its way to the controllers: one too many does no harm. */
static void interrupt_again(const struct machine *m)
{
    for (unsigned i = 0; i < m->device_count; i++)
        if (m->devices[i]->interrupts)
            m->devices[i]->interrupt(m->devices[i]);
}

int park_restore(struct monitor *m, int state, struct err *err)
{
    struct stat sb;
    if (fstat(state, &sb) < 0)
        return err_sys(err, "look at the state of the machine");
    if (sb.st_size <= 0 || sb.st_size > STATE_MAX)
        return err_set(err, ERR_PROTOCOL, "the state of the machine has no size that it can have");
    size_t len = (size_t)sb.st_size;
    void *room = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (room == MAP_FAILED)
        return err_sys(err, "map the state of the machine");
    struct state_reader r = {.data = room, .len = len};
    int result = read_all(state, room, len, err);
    if (result >= 0 && (result = restore(m, &r, err)) >= 0)
        interrupt_again(&m->machine);
    munmap(room, len);
    close(state);
    return result;
}
