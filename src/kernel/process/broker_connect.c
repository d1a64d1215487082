/* Makes TCP connections in the place of the code, to a listener of brig's own and nowhere else
 * (process tier). */
#include "kernel/process/broker_connect.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "kernel/kernel.h"
#include "kernel/process/hand.h"
#include "os/sys.h"

#include <errno.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#define BACKLOG 4096
/* A connection that was made is in the queue already. If it is not, do not wait: the supervisor has
 * other things to watch. */
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

int broker_connect_open(struct connect_broker *b, struct err *err)
{
    union address at = {.in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)}};
    b->listener4 = listen_on(&at, sizeof at.in);
    if (b->listener4 < 0) {
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

/* The lengths are those that the kernel itself accepts. */
static int read_address(struct kernel *k, const struct seccomp_notif *n, union address *ret,
                        socklen_t *ret_len)
{
    int32_t len = (int32_t)n->data.args[2];
    int result = hand_address(k, n, &ret->room);
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
    case AF_UNSPEC: /* would dissolve the connection, so that the socket could be connected again */
        return -EPERM;
    default:
        return -EAFNOSUPPORT;
    }
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

/* Where to connect this socket: our listener of its family, or the IPv4 one as a v4-mapped
 * address. */
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

/* Other programs of this host may connect to our port: close them, so that they do not fill the
 * queue. */
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
static int join(struct kernel *k, const struct seccomp_notif *n, const union address *asked,
                socklen_t asked_len, struct hand_connected *made)
{
    union address to = {0};
    socklen_t len = 0;
    int listener = listener_for(&k->connects, asked->sa.sa_family, &to, &len);
    if (listener < 0)
        return -ENETUNREACH;
    turn_away(listener);
    int result = hand_connect(k, n, &to.sa, len, made);
    if (result < 0 && result != -EINPROGRESS)
        return result;
    union address own = {.room = made->own};
    cleanup_fd int accepted = accept_peer(listener, &own);
    hand_release(k, accepted >= 0);
    if (accepted < 0)
        return accepted == -ETIMEDOUT ? -ETIMEDOUT : -ECONNREFUSED;
    int handed = hand_on(k, accepted, asked, asked_len);
    return handed < 0 ? handed : result;
}

int broker_connect(struct kernel *k, const struct seccomp_notif *n)
{
    union address asked;
    socklen_t asked_len;
    struct hand_connected made = {0};
    struct connect_broker *b = &k->connects;
    b->last = 0;
    int result = read_address(k, n, &asked, &asked_len);
    if (result < 0)
        return result;
    result = join(k, n, &asked, asked_len, &made);
    hand_rest(k);
    if (result == -EISCONN && forget(b, made.cookie)) /* it answers an earlier call */
        result = 0;
    if (result == -EINPROGRESS) /* the next call on it gets its 0, as from the kernel */
        remember(b, made.cookie);
    if (result == 0)
        b->last = made.cookie;
    return result;
}

void watch_connect(struct kernel *k, const struct seccomp_notif *n)
{
    union address asked;
    socklen_t len;
    if (read_address(k, n, &asked, &len) < 0 || !k->unserved ||
        !k->unserved(k->connected_ctx, &asked.sa, len))
        return;
    /* Resolvers connect datagram sockets only to learn of a route. */
    if (hand_kind(k, n) == SOCK_STREAM)
        k->refused(k->connected_ctx, &asked.sa, len);
}
