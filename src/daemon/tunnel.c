/* Joined sockets: see tunnel.h. */
#include "daemon/tunnel.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define PIECE       (64u * 1024)
#define TUNNELS_MAX 4096

struct tunnel;
struct side {
    struct loop_io io;
    struct tunnel *tunnel;
    struct buf out; /* to be sent to this side */
    size_t at;
    bool ended; /* it sent its last byte */
    bool shut;  /* it was told that the other did */
};
struct tunnel {
    struct loop *loop;
    struct side side[2];
    struct loop_task release;
    bool closing;
};

static unsigned tunnels;

static void tunnel_free(struct loop_task *t)
{
    struct tunnel *tunnel = (struct tunnel *)((char *)t - offsetof(struct tunnel, release));
    for (int i = 0; i < 2; i++)
        buf_done(&tunnel->side[i].out);
    free(tunnel);
    tunnels--;
}

static void tunnel_close(struct tunnel *t)
{
    if (t->closing)
        return;
    t->closing = true;
    for (int i = 0; i < 2; i++) {
        loop_forget(t->loop, &t->side[i].io);
        close(t->side[i].io.fd);
    }
    loop_defer(t->loop, &t->release);
}

static struct side *other(struct side *s)
{
    return &s->tunnel->side[s == &s->tunnel->side[0]];
}

static size_t waiting(const struct side *s)
{
    return s->out.len - s->at;
}

static void side_watch(struct side *s)
{
    uint32_t read = s->ended || waiting(other(s)) ? 0 : EPOLLIN;
    loop_watch(s->tunnel->loop, &s->io, read | (waiting(s) ? EPOLLOUT : 0));
}

/* False: this side fails. */
static bool side_flush(struct side *s)
{
    while (waiting(s)) {
        ssize_t n = send(s->io.fd, s->out.data + s->at, waiting(s), MSG_NOSIGNAL);
        if (n < 0)
            return errno == EAGAIN || errno == EINTR;
        s->at += (size_t)n;
    }
    buf_reset(&s->out);
    s->at = 0;
    if (other(s)->ended && !s->shut) {
        s->shut = true;
        shutdown(s->io.fd, SHUT_WR);
    }
    return true;
}

static bool side_read(struct side *s)
{
    struct side *to = other(s);
    char data[PIECE];
    ssize_t n = recv(s->io.fd, data, sizeof(data), 0);
    if (n < 0)
        return errno == EAGAIN || errno == EINTR;
    if (n == 0)
        s->ended = true;
    buf_add(&to->out, data, (size_t)n);
    return !to->out.failed && side_flush(to);
}

static void on_io(struct loop_io *io, uint32_t events)
{
    struct side *s = (struct side *)((char *)io - offsetof(struct side, io));
    struct tunnel *t = s->tunnel;
    bool good = !(events & EPOLLERR);
    if (good && (events & EPOLLOUT))
        good = side_flush(s);
    if (good && (events & (EPOLLIN | EPOLLHUP)) && !waiting(other(s)) && !s->ended)
        good = side_read(s);
    else if (good && (events & EPOLLHUP))
        good = false;
    if (!good ||
        (t->side[0].ended && t->side[1].ended && !waiting(&t->side[0]) && !waiting(&t->side[1]))) {
        tunnel_close(t);
        return;
    }
    side_watch(&t->side[0]);
    side_watch(&t->side[1]);
}

static void side_init(struct tunnel *t, int i, int fd, struct buf *out)
{
    t->side[i].io = (struct loop_io){.fd = fd, .fn = on_io};
    t->side[i].tunnel = t;
    t->side[i].out = *out;
    t->side[i].out.cap = 2 * PIECE + out->len;
}

void tunnel_start(struct loop *loop, int client, int inside, struct buf *to_client,
                  struct buf *to_inside)
{
    struct tunnel *t =
        client >= 0 && inside >= 0 && tunnels < TUNNELS_MAX ? calloc(1, sizeof(*t)) : NULL;
    if (!t) {
        if (client >= 0)
            close(client);
        if (inside >= 0)
            close(inside);
        buf_done(to_client);
        buf_done(to_inside);
        return;
    }
    tunnels++;
    t->loop = loop;
    t->release.fn = tunnel_free;
    side_init(t, 0, client, to_client);
    side_init(t, 1, inside, to_inside);
    if (!side_flush(&t->side[0]) || !side_flush(&t->side[1])) {
        tunnel_close(t);
        return;
    }
    side_watch(&t->side[0]);
    side_watch(&t->side[1]);
}
