/* The guardian's own code: raw system calls, its own stack, no libc state (LC-3). */
#include "lifecycle/guardian.h"
#include "os/raw_child.h"
#include "os/remove.h"
#include "plan/control.h"

#include <fcntl.h>

#define SIGKILL_NUMBER 9
#define SIGSTOP_NUMBER 19
#define KILL_MS        5000
/* Between two looks at a group whose tasks do not end. */
#define STAY_US 1000000

/* Decimal number at *at; moves past it. -1 if there is none. */
static int take_number(const char **at)
{
    int n = 0;
    const char *p = *at;
    if (*p < '0' || *p > '9')
        return -1;
    while (*p >= '0' && *p <= '9')
        n = n * 10 + (*p++ - '0');
    *at = p;
    return n;
}

static void stat_path(char out[32], int pid)
{
    char digits[12];
    int len = 0;
    const char *head = "/proc/", *tail = "/stat";
    char *to = out;
    while (*head)
        *to++ = *head++;
    do {
        digits[len++] = (char)('0' + pid % 10);
        pid /= 10;
    } while (pid);
    while (len)
        *to++ = digits[--len];
    while (*tail)
        *to++ = *tail++;
    *to = '\0';
}

static long read_stat(int pid, char *text, size_t size)
{
    char path[32];
    stat_path(path, pid);
    int fd = raw_openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    long n = raw_read(fd, text, size - 1);
    raw_close(fd);
    text[n > 0 ? n : 0] = '\0';
    return n > 0 ? n : 0;
}

static const char *skip_fields(const char *at, int count)
{
    while (count-- > 0) {
        while (*at && *at != ' ')
            at++;
        while (*at == ' ')
            at++;
    }
    return at;
}

/* The parent of a task, from the fields after the last parenthesis of its name; 0 if it is gone or
 * a zombie. A process whose first thread has ended is none as long as it has others. */
static int parent_of(int pid)
{
    char text[512];
    long n = read_stat(pid, text, sizeof text);
    long end = n;
    while (end > 0 && text[end] != ')')
        end--;
    if (end + 4 >= n)
        return 0;
    const char *at = text + end + 4, *threads = skip_fields(at, 16);
    int ppid = take_number(&at);
    if (text[end + 2] == 'Z' && take_number(&threads) < 2)
        return 0;
    return ppid > 0 ? ppid : 0;
}

/* Who is below the supervisor and is no part of the sandbox: the guardian and the helpers, with all
 * that is below them. */
struct spared {
    int guardian, helpers[GUARDIAN_HELPERS];
};

static bool is_spared(int pid, const struct spared *s)
{
    for (int i = 0; i < GUARDIAN_HELPERS; i++)
        if (pid == s->helpers[i])
            return true;
    return pid == s->guardian;
}

enum side { SIDE_OUTSIDE, SIDE_BELOW, SIDE_SPARED };

/* Who was seen in this pass, by number, as /proc lists them: nobody's parents are read twice, or a
 * long chain of processes would cost its square. Who has no place in it is only slower to judge.
 * One process at a time uses it: the supervisor, or the guardian after its death. */
#define SEEN_MAX 16384
static struct seen {
    int pid;
    enum side side;
} seen[SEEN_MAX];

static const struct seen *find_seen(int count, int pid)
{
    int low = 0, high = count;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (seen[middle].pid < pid)
            low = middle + 1;
        else
            high = middle;
    }
    return low < count && seen[low].pid == pid ? &seen[low] : NULL;
}

static enum side side_of(int pid, int top, const struct spared *spared, int count)
{
    for (int depth = 0; depth < 4096; depth++) {
        if (is_spared(pid, spared))
            return SIDE_SPARED;
        int parent = parent_of(pid);
        if (parent == top)
            return SIDE_BELOW;
        if (parent <= 1)
            return SIDE_OUTSIDE;
        const struct seen *known = find_seen(count, parent);
        if (known)
            return known->side;
        pid = parent;
    }
    return SIDE_OUTSIDE;
}

/* Send a signal to every living task below `top`, at once when it is seen: numbers go to others.
 * Returns how many there were; -1: nobody could be seen. */
static int signal_below(int top, const struct spared *spared, int sig)
{
    char block[4096] __attribute__((aligned(8)));
    int found = 0, count = 0;
    int proc = raw_openat(AT_FDCWD, "/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (proc < 0)
        return -1;
    for (long n; (n = raw_syscall(__NR_getdents64, proc, (long)block, sizeof block, 0)) > 0;)
        for (long at = 0; at < n;) {
            const struct raw_dirent *e = (const struct raw_dirent *)(block + at);
            const char *name = e->name;
            at += e->reclen;
            int pid = take_number(&name);
            if (pid <= 1 || *name != '\0')
                continue;
            enum side side = side_of(pid, top, spared, count);
            if (side == SIDE_BELOW) {
                raw_kill(pid, sig);
                found++;
            }
            if (count < SEEN_MAX)
                seen[count++] = (struct seen){pid, side};
        }
    raw_close(proc);
    return found;
}

/* init's pid may have been given to somebody else since: its name tells. */
static int is_init(int pid)
{
    static const char name[] = "(" INIT_NAME ")";
    char text[512];
    long n = read_stat(pid, text, sizeof text);
    const char *at = text;
    while (*at && *at != '(')
        at++;
    for (unsigned i = 0; i + 1 < sizeof name; i++)
        if (at + i >= text + n || at[i] != name[i])
            return 0;
    return 1;
}

/* Orphans come up to init, which is their reaper: as long as init lives, everything is below it.
 * Stopping first keeps a fork bomb from outrunning the loop. */
static bool kill_below(pid_t top, const struct spared *spared)
{
    int64_t deadline = raw_now_us() + 5000000;
    do {
        signal_below(top, spared, SIGSTOP_NUMBER);
        if (signal_below(top, spared, SIGKILL_NUMBER) == 0)
            return true;
    } while (raw_now_us() < deadline);
    return false;
}

static bool is_helper(int pid, const pid_t helpers[GUARDIAN_HELPERS])
{
    for (int i = 0; i < GUARDIAN_HELPERS; i++)
        if (pid == helpers[i])
            return true;
    return false;
}

/* One small file tells, where the kernel has it; if in doubt the answer is yes. */
bool guardian_has_children(pid_t guardian, const pid_t helpers[GUARDIAN_HELPERS])
{
    char text[512];
    int fd = raw_openat(AT_FDCWD, "/proc/thread-self/children", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return true;
    long n = raw_read(fd, text, sizeof text);
    raw_close(fd);
    if (n < 0 || n == (long)sizeof text)
        return true;
    text[n] = '\0';
    for (const char *at = text; *at;) {
        int pid = take_number(&at);
        if (pid > 0 && pid != guardian && !is_helper(pid, helpers) && parent_of(pid) != 0)
            return true;
        while (*at == ' ')
            at++;
        if (*at && (*at < '0' || *at > '9'))
            return true;
    }
    return false;
}

bool guardian_kill_children(pid_t supervisor, pid_t guardian, const pid_t helpers[GUARDIAN_HELPERS])
{
    struct spared spared = {.guardian = guardian};
    for (int i = 0; i < GUARDIAN_HELPERS; i++)
        spared.helpers[i] = helpers[i];
    return kill_below(supervisor, &spared);
}

void guardian_kill_tree(pid_t init_pid)
{
    if (init_pid <= 1 || !is_init(init_pid))
        return;
    const struct spared nobody = {.guardian = 0};
    kill_below(init_pid, &nobody);
    raw_kill(init_pid, SIGKILL_NUMBER);
}

/* A uid that only this sandbox has: one call reaches every task of it, however fast it forks. */
static void kill_by_uid(uid_t uid)
{
    long pid = raw_syscall5(__NR_clone, 0, 0, 0, 0, 0);
    if (pid == 0) {
        if (raw_syscall(__NR_setresuid, uid, uid, uid, 0) == 0)
            raw_kill(-1, SIGKILL_NUMBER);
        for (;;)
            raw_syscall(__NR_exit_group, 0, 0, 0, 0);
    }
}

static void remove_private_dir(const char *path)
{
    int fd = raw_openat(AT_FDCWD, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return;
    remove_folder(AT_FDCWD, path, fd);
    raw_close(fd);
}

struct raw_pollfd {
    int fd;
    short events, revents;
};

/* Returns when the supervisor is dead. If all goes well it never does: the supervisor ends the
 * guardian when there is nothing left to clean. Without a pidfd the guardian looks every now and
 * then: to clean up under a supervisor that lives would pull the sandbox from under it. */
static void wait_for_the_end(int supervisor)
{
    int pidfd = raw_pidfd_open(supervisor);
    while (raw_syscall(__NR_getppid, 0, 0, 0, 0) == supervisor) {
        if (pidfd < 0) {
            raw_sleep_us(20000);
            continue;
        }
        struct raw_pollfd fds = {pidfd, 1 /* POLLIN */, 0};
        raw_syscall5(__NR_ppoll, (long)&fds, 1, 0, 0, 0);
        if (fds.revents)
            return;
    }
}

/* Nobody else comes after the guardian, and nobody waits for it. A task that the kernel holds for a
 * file system that does not answer ends when that does; its group goes then. What else there is to
 * remove does not wait for that. */
static void clean(const struct guardian *g)
{
    bool held = cgroup_kill_and_remove_child(&g->group, KILL_MS);
    if (g->private_dir[0])
        remove_private_dir(g->private_dir);
    if (!held)
        return;
    do
        raw_sleep_us(STAY_US);
    while (cgroup_kill_and_remove_child(&g->group, 0));
    if (g->private_dir[0])
        remove_private_dir(g->private_dir);
}

int guardian_main(void *argument)
{
    struct guardian *g = argument;
    raw_syscall(__NR_setsid, 0, 0, 0, 0);
    raw_syscall(__NR_close_range, 0, (long)~0u, 0, 0);
    /* It may stay longer than anybody else: the caller's folder can be unmounted. All that it names
     * is named from the root. */
    raw_syscall(__NR_chdir, (long)"/", 0, 0, 0);
    wait_for_the_end(g->supervisor);
    if (g->kill_uid)
        kill_by_uid(g->kill_uid);
    else if (g->init_pid)
        guardian_kill_tree(g->init_pid);
    clean(g);
    return 0;
}
