/* The network namespace of the sandbox: empty but for loopback, which ordinary programs expect to
 * be up.
 *
 * Making one costs as much as all other namespaces together, so that a helper process makes it
 * while init builds the root. The helper shares init's memory and descriptors, hence raw system
 * calls only; it hands the namespace over as a descriptor and is gone before init enters it. */
#include "base/cleanup.h"
#include "os/raw_child.h"
#include "plan/apply.h"

#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef SIOCGSKNS
#define SIOCGSKNS 0x894C
#endif

static struct {
    char stack[16384] __attribute__((aligned(16)));
    int ns_fd;      /* or a negative errno */
    char sizes[64]; /* of the buffers of a TCP socket; empty: as the kernel has them */
    int sys_fd;     /* /proc/sys, opened while there is one: init enters its new root meanwhile */
} helper;

static int raw_socket(void)
{
    return (int)raw_syscall(__NR_socket, AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0, 0);
}

/* Where no cgroup counts memory, the sockets are counted by what one can hold: TCP's own idea of
 * how large a buffer may grow is brought down to that. Where /proc/sys is read-only (in a
 * container) this cannot be done. What is written is a setting of the namespace that the writer is
 * in. */
static void limit_buffers(void)
{
    static const char *const paths[] = {"net/ipv4/tcp_wmem", "net/ipv4/tcp_rmem"};
    size_t len = 0;
    while (helper.sizes[len])
        len++;
    for (int i = 0; len && i < 2; i++) {
        int fd = raw_openat(helper.sys_fd, paths[i], O_WRONLY | O_CLOEXEC);
        if (fd < 0)
            continue;
        raw_write(fd, helper.sizes, len);
        raw_close(fd);
    }
}

static int make_namespace(void)
{
    struct ifreq up = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};
    long result = raw_syscall(__NR_unshare, CLONE_NEWNET, 0, 0, 0);
    int fd = result < 0 ? (int)result : raw_socket();
    if (fd < 0)
        return fd;
    limit_buffers();
    result = raw_syscall(__NR_ioctl, fd, SIOCSIFFLAGS, (long)&up, 0);
    if (result >= 0)
        result = raw_syscall(__NR_ioctl, fd, SIOCGSKNS, 0, 0);
    raw_close(fd);
    return (int)result;
}

static int helper_main(void *unused)
{
    (void)unused;
    helper.ns_fd = make_namespace();
    return 0;
}

int apply_network_start(struct apply_state *st, const struct op *op, struct err *err)
{
    unsigned long long most = op->num[0];
    helper.ns_fd = -EPROTO;
    helper.sizes[0] = '\0';
    helper.sys_fd = most ? open("/proc/sys", O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;
    if (helper.sys_fd >= 0)
        snprintf(helper.sizes, sizeof helper.sizes, "4096 16384 %llu", most);
    st->network_pid = clone(helper_main, helper.stack + sizeof helper.stack,
                            CLONE_VM | CLONE_FILES | SIGCHLD, NULL);
    return st->network_pid < 0 ? err_sys(err, "start the helper for the network namespace") : 0;
}

int apply_network_join(struct apply_state *st, const struct op *op, struct err *err)
{
    (void)op;
    int status;
    while (waitpid(st->network_pid, &status, 0) < 0)
        if (errno != EINTR)
            return err_sys(err, "wait for the network namespace");
    if (helper.sys_fd >= 0)
        close(helper.sys_fd);
    if (helper.ns_fd < 0) {
        errno = -helper.ns_fd;
        return err_sys(err, "make the network namespace");
    }
    cleanup_fd int ns = helper.ns_fd;
    return setns(ns, CLONE_NEWNET) < 0 ? err_sys(err, "enter the network namespace") : 0;
}
