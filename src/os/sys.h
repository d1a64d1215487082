/* System calls that the C library has no wrapper for, and constants newer than the distribution's
 * headers. Wrappers return what the kernel returns through errno, like libc's. */
#pragma once

#include "os/syscalls.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <unistd.h>

#define SYS_CLONE_CLEAR_SIGHAND 0x100000000ull
#define SYS_CLONE_INTO_CGROUP   0x200000000ull
#define SYS_CLONE_PIDFD         0x00001000ull
#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x00000080
#endif
#ifndef CLONE_NEWCGROUP
#define CLONE_NEWCGROUP 0x02000000
#endif

struct sys_clone_args {
    uint64_t flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls, set_tid,
        set_tid_size, cgroup;
};

struct sys_mount_attr {
    uint64_t attr_set, attr_clr, propagation, userns_fd;
};

#define SYS_MOUNT_ATTR_RDONLY      0x01
#define SYS_MOUNT_ATTR_NOSUID      0x02
#define SYS_MOUNT_ATTR_NODEV       0x04
#define SYS_MOUNT_ATTR_NOEXEC      0x08
#define SYS_MOUNT_ATTR_IDMAP       0x00100000
#define SYS_MOUNT_ATTR_NOSYMFOLLOW 0x00200000

#define SYS_OPEN_TREE_CLONE     1
#define SYS_OPEN_TREE_CLOEXEC   O_CLOEXEC
#define SYS_AT_RECURSIVE        0x8000
#define SYS_AT_EMPTY_PATH       0x1000
#define SYS_MOVE_MOUNT_F_EMPTY  0x04
#define SYS_MOVE_MOUNT_T_EMPTY  0x40
#define SYS_FSOPEN_CLOEXEC      1
#define SYS_FSMOUNT_CLOEXEC     1
#define SYS_FSCONFIG_SET_FLAG   0
#define SYS_FSCONFIG_SET_STRING 1
#define SYS_FSCONFIG_CMD_CREATE 6

/* As the kernel lays it out: the C libraries' own depend on their age. */
struct sys_statx {
    uint32_t mask, blksize;
    uint64_t attributes;
    uint32_t nlink, uid, gid;
    uint16_t mode, padding;
    uint64_t ino, size, blocks, attributes_mask;
    struct {
        int64_t sec;
        uint32_t nsec, padding;
    } times[4];
    uint32_t rdev_major, rdev_minor, dev_major, dev_minor;
    uint64_t mnt_id;
    uint64_t spare[13];
};
_Static_assert(sizeof(struct sys_statx) == 256, "as the kernel has it");

#define SYS_AT_STATX_DONT_SYNC 0x4000
#define SYS_STATX_BASIC        0x07ff
#define SYS_STATX_MNT_ID       0x1000

/* What the kernel knows by itself: a network or user file system that does not answer is not waited
 * for. Follows a link at the end. */
static inline int sys_statx_cached(int dir, const char *path, struct sys_statx *ret)
{
    return (int)syscall(SYS_statx, dir, path, SYS_AT_STATX_DONT_SYNC,
                        SYS_STATX_BASIC | SYS_STATX_MNT_ID, ret);
}

static inline int sys_statx_fd(int fd, struct sys_statx *ret)
{
    return (int)syscall(SYS_statx, fd, "", SYS_AT_STATX_DONT_SYNC | SYS_AT_EMPTY_PATH,
                        SYS_STATX_BASIC | SYS_STATX_MNT_ID, ret);
}

/* Since Linux 5.12: what is not known by now is EAGAIN, and nobody is asked. */
#define SYS_RESOLVE_CACHED 0x20

static inline long sys_clone3(struct sys_clone_args *args)
{
    return syscall(SYS_clone3, args, sizeof *args);
}

static inline int sys_close_range(unsigned first, unsigned last, unsigned flags)
{
    return (int)syscall(SYS_close_range, first, last, flags);
}

#define SYS_OPENAT2_TRIES        200
#define SYS_OPENAT2_TRIES_CACHED 16 /* there it also means that the path is not known */

/* Where a path that may not be left has `..` in it, the kernel gives up with EAGAIN if anything was
 * renamed or mounted meanwhile, anywhere on the host and by anybody. It says nothing about the
 * path, and to a caller it would be a file that is not there. A look at what is known alone gives
 * up as easily. */
static inline int sys_openat2(int dir, const char *path, uint64_t flags, uint64_t mode,
                              uint64_t resolve)
{
    struct open_how how = {.flags = flags, .mode = mode, .resolve = resolve};
    bool again = resolve & (RESOLVE_IN_ROOT | RESOLVE_BENEATH | SYS_RESOLVE_CACHED);
    int fd, tries = resolve & SYS_RESOLVE_CACHED ? SYS_OPENAT2_TRIES_CACHED : SYS_OPENAT2_TRIES;
    do
        fd = (int)syscall(SYS_openat2, dir, path, &how, sizeof how);
    while (fd < 0 && errno == EAGAIN && again && --tries);
    return fd;
}

#define SYS_PR_SET_MEMORY_MERGE 67

/* K-21: no page of this process, or of a program that it becomes, is merged with equal ones of
 * others any more. Who started it may have asked for that on behalf of all that comes of it, as
 * MemoryKSM= of a service does. EINVAL: a kernel that merges nothing. */
static inline int sys_stop_merging(void)
{
    long r = syscall(SYS_prctl, SYS_PR_SET_MEMORY_MERGE, 0L, 0L, 0L, 0L);
    return r < 0 && errno != EINVAL ? -1 : 0;
}

static inline int sys_pidfd_open(pid_t pid)
{
    return (int)syscall(SYS_pidfd_open, pid, 0);
}

/* A thread of its own right (Linux 6.9); before, only the process it belongs to. */
#define SYS_PIDFD_THREAD O_EXCL
static inline int sys_pidfd_open_thread(pid_t tid)
{
    return (int)syscall(SYS_pidfd_open, tid, SYS_PIDFD_THREAD);
}

static inline int sys_pidfd_getfd(int pidfd, int fd)
{
    return (int)syscall(SYS_pidfd_getfd, pidfd, fd, 0);
}

static inline int sys_pidfd_send_signal(int pidfd, int sig)
{
    return (int)syscall(SYS_pidfd_send_signal, pidfd, sig, NULL, 0);
}

static inline int sys_open_tree(int dir, const char *path, unsigned flags)
{
    return (int)syscall(SYS_open_tree, dir, path, flags);
}

static inline int sys_move_mount(int from, const char *from_path, int to, const char *to_path,
                                 unsigned flags)
{
    return (int)syscall(SYS_move_mount, from, from_path, to, to_path, flags);
}

static inline int sys_fsopen(const char *name)
{
    return (int)syscall(SYS_fsopen, name, SYS_FSOPEN_CLOEXEC);
}

static inline int sys_fsconfig(int fd, unsigned cmd, const char *key, const void *value)
{
    return (int)syscall(SYS_fsconfig, fd, cmd, key, value, 0);
}

static inline int sys_fsmount(int fd, unsigned attr)
{
    return (int)syscall(SYS_fsmount, fd, SYS_FSMOUNT_CLOEXEC, attr);
}

static inline int sys_mount_setattr(int dir, const char *path, unsigned flags,
                                    const struct sys_mount_attr *attr)
{
    return (int)syscall(SYS_mount_setattr, dir, path, flags, attr, sizeof *attr);
}

static inline int sys_pivot_root(const char *new_root, const char *put_old)
{
    return (int)syscall(SYS_pivot_root, new_root, put_old);
}
