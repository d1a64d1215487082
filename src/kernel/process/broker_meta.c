/* Changes permissions and time stamps in the place of the code, of files in the sandbox's own
 * places only (process tier). Runs in the hand. */
#include "kernel/process/broker.h"

#include "base/cleanup.h"
#include "base/text.h"
#include "kernel/process/task_memory.h"
#include "os/sys.h"

#include <errno.h>
#include <limits.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

/* Set-id bits are not for a sandbox to give. */
#define MODE_MASK 01777u

static int open_fd_of(pid_t pid, int fd)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/fd/%d", pid, fd);
    int copy = openat(AT_FDCWD, path, O_PATH | O_CLOEXEC);
    return copy < 0 ? -EBADF : copy;
}

static int open_start(pid_t pid, int dir)
{
    char path[64];
    if (dir != AT_FDCWD)
        return open_fd_of(pid, dir);
    snprintf(path, sizeof path, "/proc/%d/cwd", pid);
    int fd = openat(AT_FDCWD, path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

static int open_path_of(int mem, pid_t pid, int dir, uint64_t address, bool nofollow)
{
    char path[PATH_MAX];
    int result = task_copy_path(mem, address, path);
    if (result < 0)
        return result;
    cleanup_fd int start = path[0] == '/' ? -1 : open_start(pid, dir);
    if (path[0] != '/' && start < 0)
        return start;
    int fd = sys_openat2(start, path, O_PATH | O_CLOEXEC | (nofollow ? O_NOFOLLOW : 0), 0,
                         RESOLVE_NO_MAGICLINKS);
    return fd < 0 ? -errno : fd;
}

/* Strictly below one of the sandbox's own places, by the kernel's word for what was opened. */
static bool is_own(const struct kernel *k, int fd)
{
    char link[64], where[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, where, sizeof where - 1);
    if (n <= 0 || n >= (ssize_t)sizeof where - 1)
        return false;
    where[n] = '\0';
    for (unsigned i = 0; i < k->place_count; i++)
        if (k->places[i].writable && path_below(where, k->places[i].path))
            return true;
    return false;
}

struct change {
    int object; /* O_PATH */
    bool times;
    mode_t mode;
    bool now; /* time stamps: the current time */
    struct timespec stamps[2];
};

static int read_stamps(int mem, uint64_t address, struct change *c)
{
    c->times = true;
    c->now = address == 0;
    return c->now ? 0 : task_copy(mem, address, c->stamps, sizeof c->stamps);
}

/* What is asked for, by the call's own order of arguments. Obsolete calls (utime, utimes,
 * futimesat) are refused: libraries of today do not make them. */
static int read_change(const struct seccomp_notif *n, int mem, struct change *c)
{
    const struct seccomp_data *d = &n->data;
    pid_t pid = (pid_t)n->pid;
    int flags;
    switch (d->nr) {
    case SYS_fchmod:
        c->mode = (mode_t)d->args[1];
        return c->object = open_fd_of(pid, (int)d->args[0]);
#ifdef SYS_chmod
    case SYS_chmod:
        c->mode = (mode_t)d->args[1];
        return c->object = open_path_of(mem, pid, AT_FDCWD, d->args[0], false);
#endif
    case SYS_fchmodat:
        c->mode = (mode_t)d->args[2];
        return c->object = open_path_of(mem, pid, (int)d->args[0], d->args[1], false);
    case SYS_utimensat:
        flags = (int)d->args[3];
        if (read_stamps(mem, d->args[2], c) < 0)
            return -EFAULT;
        if (d->args[1] == 0)
            return c->object = open_fd_of(pid, (int)d->args[0]);
        return c->object =
                   open_path_of(mem, pid, (int)d->args[0], d->args[1], flags & AT_SYMLINK_NOFOLLOW);
    default:
        return -EPERM;
    }
}

static int make_change(const struct change *c)
{
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", c->object);
    if (c->times)
        return utimensat(AT_FDCWD, link, c->now ? NULL : c->stamps, 0) < 0 ? -errno : 0;
    return chmod(link, c->mode & MODE_MASK) < 0 ? -errno : 0;
}

int broker_meta(struct kernel *k, const struct seccomp_notif *n, int mem)
{
    struct change c = {.object = -1};
    int result = read_change(n, mem, &c);
    cleanup_fd int object = c.object;
    if (result < 0)
        return result;
    /* Still the same caller: what was read came from it and not from a process that got its number.
     */
    uint64_t id = n->id;
    if (ioctl(k->listener_fd, SECCOMP_IOCTL_NOTIF_ID_VALID, &id) < 0)
        return -ESRCH;
    return is_own(k, object) ? make_change(&c) : -EPERM;
}
