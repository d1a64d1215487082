/* Kill and remove a group with raw system calls only. The guardian runs this in the memory of a
 * supervisor that was killed anywhere, also inside malloc or stdio: no libc, no errno, no heap. The
 * supervisor itself uses the same code, so there is one way to empty a group and it is tested
 * daily.
 *
 * Without cgroup.kill (v1, and v2 before 5.14) tasks are killed by number, and a hostile program
 * can die at the right moment so that its number goes to an unrelated process of the host. So: take
 * descriptors for the listed pids first, list again, and signal only through descriptors whose pid
 * is still listed. A number that changed hands in between is either not in the second list or its
 * descriptor refers to the dead task. */
#include "os/cgroup_internal.h"
#include "os/raw_child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>

#define BATCH            64
#define SLEEP_MIN_US     50
#define SLEEP_MAX_US     5000
#define POLITE_PASSES    3
#define CHILD_REMOVE_MS  5000
#define NO_PIDFD_SUPPORT (-ENOSYS)

struct pause {
    int64_t end_us;
    int64_t sleep_us;
};

static struct pause pause_start(unsigned deadline_ms)
{
    return (struct pause){.end_us = raw_now_us() + (int64_t)deadline_ms * 1000,
                          .sleep_us = SLEEP_MIN_US};
}

/* false when the time is up. */
static bool pause_next(struct pause *p)
{
    if (raw_now_us() >= p->end_us)
        return false;
    raw_sleep_us(p->sleep_us);
    p->sleep_us = p->sleep_us * 2 > SLEEP_MAX_US ? SLEEP_MAX_US : p->sleep_us * 2;
    return true;
}

static int write_control(int dir, const char *file, const char *text, size_t len)
{
    int fd = raw_openat(dir, file, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return fd;
    long n = raw_write(fd, text, len);
    raw_close(fd);
    return n < 0 ? (int)n : 0;
}

/* Calls fn for each pid of the group; stops when fn returns false. Returns 0 or -errno. */
static int each_pid(int dir, bool (*fn)(void *context, int pid), void *context)
{
    char text[1024];
    int fd = raw_openat(dir, "cgroup.procs", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return fd;
    int pid = 0;
    bool more = true;
    long n = 0;
    while (more && (n = raw_read(fd, text, sizeof text)) > 0) {
        for (long i = 0; more && i < n; i++) {
            if (text[i] >= '0' && text[i] <= '9') {
                pid = pid * 10 + (text[i] - '0');
                continue;
            }
            more = fn(context, pid);
            pid = 0;
        }
    }
    raw_close(fd);
    return n < 0 ? (int)n : 0;
}

struct batch {
    unsigned skip; /* pids before this batch in the list */
    unsigned count;
    int pid[BATCH];
    int pidfd[BATCH]; /* or -errno */
    bool listed[BATCH];
};

static bool collect(void *context, int pid)
{
    struct batch *b = context;
    if (b->skip > 0) {
        b->skip--;
        return true;
    }
    b->pid[b->count] = pid;
    /* 0 is a task of a foreign pid namespace: kill(0) would hit ourselves. */
    b->pidfd[b->count] = pid > 0 ? raw_pidfd_open(pid) : -ESRCH;
    b->listed[b->count] = false;
    return ++b->count < BATCH;
}

static bool confirm(void *context, int pid)
{
    struct batch *b = context;
    for (unsigned i = 0; i < b->count; i++)
        if (b->pid[i] == pid)
            b->listed[i] = true;
    return true;
}

static void signal_batch(struct batch *b)
{
    for (unsigned i = 0; i < b->count; i++) {
        if (b->pidfd[i] >= 0) {
            if (b->listed[i])
                raw_pidfd_send_signal(b->pidfd[i], SIGKILL);
            raw_close(b->pidfd[i]);
        } else if (b->listed[i] && b->pid[i] > 0 && b->pidfd[i] == NO_PIDFD_SUPPORT) {
            raw_kill(b->pid[i], SIGKILL);
        }
    }
}

/* One pass over the whole list. Returns how many tasks were listed, or -errno. */
static int kill_listed(int dir)
{
    unsigned total = 0;
    for (;;) {
        struct batch b;
        b.skip = total;
        b.count = 0;
        int r = each_pid(dir, collect, &b);
        if (r == 0 && b.count > 0)
            r = each_pid(dir, confirm, &b);
        signal_batch(&b);
        if (r < 0)
            return r;
        total += b.count;
        if (b.count < BATCH)
            return (int)total;
    }
}

static bool see_one(void *context, int pid)
{
    (void)pid;
    *(bool *)context = true;
    return false;
}

static int is_populated(int dir)
{
    bool any = false;
    int r = each_pid(dir, see_one, &any);
    return r < 0 ? r : any;
}

/* Forks that outrun the loop end when the group may have no more tasks. Not done at once: refused
 * forks are counted, and would look as if the program had met its own limit. */
static void stop_forks(const char *pids_dir)
{
    int dir = raw_openat(AT_FDCWD, pids_dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0)
        return;
    write_control(dir, "pids.max", "0", 1);
    raw_close(dir);
}

static int kill_loop(int dir, const char *pids_dir, struct pause *p)
{
    for (unsigned pass = 0;; pass++) {
        int n = kill_listed(dir);
        if (n <= 0)
            return n;
        if (pass == POLITE_PASSES)
            stop_forks(pids_dir);
        if (!pause_next(p))
            return -ETIMEDOUT;
    }
}

static int kill_at_once(int dir, struct pause *p)
{
    int r = write_control(dir, "cgroup.kill", "1", 1);
    while (r == 0 && (r = is_populated(dir)) > 0)
        r = pause_next(p) ? 0 : -ETIMEDOUT;
    return r;
}

static int kill_dir(const char *path, const char *pids_dir, bool v2, struct pause *p)
{
    int dir = raw_openat(AT_FDCWD, path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0)
        return dir == -ENOENT ? 0 : dir;
    int r = is_populated(dir);
    if (r > 0) {
        r = v2 ? kill_at_once(dir, p) : -ENOENT;
        if (r == -ENOENT)
            r = kill_loop(dir, pids_dir, p);
    }
    raw_close(dir);
    return r == -ENODEV ? 0 : r; /* removed under our hands */
}

int cgroup_kill_child(const struct cgroup_group *g, unsigned deadline_ms)
{
    bool v2 = g->version == CGROUP_V2;
    const char *pids_dir = g->dir[v2 ? SLOT_V2 : SLOT_PIDS];
    struct pause p = pause_start(deadline_ms);
    int result = 0;
    for (int i = 0; i < CGROUP_V1_HIERARCHIES; i++) {
        if (!g->dir[i][0])
            continue;
        int r = kill_dir(g->dir[i], pids_dir, v2, &p);
        if (r < 0)
            result = r;
    }
    return result;
}

int cgroup_rmdir_child(const char *dir, unsigned deadline_ms)
{
    struct pause p = pause_start(deadline_ms);
    for (;;) {
        int r = raw_unlinkat(AT_FDCWD, dir, AT_REMOVEDIR);
        if (r == 0 || r == -ENOENT)
            return 0;
        if (r != -EBUSY || !pause_next(&p))
            return r;
    }
}

static bool has_tasks(const char *path)
{
    int dir = raw_openat(AT_FDCWD, path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    int r = dir < 0 ? dir : is_populated(dir);
    if (dir >= 0)
        raw_close(dir);
    return r > 0;
}

/* A group without tasks that is busy all the same has a group in it, which somebody outside made:
 * the code sees no cgroups. That is not ours to remove, and to wait for it would be to wait
 * forever. A group with tasks is not even tried: rmdir takes a lock of the whole host. */
bool cgroup_kill_and_remove_child(const struct cgroup_group *g, unsigned kill_ms)
{
    bool held = false;
    if (g->version == CGROUP_NONE)
        return false;
    cgroup_kill_child(g, kill_ms);
    for (int i = 0; i < CGROUP_V1_HIERARCHIES; i++) {
        if (!g->dir[i][0])
            continue;
        if (has_tasks(g->dir[i]))
            held = true;
        else
            cgroup_rmdir_child(g->dir[i], CHILD_REMOVE_MS);
    }
    return held;
}
