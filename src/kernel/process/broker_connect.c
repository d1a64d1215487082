#include "kernel/process/broker_connect.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "kernel/kernel.h"
#include "kernel/process/task_memory.h"
#include "os/fd.h"
#include "os/sys.h"

#include <errno.h>
#include <linux/seccomp.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/time.h>

#ifndef SO_COOKIE
#define SO_COOKIE 57
#endif
/* enum in the kernel's header, which cannot be had together with the C library's */
#define STATE_ESTABLISHED 1
#define STATE_SYN_SENT    2
#define STATE_CLOSE       7

#define BACKLOG 4096
/* A handshake over loopback takes microseconds. Where it does not end, somebody keeps it from
 * ending, and the supervisor has other things to watch. */
#define HANDSHAKE_US  400000u
#define STRANGERS_MAX 512

union address {
    struct sockaddr sa;
    struct sockaddr_in in;
    struct sockaddr_in6 in6;
    struct sockaddr_storage room;
};

/* ---- the listeners ---- */

void broker_connect_init(struct connect_broker *b)
{
    *b = (struct connect_broker){.listener4 = -1, .listener6 = -1};
}

/* Without SO_REUSEPORT: nobody can share the port. */
static int listen_on(union address *at, socklen_t len)
{
    cleanup_fd int fd = socket(at->sa.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || bind(fd, &at->sa, len) < 0 || listen(fd, BACKLOG) < 0 ||
        getsockname(fd, &at->sa, &len) < 0)
        return -errno;
    return fd_steal(&fd);
}

static void on_alarm(int sig)
{
    (void)sig; /* it interrupts; that is all */
}

/* A connect on the code's socket blocks if that socket does, and its flags are the code's to change
 * at any time. A signal ends it. */
static int allow_alarms(void)
{
    struct sigaction action = {.sa_handler = on_alarm}; /* no SA_RESTART */
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGALRM);
    return sigaction(SIGALRM, &action, NULL) < 0 || sigprocmask(SIG_UNBLOCK, &set, NULL) < 0
               ? -errno
               : 0;
}

int broker_connect_open(struct connect_broker *b, struct err *err)
{
    union address at = {.in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)}};
    b->listener4 = listen_on(&at, sizeof at.in);
    if (b->listener4 < 0 || allow_alarms() < 0) {
        err_sys(err, "listen on loopback for the sandbox's connections");
        return err_at(err, BOUNDARY_KERNEL);
    }
    b->at4 = at.in;
    at = (union address){.in6 = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT}};
    b->listener6 = listen_on(&at, sizeof at.in6); /* a host may do without */
    if (b->listener6 < 0)
        b->listener6 = -1;
    else
        b->at6 = at.in6;
    return 0;
}

void broker_connect_close(struct connect_broker *b)
{
    if (b->listener4 >= 0)
        close(b->listener4);
    if (b->listener6 >= 0)
        close(b->listener6);
    broker_connect_init(b);
}

int broker_connect_probe(pid_t pid, struct err *err)
{
    cleanup_fd int pidfd = sys_pidfd_open(pid);
    cleanup_fd int copy = pidfd < 0 ? -1 : sys_pidfd_getfd(pidfd, 0);
    if (copy >= 0 || (pidfd >= 0 && errno == EBADF))
        return 0;
    err_set(err, ERR_UNSUPPORTED,
            "the process tier has no network here: the supervisor may not take over the sandbox's "
            "connections (pidfd_getfd: %s)",
            strerror(errno));
    err_at(err, BOUNDARY_NETWORK);
    return err_hint(err, "use --tier container; or allow it (kernel 5.6 or newer, "
                         "kernel.yama.ptrace_scope at most 1)");
}

/* ---- what the code asks for ---- */

/* Copied once. The lengths are those that the kernel itself accepts. */
static int read_address(const struct seccomp_notif *n, union address *ret, socklen_t *ret_len)
{
    int32_t len = (int32_t)n->data.args[2];
    memset(ret, 0, sizeof *ret);
    if (len < (int32_t)sizeof ret->sa.sa_family || len > (int32_t)sizeof ret->room)
        return -EINVAL;
    size_t used = (size_t)len < sizeof ret->in6 ? (size_t)len : sizeof ret->in6;
    int result = task_copy((pid_t)n->pid, n->data.args[1], ret, used);
    if (result < 0)
        return result;
    switch (ret->sa.sa_family) {
    case AF_INET:
        *ret_len = sizeof ret->in;
        return len < (int32_t)sizeof ret->in ? -EINVAL : 0;
    case AF_INET6:
        *ret_len = sizeof ret->in6;
        /* Without the scope, as in the first sockets API for IPv6. */
        return len < (int32_t)offsetof(struct sockaddr_in6, sin6_scope_id) ? -EINVAL : 0;
    case AF_UNSPEC: /* would take the connection apart, for another connect */
        return -EPERM;
    default:
        return -EAFNOSUPPORT;
    }
}

static bool still_waits(const struct kernel *k, const struct seccomp_notif *n)
{
    uint64_t id = n->id;
    return ioctl(k->listener_fd, SECCOMP_IOCTL_NOTIF_ID_VALID, &id) == 0;
}

/* Before Linux 6.9 a thread other than the first has no pidfd: its process has. Its descriptors may
 * then be others than the thread's own, if it parted from them; what is found there is the
 * sandbox's too, and is checked like any. */
static int open_process_of(pid_t tid)
{
    char path[32], text[4096];
    snprintf(path, sizeof path, "/proc/%d/status", tid);
    if (file_read(AT_FDCWD, path, text, sizeof text) <= 0)
        return -ESRCH;
    const char *line = strstr(text, "\nTgid:");
    int fd = line ? sys_pidfd_open((pid_t)strtol(line + 6, NULL, 10)) : -1;
    return fd < 0 ? -ESRCH : fd;
}

static int open_task(pid_t tid)
{
    int fd = sys_pidfd_open_thread(tid);
    if (fd < 0 && errno == EINVAL)
        return open_process_of(tid);
    return fd < 0 ? -ESRCH : fd;
}

/* The caller still waiting after each step shows that the step was about it, and not about a later
 * process with its number. From here on we hold the socket: what becomes of the code's descriptor
 * does not matter any more. */
static int take_socket(const struct kernel *k, const struct seccomp_notif *n)
{
    cleanup_fd int task = open_task((pid_t)n->pid);
    if (task < 0 || !still_waits(k, n))
        return -ESRCH;
    cleanup_fd int sock = sys_pidfd_getfd(task, (int)n->data.args[0]);
    if (sock < 0)
        return errno == EBADF ? -EBADF : -EPERM;
    if (!still_waits(k, n))
        return -ESRCH;
    return fd_steal(&sock);
}

static int socket_fact(int sock, int option)
{
    int value = -1;
    socklen_t len = sizeof value;
    return getsockopt(sock, SOL_SOCKET, option, &value, &len) < 0 ? -errno : value;
}

/* TCP, of the address' family. Anything else (a pair of UNIX sockets, say) is not ours to connect.
 */
static int check_kind(int sock, sa_family_t family)
{
    int domain = socket_fact(sock, SO_DOMAIN);
    if (domain == -ENOTSOCK)
        return -ENOTSOCK;
    if ((domain != AF_INET && domain != AF_INET6) || socket_fact(sock, SO_TYPE) != SOCK_STREAM ||
        socket_fact(sock, SO_PROTOCOL) != IPPROTO_TCP)
        return -EPERM;
    return domain == family ? 0 : -EAFNOSUPPORT;
}

static uint64_t cookie_of(int sock)
{
    uint64_t cookie = 0;
    socklen_t len = sizeof cookie;
    return getsockopt(sock, SOL_SOCKET, SO_COOKIE, &cookie, &len) < 0 ? 0 : cookie;
}

static void remember(struct connect_broker *b, uint64_t cookie)
{
    b->unanswered[b->next] = cookie;
    b->next = (b->next + 1) % CONNECT_UNANSWERED_MAX;
}

/* True once for each socket that was remembered. */
static bool forget(struct connect_broker *b, uint64_t cookie)
{
    for (unsigned i = 0; cookie && i < CONNECT_UNANSWERED_MAX; i++)
        if (b->unanswered[i] == cookie) {
            b->unanswered[i] = 0;
            return true;
        }
    return false;
}

void broker_connect_unanswered(struct connect_broker *b)
{
    if (b->last)
        remember(b, b->last);
    b->last = 0;
}

/* 1: to be connected; 0: is connected, and this answers an earlier call; negative: no. */
static int check_state(struct connect_broker *b, int sock)
{
    struct tcp_info info = {0};
    socklen_t len = sizeof info;
    if (getsockopt(sock, IPPROTO_TCP, TCP_INFO, &info, &len) < 0)
        return -EPERM;
    if (info.tcpi_state == STATE_CLOSE)
        return 1;
    if (info.tcpi_state == STATE_SYN_SENT)
        return -EALREADY;
    return info.tcpi_state == STATE_ESTABLISHED && forget(b, cookie_of(sock)) ? 0 : -EISCONN;
}

/* ---- the connection ---- */

struct endpoint {
    struct in6_addr addr; /* v4 as v4-mapped */
    in_port_t port;
};

static struct endpoint endpoint_of(const union address *a)
{
    struct endpoint e = {.port = a->in.sin_port};
    if (a->sa.sa_family == AF_INET6) {
        e.addr = a->in6.sin6_addr;
        e.port = a->in6.sin6_port;
    } else {
        e.addr.s6_addr[10] = e.addr.s6_addr[11] = 0xff;
        memcpy(e.addr.s6_addr + 12, &a->in.sin_addr, 4);
    }
    return e;
}

static bool same_endpoint(const union address *a, const union address *b)
{
    struct endpoint x = endpoint_of(a), y = endpoint_of(b);
    return x.port == y.port && memcmp(&x.addr, &y.addr, sizeof x.addr) == 0;
}

/* Where this socket is to be connected: our listener of its family, or the v4 one in v6 clothes. */
static int listener_for(const struct connect_broker *b, sa_family_t family, union address *ret,
                        socklen_t *ret_len)
{
    memset(ret, 0, sizeof *ret);
    *ret_len = family == AF_INET ? sizeof ret->in : sizeof ret->in6;
    if (family == AF_INET) {
        ret->in = b->at4;
        return b->listener4;
    }
    if (b->listener6 >= 0) {
        ret->in6 = b->at6;
        return b->listener6;
    }
    union address at4 = {.in = b->at4};
    struct endpoint e = endpoint_of(&at4);
    ret->in6 =
        (struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_addr = e.addr, .sin6_port = e.port};
    return b->listener4;
}

/* Others on this host may knock at our port: they are let go, and do not fill the queue. */
static void turn_away(int listener)
{
    for (int i = 0; i < STRANGERS_MAX; i++) {
        int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0)
            return;
        close(fd);
    }
}

/* K-10 */
static int accept_peer(int listener, const union address *wanted)
{
    uint64_t deadline = clock_us() + HANDSHAKE_US;
    for (uint64_t now; (now = clock_us()) < deadline;) {
        union address peer = {0};
        socklen_t len = sizeof peer;
        struct pollfd p = {.fd = listener, .events = POLLIN};
        int fd = accept4(listener, &peer.sa, &len, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd >= 0 && same_endpoint(&peer, wanted))
            return fd;
        if (fd >= 0)
            close(fd);
        else if (errno == EAGAIN)
            poll(&p, 1, (int)((deadline - now) / 1000 + 1));
        else if (errno != EINTR && errno != ECONNABORTED)
            return -errno;
    }
    return -ETIMEDOUT;
}

/* Repeated, so that a signal that comes too early is not the last one. */
static void set_alarm(unsigned us)
{
    struct timeval t = {.tv_usec = us};
    struct itimerval timer = {.it_interval = t, .it_value = t};
    setitimer(ITIMER_REAL, &timer, NULL);
}

static int connect_in_time(int sock, const union address *to, socklen_t len)
{
    set_alarm(HANDSHAKE_US);
    int result = connect(sock, &to->sa, len) < 0 ? -errno : 0;
    set_alarm(0);
    switch (result) {
    case -EINTR:
        return -ETIMEDOUT;
    case -EPERM: /* a rule of the host's own firewall; nothing that we refused */
    case -EACCES:
        return -ECONNREFUSED;
    default:
        return result;
    }
}

/* Back to a socket that is not connected. */
static void disconnect(int sock)
{
    struct sockaddr none = {.sa_family = AF_UNSPEC};
    connect(sock, &none, sizeof none);
}

static int hand_on(const struct kernel *k, int accepted, const union address *asked,
                   socklen_t asked_len)
{
    struct linger reset = {.l_onoff = 1};
    if (k->connected && k->connected(k->connected_ctx, accepted, &asked->sa, asked_len) >= 0)
        return 0;
    setsockopt(accepted, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
    return -ECONNREFUSED;
}

/* K-9: from here on the code's address is words for the proxy, and no destination. */
static int join(struct kernel *k, int sock, const union address *asked, socklen_t asked_len)
{
    union address to = {0}, own = {0};
    socklen_t len = 0;
    int listener = listener_for(&k->connects, asked->sa.sa_family, &to, &len);
    if (listener < 0)
        return -ENETUNREACH;
    turn_away(listener);
    int result = connect_in_time(sock, &to, len);
    if (result < 0 && result != -EINPROGRESS) {
        if (result == -ETIMEDOUT)
            disconnect(sock);
        return result;
    }
    len = sizeof own;
    cleanup_fd int accepted =
        getsockname(sock, &own.sa, &len) < 0 ? -errno : accept_peer(listener, &own);
    if (accepted < 0) {
        disconnect(sock);
        return accepted == -ETIMEDOUT ? -ETIMEDOUT : -ECONNREFUSED;
    }
    int handed = hand_on(k, accepted, asked, asked_len);
    return handed < 0 ? handed : result;
}

int broker_connect(struct kernel *k, const struct seccomp_notif *n)
{
    union address asked;
    socklen_t asked_len;
    k->connects.last = 0;
    int result = read_address(n, &asked, &asked_len);
    if (result < 0)
        return result;
    cleanup_fd int sock = take_socket(k, n);
    if (sock < 0)
        return sock;
    result = check_kind(sock, asked.sa.sa_family);
    if (result < 0)
        return result;
    result = check_state(&k->connects, sock);
    if (result > 0)
        result = join(k, sock, &asked, asked_len);
    if (result == -EINPROGRESS) /* the next call on it gets its 0, as from the kernel */
        remember(&k->connects, cookie_of(sock));
    if (result == 0)
        k->connects.last = cookie_of(sock);
    return result;
}

void watch_connect(struct kernel *k, const struct seccomp_notif *n)
{
    union address asked;
    socklen_t len;
    if (read_address(n, &asked, &len) < 0 || !k->unserved ||
        !k->unserved(k->connected_ctx, &asked.sa, len))
        return;
    /* Resolvers connect datagram sockets only to learn of a route. */
    cleanup_fd int sock = take_socket(k, n);
    if (sock >= 0 && socket_fact(sock, SO_TYPE) == SOCK_STREAM)
        k->refused(k->connected_ctx, &asked.sa, len);
}
