/* System calls that the C library has no wrapper for, and constants newer than the distribution's
 * headers. Wrappers return what the kernel returns through errno, like libc's. */
#pragma once

#include "os/syscalls.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sched.h>
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

#define SYS_MOUNT_ATTR_RDONLY 0x01
#define SYS_MOUNT_ATTR_NOSUID 0x02
#define SYS_MOUNT_ATTR_NODEV  0x04
#define SYS_MOUNT_ATTR_NOEXEC 0x08
#define SYS_MOUNT_ATTR_IDMAP  0x00100000

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
#define SYS_CLOSE_RANGE_CLOEXEC 4

static inline long sys_clone3(struct sys_clone_args *args)
{
    return syscall(SYS_clone3, args, sizeof *args);
}

static inline int sys_close_range(unsigned first, unsigned last, unsigned flags)
{
    return (int)syscall(SYS_close_range, first, last, flags);
}

static inline int sys_openat2(int dir, const char *path, uint64_t flags, uint64_t mode,
                              uint64_t resolve)
{
    struct open_how how = {.flags = flags, .mode = mode, .resolve = resolve};
    return (int)syscall(SYS_openat2, dir, path, &how, sizeof how);
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
