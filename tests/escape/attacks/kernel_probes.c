/* K-07, K-08, K-18, K-19, K-30: namespaces, mounts, control files, devices. Probes that would
 * change the caller's own view go into a mount namespace of their own first, so that the control
 * run leaves the machine as it was. */
#include "attack.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

static int try_unshare(int flags)
{
    return outcome(unshare(flags));
}

static int try_clone(unsigned long flags)
{
    long pid = syscall(SYS_clone, flags | SIGCHLD, NULL, NULL, NULL, 0);
    if (pid == 0)
        _exit(0);
    if (pid > 0)
        waitpid((pid_t)pid, NULL, 0);
    return outcome(pid);
}

static int try_clone3(uint64_t flags)
{
    struct clone_args args = {.flags = flags, .exit_signal = SIGCHLD};
    long pid = syscall(SYS_clone3, &args, sizeof args);
    if (pid == 0)
        _exit(0);
    if (pid > 0)
        waitpid((pid_t)pid, NULL, 0);
    return outcome(pid);
}

#define NAMESPACE(name, flag)                                                                      \
    static int run_unshare_##name(void)                                                            \
    {                                                                                              \
        return try_unshare(flag);                                                                  \
    }                                                                                              \
    static int run_clone_##name(void)                                                              \
    {                                                                                              \
        return try_clone((flag) == 0x80 ? CLONE_NEWUTS | CLONE_NEWIPC : (unsigned long)(flag));    \
    }                                                                                              \
    static int run_clone3_##name(void)                                                             \
    {                                                                                              \
        return try_clone3((uint64_t)(flag));                                                       \
    }
NAMESPACE(user, CLONE_NEWUSER)
NAMESPACE(mount, CLONE_NEWNS)
NAMESPACE(net, CLONE_NEWNET)
NAMESPACE(pid, CLONE_NEWPID)
NAMESPACE(ipc, CLONE_NEWIPC)
NAMESPACE(uts, CLONE_NEWUTS)
NAMESPACE(cgroup, CLONE_NEWCGROUP)
NAMESPACE(time, CLONE_NEWTIME)
NAMESPACE(all, CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWPID | CLONE_NEWIPC)

/* Own mount namespace if that is possible; the probe's verdict does not depend on it. */
static void go_private(void)
{
    if (unshare(CLONE_NEWNS) == 0 && mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        _exit(3);
}

static int run_mount_tmpfs(void)
{
    go_private();
    return outcome(mount("none", "/tmp", "tmpfs", 0, NULL));
}

static int run_mount_proc(void)
{
    go_private();
    return outcome(mount("none", "/tmp", "proc", 0, NULL));
}

static int run_mount_bind(void)
{
    go_private();
    return outcome(mount("/usr", "/tmp", NULL, MS_BIND, NULL));
}

static int run_mount_cgroup1(void)
{
    go_private();
    return outcome(mount("none", "/tmp", "cgroup", 0, "memory"));
}

static int run_mount_cgroup2(void)
{
    go_private();
    return outcome(mount("none", "/tmp", "cgroup2", 0, NULL));
}

static int run_umount(void)
{
    go_private();
    return outcome(umount2("/proc", MNT_DETACH));
}

static int run_fsopen(void)
{
    return outcome(syscall(SYS_fsopen, "tmpfs", 0));
}

static int run_fsmount(void)
{
    return outcome(syscall(SYS_fsmount, -1, 0, 0));
}

static int run_fspick(void)
{
    return outcome(syscall(SYS_fspick, AT_FDCWD, "/proc", 0));
}

static int run_open_tree(void)
{
    return outcome(syscall(SYS_open_tree, AT_FDCWD, "/", 1 /* clone */));
}

static int run_mount_setattr(void)
{
    struct {
        uint64_t set, clear, propagation, userns;
    } attr = {.set = 0x80 /* nodiratime */};
    go_private();
    return outcome(syscall(SYS_mount_setattr, AT_FDCWD, "/", 0, &attr, sizeof attr));
}

static int run_chroot(void)
{
    return outcome(chroot("/"));
}

static int try_mknod(mode_t mode, dev_t device)
{
    char path[256];
    scratch_path(path, sizeof path, "node");
    int result = outcome(mknod(path, mode, device));
    unlink(path);
    return result;
}

static int run_mknod_null(void)
{
    return try_mknod(S_IFCHR | 0666, makedev(1, 3));
}

static int run_mknod_mem(void)
{
    return try_mknod(S_IFCHR | 0600, makedev(1, 1));
}

static int run_mknod_disk(void)
{
    return try_mknod(S_IFBLK | 0600, makedev(7, 0));
}

#define OPENS(name, path, flags)                                                                   \
    static int run_open_##name(void)                                                               \
    {                                                                                              \
        return try_open(path, flags);                                                              \
    }
OPENS(core_pattern, "/proc/sys/kernel/core_pattern", O_WRONLY)
OPENS(modprobe, "/proc/sys/kernel/modprobe", O_WRONLY)
OPENS(sysrq, "/proc/sysrq-trigger", O_WRONLY)
OPENS(binfmt, "/proc/sys/fs/binfmt_misc/register", O_WRONLY)
OPENS(uevent_helper, "/sys/kernel/uevent_helper", O_WRONLY)
OPENS(oom_adjust, "/proc/sys/vm/overcommit_memory", O_WRONLY)
OPENS(ip_forward, "/proc/sys/net/ipv4/ip_forward", O_WRONLY)
OPENS(kcore, "/proc/kcore", O_RDONLY)
OPENS(kallsyms_sys, "/sys/kernel/notes", O_RDONLY)
OPENS(cgroup_tasks, "/sys/fs/cgroup/memory/tasks", O_WRONLY)
OPENS(cgroup_pids, "/sys/fs/cgroup/pids/tasks", O_WRONLY)
OPENS(cgroup_procs, "/sys/fs/cgroup/cgroup.procs", O_WRONLY)
OPENS(cgroup_unified, "/sys/fs/cgroup/unified/cgroup.procs", O_WRONLY)
OPENS(cgroup_agent, "/sys/fs/cgroup/memory/release_agent", O_WRONLY)
OPENS(dev_mem, "/dev/mem", O_RDONLY)
OPENS(dev_kmsg, "/dev/kmsg", O_RDONLY)
OPENS(dev_kvm, "/dev/kvm", O_RDWR)
OPENS(dev_fuse, "/dev/fuse", O_RDWR)
OPENS(dev_tun, "/dev/net/tun", O_RDWR)
OPENS(dev_loop, "/dev/loop-control", O_RDWR)
OPENS(dev_loop0, "/dev/loop0", O_RDONLY)
OPENS(dev_disk, "/dev/vda", O_RDONLY)
OPENS(dev_console, "/dev/console", O_RDWR)
OPENS(dev_tty0, "/dev/tty0", O_RDWR)
OPENS(dev_msr, "/dev/cpu/0/msr", O_RDONLY)
OPENS(dev_port, "/dev/port", O_RDONLY)

#define FUNC(row, name) PROBE(row, #name, run_##name)
#define NS(name)                                                                                   \
    FUNC("K-07", unshare_##name), FUNC("K-07", clone_##name), FUNC("K-07", clone3_##name)

const struct probe kernel_probes[] = {
    NS(user),
    NS(mount),
    NS(net),
    NS(pid),
    NS(ipc),
    NS(uts),
    NS(cgroup),
    NS(time),
    NS(all),

    FUNC("K-08", mount_tmpfs),
    FUNC("K-08", mount_proc),
    FUNC("K-08", mount_bind),
    FUNC("K-08", umount),
    FUNC("K-08", fsopen),
    FUNC("K-08", fsmount),
    FUNC("K-08", fspick),
    FUNC("K-08", open_tree),
    FUNC("K-08", mount_setattr),
    FUNC("K-08", chroot),
    PROBE_CALL("K-08", pivot_root, (long)"/nonexistent", (long)"/nonexistent"),
    PROBE_CALL("K-08", move_mount, -1, (long)"", -1, (long)"", 0x44),
    PROBE_CALL("K-08", fsconfig, -1, 6, 0, 0, 0),

    FUNC("K-18", open_core_pattern),
    FUNC("K-18", open_modprobe),
    FUNC("K-18", open_sysrq),
    FUNC("K-18", open_binfmt),
    FUNC("K-18", open_uevent_helper),
    FUNC("K-18", open_oom_adjust),
    FUNC("K-18", open_ip_forward),
    FUNC("K-18", open_kcore),
    FUNC("K-18", open_kallsyms_sys),

    FUNC("K-19", mount_cgroup1),
    FUNC("K-19", mount_cgroup2),
    FUNC("K-19", open_cgroup_tasks),
    FUNC("K-19", open_cgroup_pids),
    FUNC("K-19", open_cgroup_procs),
    FUNC("K-19", open_cgroup_unified),
    FUNC("K-19", open_cgroup_agent),

    FUNC("K-30", open_dev_mem),
    FUNC("K-30", open_dev_kmsg),
    FUNC("K-30", open_dev_kvm),
    FUNC("K-30", open_dev_fuse),
    FUNC("K-30", open_dev_tun),
    FUNC("K-30", open_dev_loop),
    FUNC("K-30", open_dev_loop0),
    FUNC("K-30", open_dev_disk),
    FUNC("K-30", open_dev_console),
    FUNC("K-30", open_dev_tty0),
    FUNC("K-30", open_dev_msr),
    FUNC("K-30", open_dev_port),

    FUNC("F-12", mknod_null),
    FUNC("F-12", mknod_mem),
    FUNC("F-12", mknod_disk),
};
const size_t kernel_probe_count = sizeof kernel_probes / sizeof *kernel_probes;
