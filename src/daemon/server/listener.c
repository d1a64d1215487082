/* Accepts connections, in batches, and says no where there is no room. */
#include "base/cleanup.h"
#include "base/container.h"
#include "daemon/server/connection.h"
#include "os/rights.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#define ACCEPT_BATCH 64
#define PAUSE_MS     100
#define REFUSING_MAX 64 /* more than that are closed without a word */

/* A local peer by its uid; others by address. */
static struct peer_group group_of(int fd, bool local, const struct sockaddr_storage *sa)
{
    struct ucred cred = {.uid = (uid_t)-1};
    socklen_t len = sizeof cred;
    if (!local) {
        struct peer_address at = peer_address(sa);
        return peer_group(&at);
    }
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0)
        cred.uid = (uid_t)-1;
    return (struct peer_group){{cred.uid, 0}};
}

bool server_make_room(struct server *s)
{
    return callers_evict(s, NULL, WAITS_REQUEST) || callers_evict(s, NULL, WAITS_HEAD);
}

/* The last few are for whoever is on this machine. */
static bool has_room(struct server *s, bool local)
{
    unsigned most = s->limits.connections - (local ? 0 : s->limits.connections / 16);
    while (s->connections >= most && server_make_room(s))
        ;
    return s->connections < most;
}

void connection_admit(struct server *s, int fd, bool local, struct peer_group group)
{
    struct caller who = {.group = group, .local = local};
    struct caller *caller = has_room(s, local) ? caller_take(s, &who) : NULL;
    s->stats.accepted++;
    if (!caller) {
        s->stats.no_room++;
        if (s->refusing >= REFUSING_MAX) {
            close(fd);
            return;
        }
    }
    connection_new(s, fd, local, caller);
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
    return (errno == EMFILE || errno == ENFILE) && server_make_room(s);
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
            connection_admit(l->server, fd, l->local, group_of(fd, l->local, &sa));
            continue;
        }
        if (errno == ECONNABORTED || errno == EINTR || (errno != EAGAIN && makes_room(l->server)))
            continue;
        if (errno != EAGAIN)
            turn_away(l);
        return;
    }
}

static int set_options(int fd, bool local, struct err *err)
{
    int flags = local ? fcntl(fd, F_GETFL) : 0;
    if (local && (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0))
        return err_sys(err, "make a listening socket non-blocking");
    if (local)
        socket_take_no_rights(fd);
    int r = local ? 0 : tcp_listener_set_up(fd);
    errno = -r;
    return r < 0 ? err_sys(err, "set up a listening socket") : 0;
}

int server_listen(struct server *s, int fd, bool local, struct err *err)
{
    cleanup_fd int owned = fd;
    if (set_options(fd, local, err) < 0)
        return err_number(err);
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
