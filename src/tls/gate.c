/* Accepts connections, and closes others to make room for them where there is none (TL-2). */
#include "tls/gate.h"

#include "base/cleanup.h"
#include "base/container.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/resource.h>

#define ACCEPT_BATCH 64
#define PAUSE_MS     100
/* Twice as many as the front lets in, which closes idle ones for new ones: the choice is its. */
#define COUNT_MAX 4096
/* As many for each address as the front gives it connections. */
#define WAITING_MAX    1024
#define WAITING_OF_ONE 512

/* ---- the door ---- */

static void on_door(struct loop_io *io, uint32_t events)
{
    struct gate *g = container_of(io, struct gate, door);
    (void)events;
    while (g->at_door.next != &g->at_door)
        if (!link_hand_over(g->at_door.next))
            return;
    loop_watch(g->loop, io, 0);
}

void gate_knock(struct gate *g)
{
    loop_watch(g->loop, &g->door, EPOLLOUT);
}

/* ---- listeners ---- */

static bool make_room(struct gate *g, const struct peer_group *group)
{
    if (link_waiting(g, group) >= g->waiting_of_one)
        link_evict(g, group);
    if (g->waiting_count >= g->waiting_max)
        link_evict(g, NULL);
    return g->count < g->count_max || link_evict(g, NULL);
}

static void on_pause_over(struct loop_timer *t)
{
    struct gate_listener *l = container_of(t, struct gate_listener, pause);
    loop_watch(l->gate->loop, &l->io, EPOLLIN);
}

static void on_listener(struct loop_io *io, uint32_t events)
{
    struct gate_listener *l = container_of(io, struct gate_listener, io);
    struct gate *g = l->gate;
    (void)events;
    for (int i = 0; i < ACCEPT_BATCH; i++) {
        struct sockaddr_storage sa = {0};
        socklen_t len = sizeof sa;
        int fd = accept4(io->fd, (struct sockaddr *)&sa, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0 && (errno == ECONNABORTED || errno == EINTR))
            continue;
        if (fd < 0 && errno == EAGAIN)
            return;
        if (fd < 0 && (errno == EMFILE || errno == ENFILE) && link_evict(g, NULL))
            continue;
        if (fd < 0) {
            loop_watch(g->loop, io, 0);
            loop_timer_set(g->loop, &l->pause, PAUSE_MS);
            return;
        }
        struct peer_address from = peer_address(&sa);
        struct peer_group group = peer_group(&from);
        if (from.family && make_room(g, &group))
            link_new(g, fd, &from);
        else
            close(fd);
    }
}

int gate_listen(struct gate *g, int fd, struct err *err)
{
    cleanup_fd int owned = fd;
    if (g->listener_count == GATE_LISTENERS_MAX)
        return err_set(err, ERR_LIMIT, "more than %d sockets for TLS", GATE_LISTENERS_MAX);
    struct gate_listener *l = &g->listeners[g->listener_count++];
    *l = (struct gate_listener){
        .io = {.fd = fd_steal(&owned), .fn = on_listener}, .pause.fn = on_pause_over, .gate = g};
    int r = g->settings ? loop_watch(g->loop, &l->io, EPOLLIN) : 0;
    errno = -r;
    return r < 0 ? err_sys(err, "watch a socket for TLS") : 0;
}

void gate_use(struct gate *g, SSL_CTX *settings)
{
    bool first = !g->settings;
    SSL_CTX_free(g->settings); /* connections hold what they began with */
    g->settings = settings;
    for (unsigned i = 0; first && i < g->listener_count; i++)
        loop_watch(g->loop, &g->listeners[i].io, EPOLLIN);
}

/* ---- life ---- */

/* A connection has two descriptors, and a third one until the front has it. */
static unsigned most_connections(void)
{
    struct rlimit l;
    if (getrlimit(RLIMIT_NOFILE, &l) < 0)
        return 64;
    l.rlim_cur = l.rlim_max;
    setrlimit(RLIMIT_NOFILE, &l);
    rlim_t most = l.rlim_cur > 128 ? (l.rlim_cur - 64) / 2 : 32;
    return most < COUNT_MAX ? (unsigned)most : COUNT_MAX;
}

void gate_init(struct gate *g, struct loop *loop, int door)
{
    *g = (struct gate){.loop = loop,
                       .door = {.fd = door, .fn = on_door},
                       .count_max = most_connections(),
                       .waiting_max = WAITING_MAX,
                       .waiting_of_one = WAITING_OF_ONE};
    if (g->waiting_max > g->count_max / 2)
        g->waiting_max = g->count_max / 2;
    if (g->waiting_of_one > g->waiting_max / 2)
        g->waiting_of_one = g->waiting_max / 2;
    ring_init(&g->all);
    ring_init(&g->waiting);
    ring_init(&g->at_door);
}

void gate_end(struct gate *g, void (*idle)(void *ctx), void *ctx)
{
    g->ending = true;
    g->idle = idle;
    g->ctx = ctx;
    while (g->listener_count) {
        struct gate_listener *l = &g->listeners[--g->listener_count];
        loop_forget(g->loop, &l->io);
        loop_timer_cancel(g->loop, &l->pause);
        close(l->io.fd);
    }
    link_end_waiting(g);
    if (g->count == 0)
        idle(ctx);
}
