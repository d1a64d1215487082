/* Sends signals in the place of the code, to tasks of the sandbox only (process tier, kernels
 * before 6.12). */
#include "kernel/process/broker.h"

#include "base/cleanup.h"
#include "os/fd.h"
#include "os/procfs.h"
#include "os/sys.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Orphans come up to init, the reaper: every task of the sandbox has init among its ancestors. */
static bool inside(const struct kernel *k, pid_t pid, struct proc_stat *ret)
{
    struct proc_stat t;
    if (pid == k->init_pid || !procfs_stat(pid, ret))
        return false;
    t = *ret;
    for (int depth = 0; depth < 4096 && t.ppid > 1; depth++) {
        if (t.ppid == k->init_pid)
            return true;
        if (!procfs_stat(t.ppid, &t))
            return false;
    }
    return false;
}

/* The pidfd is opened before the check and used after it: a recycled pid cannot be hit. */
static int send_one(const struct kernel *k, pid_t pid, int sig, pid_t group)
{
    struct proc_stat t;
    cleanup_fd int pidfd = sys_pidfd_open(pid);
    if (pidfd < 0)
        return -ESRCH;
    if (!inside(k, pid, &t))
        return -EPERM;
    if (group && t.pgrp != group)
        return -ESRCH;
    return sys_pidfd_send_signal(pidfd, sig) < 0 ? -errno : 0;
}

static int send_many(const struct kernel *k, pid_t group, pid_t caller, int sig)
{
    DIR *proc = opendir("/proc");
    int sent = 0;
    for (struct dirent *e; proc && (e = readdir(proc));) {
        pid_t pid = (pid_t)strtol(e->d_name, NULL, 10);
        if (pid > 1 && !(group == 0 && pid == caller) && send_one(k, pid, sig, group) == 0)
            sent++;
    }
    if (proc)
        closedir(proc);
    return sent ? 0 : -ESRCH;
}

int broker_signal(struct kernel *k, const struct seccomp_notif *n)
{
    pid_t target = (pid_t)n->data.args[0];
    int sig = (int)n->data.args[n->data.nr == SYS_tgkill ? 2 : 1];
    if (n->data.nr != SYS_kill && n->data.nr != SYS_tkill && n->data.nr != SYS_tgkill)
        return -EPERM;
    if (sig < 0 || sig > 64)
        return -EINVAL;
    if (n->data.nr != SYS_kill)
        return target > 0 ? send_one(k, target, sig, 0) : -EINVAL;
    if (target > 0)
        return send_one(k, target, sig, 0);
    if (target == -1)
        return send_many(k, 0, (pid_t)n->pid, sig);
    return send_many(k, target == 0 ? getpgid((pid_t)n->pid) : -target, (pid_t)n->pid, sig);
}
