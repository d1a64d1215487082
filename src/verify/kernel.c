/* Attacks on the kernel boundary: other entries into the kernel, namespaces, mounts, other tasks,
 * the terminal. */
#include "verify/attack.h"

#include "base/cleanup.h"
#include "os/sys.h"
#include "verify/entry32.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef SYS_pidfd_getfd
#define SYS_pidfd_getfd 438
#endif

int attack_int80(struct attempt *a)
{
    cleanup_fd int fd = entry32_open(attack_scratch(a));
    if (fd < 0)
        return errno;
    pid_t pid = fork();
    if (pid < 0)
        return errno;
    if (pid == 0)
        entry32_run(fd);
    int status = 0;
    waitpid(pid, &status, 0);
    int result = entry32_result(status);
    if (result == 0)
        attack_say(a, "getpid() by the 32-bit entry was served");
    return result;
}

/* x86-64 only: elsewhere such a number is none, the control fails, and the row does not apply. */
int attack_x32(struct attempt *a)
{
    (void)a;
    return attack_result(syscall(0x40000000L | 39));
}

int attack_unshare_user(struct attempt *a)
{
    (void)a;
    return attack_result(unshare(CLONE_NEWUSER));
}

int attack_unshare_all(struct attempt *a)
{
    (void)a;
    return attack_result(unshare(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWPID |
                                 CLONE_NEWIPC | CLONE_NEWUTS));
}

int attack_clone_mount(struct attempt *a)
{
    (void)a;
    struct sys_clone_args args = {.flags = CLONE_NEWUSER | CLONE_NEWNS, .exit_signal = SIGCHLD};
    long pid = sys_clone3(&args);
    if (pid == 0)
        _exit(0);
    if (pid > 0)
        waitpid((pid_t)pid, NULL, 0);
    return attack_result(pid);
}

int attack_mount(struct attempt *a)
{
    const char *where = a->outside ? a->place->drop : "/tmp";
    return attack_result(mount("none", where, "tmpfs", 0, NULL));
}

int attack_remount(struct attempt *a)
{
    /* The control has a mount of its own to try it on: the host's are locked. */
    const char *where = a->outside ? a->place->drop : "/usr";
    if (a->outside && mount("none", where, "tmpfs", MS_RDONLY, NULL) < 0)
        return errno;
    return attack_result(mount(NULL, where, NULL, MS_REMOUNT | MS_BIND, NULL));
}

int attack_umount(struct attempt *a)
{
    const char *where = a->outside ? a->place->drop : "/proc";
    if (a->outside && mount("none", where, "tmpfs", 0, NULL) < 0)
        return errno;
    return attack_result(umount2(where, MNT_DETACH));
}

int attack_fsopen(struct attempt *a)
{
    (void)a;
    cleanup_fd int fd = sys_fsopen("tmpfs");
    return fd < 0 ? errno : 0;
}

int attack_open_tree(struct attempt *a)
{
    const char *where = a->outside ? a->place->drop : "/";
    if (a->outside && mount("none", where, "tmpfs", 0, NULL) < 0)
        return errno;
    cleanup_fd int fd = sys_open_tree(AT_FDCWD, where, SYS_OPEN_TREE_CLONE | SYS_OPEN_TREE_CLOEXEC);
    return fd < 0 ? errno : 0;
}

int attack_pivot(struct attempt *a)
{
    (void)a;
    int result = attack_result(sys_pivot_root("/nonexistent", "/nonexistent"));
    /* let in, and then told that this cannot be a root */
    return result == ENOENT || result == EINVAL ? 0 : result;
}

int attack_chroot(struct attempt *a)
{
    (void)a;
    return attack_result(chroot("/"));
}

int attack_setns(struct attempt *a)
{
    (void)a;
    cleanup_fd int fd = open("/proc/self/ns/uts", O_RDONLY | O_CLOEXEC);
    int result = attack_result(setns(fd, 0));
    return result == EBADF || result == EINVAL ? 0 : result; /* the kernel's own code was reached */
}

int attack_pidfd_getfd(struct attempt *a)
{
    (void)a;
    int result = attack_result(syscall(SYS_pidfd_getfd, -1, 0, 0));
    return result == EBADF ? 0 : result;
}

static pid_t start_victim(void)
{
    pid_t pid = fork();
    if (pid == 0) {
        alarm(10);
        for (;;)
            pause();
    }
    return pid;
}

static void end_victim(pid_t pid)
{
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

/* Its own child, which ordinary rules would let it trace. */
int attack_ptrace(struct attempt *a)
{
    (void)a;
    pid_t pid = start_victim();
    if (pid < 0)
        return errno;
    int result = attack_result(ptrace(PTRACE_SEIZE, pid, NULL, NULL));
    end_victim(pid);
    return result;
}

int attack_vm_read(struct attempt *a)
{
    (void)a;
    static volatile long there = 42;
    long here = 0;
    pid_t pid = start_victim();
    if (pid < 0)
        return errno;
    struct iovec local = {&here, sizeof here}, remote = {(void *)&there, sizeof there};
    int result = attack_result(process_vm_readv(pid, &local, 1, &remote, 1, 0));
    end_victim(pid);
    return result;
}

/* Characters pushed into a terminal would be read by the shell that comes after. On a terminal of
 * its own; without one, on standard input: what counts is that the request gets to the driver. */
int attack_tiocsti(struct attempt *a)
{
    (void)a;
    signal(SIGHUP, SIG_IGN);
    cleanup_fd int master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (master < 0)
        return errno;
    setsid();
    int unlock = 0;
    ioctl(master, TIOCSPTLCK, &unlock);
    cleanup_fd int slave = ioctl(master, TIOCGPTPEER, O_RDWR);
    if (slave < 0)
        return errno;
    ioctl(slave, TIOCSCTTY, 0);
    return attack_result(ioctl(slave, TIOCSTI, "x"));
}
