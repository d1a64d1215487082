/* Sets inotify watches in the place of the code, without the events that would tell who reads a
 * shared file. Runs in the hand. */
#include "base/cleanup.h"
#include "kernel/process/broker.h"
#include "kernel/process/learn.h"
#include "kernel/process/report.h"
#include "os/sys.h"

#include <errno.h>
#include <linux/capability.h>
#include <stdio.h>
#include <string.h>
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

/* Whose watch it is: where there are two users, the caller's own. */
static int find_ids(const struct kernel *k, pid_t pid, uid_t *uid, gid_t *gid)
{
    struct err err = ERR_INIT;
    struct proc_status s;
    *uid = k->host_uid;
    *gid = k->host_gid;
    if (!k->beside)
        return 0;
    if (procfs_status(pid, &s, &err) < 0)
        return -ESRCH;
    *uid = s.uid[3];
    *gid = s.gid[3];
    return 0;
}

static bool use_rights(const struct __user_cap_data_struct rights[2])
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    return syscall(SYS_capset, &head, rights) == 0;
}

static bool rights_now(struct __user_cap_data_struct ret[2])
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    return syscall(SYS_capget, &head, ret) == 0;
}

/* Neither call says whether it was done. */
static bool become(uid_t uid, gid_t gid)
{
    setfsgid(gid);
    setfsuid(uid);
    return (uid_t)setfsuid((uid_t)-1) == uid && (gid_t)setfsgid((gid_t)-1) == gid;
}

/* As the code would: from its root, and with its rights. What the hand may do in a user namespace
 * that it is in, the code may not. (The kernel takes rights away, or gives them, with an id that
 * becomes, or was, root's: so they are put back last.) */
static int watch_as(uid_t uid, gid_t gid, int inotify, pid_t pid, const char *path, uint32_t mask)
{
    struct __user_cap_data_struct all[2], none[2];
    if (!rights_now(all))
        return -EPERM;
    memcpy(none, all, sizeof none);
    none[0].effective = none[1].effective = 0;
    int number =
        become(uid, gid) && use_rights(none) ? add_watch(inotify, pid, path, mask) : -EPERM;
    setfsuid(geteuid());
    setfsgid(getegid());
    return use_rights(all) ? number : -EPERM;
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
    uid_t uid;
    gid_t gid;
    int known = find_ids(k, pid, &uid, &gid);
    return known < 0 ? known : watch_as(uid, gid, inotify, pid, path, mask);
}
