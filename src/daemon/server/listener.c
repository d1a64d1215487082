/* Accepts connections, in batches, and says no where there is no room. */
#include "base/cleanup.h"
#include "base/container.h"
#include "daemon/server/connection.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#ifndef SO_PASSRIGHTS
#define SO_PASSRIGHTS 83
#endif

#define ACCEPT_BATCH 64
#define PAUSE_MS     100
#define REFUSING_MAX 64           /* more than that are closed without a word */
#define NOT_SENT     (256 * 1024) /* of an answer, in the kernel's hands */

static const char *memory_of(const struct sockaddr_in6 *v6)
{
    return (const char *)v6->sin6_addr.s6_addr;
}

/* A local peer by its uid; others by address, IPv6 by the network that one of them has. */
static struct caller caller_of(int fd, bool local, const struct sockaddr_storage *sa)
{
    struct caller p = {.local = local};
    struct ucred cred = {.uid = (uid_t)-1};
    socklen_t len = sizeof cred;
    if (local) {
        if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0)
            cred.uid = (uid_t)-1;
        p.id[0] = cred.uid;
    } else if (sa->ss_family == AF_INET) {
        p.id[1] = ((const struct sockaddr_in *)sa)->sin_addr.s_addr;
    } else if (sa->ss_family == AF_INET6) {
        memcpy(p.id, memory_of((const struct sockaddr_in6 *)sa), 8);
        p.id[1] = 1;
    }
    return p;
}

/* The last few are for whoever is on this machine. */
static bool has_room(struct listener *l)
{
    struct server *s = l->server;
    unsigned most = s->limits.connections - (l->local ? 0 : s->limits.connections / 16);
    while (s->connections >= most &&
           (callers_evict(s, NULL, WAITS_REQUEST) || callers_evict(s, NULL, WAITS_HEAD)))
        ;
    return s->connections < most;
}

static void take(struct listener *l, int fd, const struct sockaddr_storage *sa)
{
    struct server *s = l->server;
    struct caller who = caller_of(fd, l->local, sa);
    struct caller *caller = has_room(l) ? caller_take(s, &who) : NULL;
    s->stats.accepted++;
    if (!caller) {
        s->stats.no_room++;
        if (s->refusing >= REFUSING_MAX) {
            close(fd);
            return;
        }
    }
    connection_new(s, fd, l->local, caller);
}

static void on_pause_over(struct loop_timer *t)
{
    struct listener *l = container_of(t, struct listener, pause);
    loop_watch(l->server->loop, &l->io, EPOLLIN);
}

/* No descriptor is left. One is always held back: with it the next in line is let in and shown out,
 * instead of waiting for a time-out of its own. */
static void turn_away(struct listener *l)
{
    if (l->reserve_fd >= 0)
        close(l->reserve_fd);
    int fd = accept4(l->io.fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd >= 0)
        close(fd);
    l->reserve_fd = fcntl(l->io.fd, F_DUPFD_CLOEXEC, 3);
    l->server->stats.no_room++;
    loop_watch(l->server->loop, &l->io, 0);
    loop_timer_set(l->server->loop, &l->pause, PAUSE_MS);
}

/* Out of descriptors: close an idle connection for the one that is next in line (DM-4). */
static bool makes_room(struct server *s)
{
    return (errno == EMFILE || errno == ENFILE) &&
           (callers_evict(s, NULL, WAITS_REQUEST) || callers_evict(s, NULL, WAITS_HEAD));
}

static void on_listener(struct loop_io *io, uint32_t events)
{
    (void)events;
    struct listener *l = container_of(io, struct listener, io);
    for (int i = 0; i < ACCEPT_BATCH; i++) {
        struct sockaddr_storage sa = {0};
        socklen_t len = sizeof sa;
        int fd = accept4(io->fd, (struct sockaddr *)&sa, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0) {
            take(l, fd, &sa);
            continue;
        }
        if (errno == ECONNABORTED || errno == EINTR || (errno != EAGAIN && makes_room(l->server)))
            continue;
        if (errno != EAGAIN)
            turn_away(l);
        return;
    }
}

/* What is set here holds for every connection that is accepted, without a call for each. */
static int set_options(int fd, bool local, struct err *err)
{
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0)
        return err_sys(err, "make a listening socket non-blocking");
    if (local) {
        /* Clients have no descriptors to give; who reads from a socket closes those that come
         * along, and may have to wait for it. Where the kernel cannot refuse them (before
         * Linux 6.16) the socket's owner is trusted with that. */
        setsockopt(fd, SOL_SOCKET, SO_PASSRIGHTS, &(int){0}, sizeof(int));
        return 0;
    }
    /* A client that vanished without a word is noticed, also where nothing is to be said to it. */
    if (setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &(int){1}, sizeof(int)) < 0 ||
        setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &(int){120}, sizeof(int)) < 0 ||
        setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &(int){30}, sizeof(int)) < 0 ||
        setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &(int){4}, sizeof(int)) < 0)
        return err_sys(err, "set up a listening socket");
    if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int)) < 0 ||
        setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &(int){NOT_SENT}, sizeof(int)) < 0)
        return err_sys(err, "set up a listening socket");
    return 0;
}

int server_listen(struct server *s, int fd, bool local, struct err *err)
{
    cleanup_fd int owned = fd;
    if (set_options(fd, local, err) < 0)
        return -err->code;
    struct listener *l = calloc(1, sizeof *l);
    if (!l)
        return err_memory(err);
    *l = (struct listener){.io = {.fd = fd, .fn = on_listener},
                           .pause.fn = on_pause_over,
                           .server = s,
                           .local = local};
    l->reserve_fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    int r = loop_watch(s->loop, &l->io, EPOLLIN);
    if (r < 0) {
        if (l->reserve_fd >= 0)
            close(l->reserve_fd);
        free(l);
        errno = -r;
        return err_sys(err, "watch a listening socket");
    }
    l->next = s->listeners;
    s->listeners = l;
    fd_steal(&owned);
    return 0;
}
