/* Joined sockets: see tunnel.h. */
#include "daemon/e2b/tunnel.h"

#include "base/container.h"
#include "daemon/base/account.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define PIECE    (64u * 1024)
#define STUCK_MS 75000 /* nothing moves though something waits, or one side has ended */

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
    struct side side[2]; /* the client, the sandbox */
    struct box_dependent of_box;
    struct seat seat;
    struct hold hold;
    struct loop_timer stuck;
    struct loop_task release;
    bool closing;
    bool moved; /* something was taken by a side, in this round */
};

int tunnel_charge(struct account *a, struct err *err)
{
    int r = account_charge(a, ACCOUNT_TUNNELS, 1, err);
    if (r == 0 && (r = account_charge(a, ACCOUNT_DESCRIPTORS, 1, err)) < 0)
        account_return(a, ACCOUNT_TUNNELS, 1);
    return r;
}

static void tunnel_return(struct account *a)
{
    account_return(a, ACCOUNT_TUNNELS, 1);
    account_return(a, ACCOUNT_DESCRIPTORS, 1);
}

static void tunnel_free(struct loop_task *t)
{
    struct tunnel *tunnel = container_of(t, struct tunnel, release);
    for (int i = 0; i < 2; i++)
        buf_done(&tunnel->side[i].out);
    tunnel_return(tunnel->hold.account);
    hold_done(&tunnel->hold);
    free(tunnel);
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
    box_undepend(&t->of_box);
    seat_leave(&t->seat);
    loop_timer_cancel(t->loop, &t->stuck);
    loop_defer(t->loop, &t->release);
}

static void on_box_gone(struct box_dependent *d)
{
    tunnel_close(container_of(d, struct tunnel, of_box));
}

static void on_stuck(struct loop_timer *timer)
{
    tunnel_close(container_of(timer, struct tunnel, stuck));
}

static struct side *other(struct side *s)
{
    return &s->tunnel->side[s == &s->tunnel->side[0]];
}

static size_t waiting(const struct side *s)
{
    return s->out.len - s->at;
}

/* The timer runs while bytes wait or one side has ended, and starts anew whenever bytes move. */
static void watch_stuck(struct tunnel *t)
{
    bool ended = t->side[0].ended || t->side[1].ended;
    if (!ended && !waiting(&t->side[0]) && !waiting(&t->side[1]))
        loop_timer_cancel(t->loop, &t->stuck);
    else if (t->moved || !t->stuck.due_ms)
        loop_timer_set(t->loop, &t->stuck, STUCK_MS);
    t->moved = false;
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
        s->tunnel->moved = true;
    }
    buf_release(&s->out);
    s->at = 0;
    if (other(s)->ended && !s->shut) {
        s->shut = true;
        shutdown(s->io.fd, SHUT_WR);
    }
    return true;
}

/* Nothing waits for the other side: what it takes at once is not kept. */
static bool side_read(struct side *s)
{
    struct side *to = other(s);
    char data[PIECE];
    ssize_t n = recv(s->io.fd, data, sizeof(data), 0), sent = 0;
    if (n < 0)
        return errno == EAGAIN || errno == EINTR;
    if (n == 0)
        s->ended = true;
    else if ((sent = send(to->io.fd, data, (size_t)n, MSG_NOSIGNAL)) < 0 && errno != EAGAIN)
        return false;
    if (sent < 0)
        sent = 0;
    s->tunnel->moved |= sent > 0;
    buf_add(&to->out, data + sent, (size_t)(n - sent));
    return !to->out.failed && side_flush(to);
}

static void tunnel_watch(struct tunnel *t)
{
    side_watch(&t->side[0]);
    side_watch(&t->side[1]);
    watch_stuck(t);
}

static void on_io(struct loop_io *io, uint32_t events)
{
    struct side *s = container_of(io, struct side, io);
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
    tunnel_watch(t);
}

/* The bytes that came with the upgrade always fit: only the account can refuse them. */
static void side_init(struct tunnel *t, int i, int fd, struct buf *first)
{
    t->side[i].io =
        (struct loop_io){.fd = fd, .fn = on_io, .share = account_share(t->hold.account)};
    t->side[i].tunnel = t;
    buf_init_metered(&t->side[i].out, 2 * PIECE + first->len, &t->hold.meter);
    buf_add(&t->side[i].out, buf_text(first), first->len);
    buf_done(first);
}

void tunnel_start(struct box *b, struct account *a, struct loop *loop, struct seat *seat,
                  const int fds[2], struct buf out[2])
{
    struct tunnel *t = fds[0] >= 0 && fds[1] >= 0 ? calloc(1, sizeof(*t)) : NULL;
    if (!t) {
        tunnel_return(a);
        seat_leave(seat);
        for (int i = 0; i < 2; i++) {
            if (fds[i] >= 0)
                close(fds[i]);
            buf_done(&out[i]);
        }
        return;
    }
    t->loop = loop;
    t->release.fn = tunnel_free;
    t->of_box.gone = on_box_gone;
    t->stuck.fn = on_stuck;
    t->seat = *seat;
    *seat = (struct seat){0};
    hold_init(&t->hold, a);
    for (int i = 0; i < 2; i++)
        side_init(t, i, fds[i], &out[i]);
    box_depend(b, &t->of_box);
    if (t->side[0].out.failed || t->side[1].out.failed || !side_flush(&t->side[0]) ||
        !side_flush(&t->side[1]))
        tunnel_close(t);
    else
        tunnel_watch(t);
}
