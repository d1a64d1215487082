/* Sets inotify watches in the place of the code, without the events that would tell who reads a
 * shared file. Runs in the hand. */
#include "base/cleanup.h"
#include "kernel/process/broker.h"
#include "kernel/process/learn.h"
#include "kernel/process/report.h"
#include "os/sys.h"

#include <errno.h>
#include <stdio.h>
#include <sys/fsuid.h>
#include <sys/inotify.h>

static int open_watched(pid_t pid, const char *path, uint32_t mask)
{
    int root = learn_root(pid);
    int flags = (mask & IN_DONT_FOLLOW ? O_NOFOLLOW : 0) | (mask & IN_ONLYDIR ? O_DIRECTORY : 0);
    int fd = sys_openat2(root, path[1] ? path + 1 : ".", (uint64_t)(O_PATH | O_CLOEXEC | flags), 0,
                         RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS);
    return fd < 0 ? -errno : fd;
}

static int add_watch(int inotify, pid_t pid, const char *path, uint32_t mask)
{
    char link[64];
    cleanup_fd int object = open_watched(pid, path, mask);
    if (object < 0)
        return object;
    snprintf(link, sizeof link, "/proc/self/fd/%d", object);
    int number = inotify_add_watch(inotify, link, mask & ~(uint32_t)IN_DONT_FOLLOW);
    return number < 0 ? -errno : number;
}

int broker_watch(struct kernel *k, const struct seccomp_notif *n, int mem, int watch)
{
    cleanup_fd int inotify = watch;
    char path[PATH_MAX];
    pid_t pid = (pid_t)n->pid;
    uint32_t mask = (uint32_t)n->data.args[2] & ~(uint32_t)FILTER_READ_EVENTS;
    if (!(mask & IN_ALL_EVENTS))
        return -EPERM;
    if (!report_absolute(mem, pid, AT_FDCWD, n->data.args[1], path))
        return -ENOENT;
    if (learn_root(pid) < 0)
        return -EACCES;
    /* As the code would: from its root, and with its rights. */
    setfsgid(k->host_gid);
    setfsuid(k->host_uid);
    int number = add_watch(inotify, pid, path, mask);
    setfsuid(geteuid());
    setfsgid(getegid());
    return number;
}
