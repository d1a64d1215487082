/* Joined sockets: see tunnel.h. */
#include "daemon/e2b/tunnel.h"

#include "base/container.h"

#include <errno.h>
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
    struct activity activity;
    struct side side[2]; /* the client, the sandbox */
    struct seat seat;
    struct loop_timer stuck;
    bool moved; /* something was taken by a side, in this round */
};

static void tunnel_stop(struct activity *a)
{
    struct tunnel *t = container_of(a, struct tunnel, activity);
    for (int i = 0; i < 2; i++)
        loop_close(a->loop, &t->side[i].io);
    seat_leave(&t->seat);
    loop_timer_cancel(a->loop, &t->stuck);
}

static void tunnel_done(struct activity *a)
{
    struct tunnel *t = container_of(a, struct tunnel, activity);
    for (int i = 0; i < 2; i++)
        buf_done(&t->side[i].out);
}

static const struct activity_ops tunnel_ops = {.stop = tunnel_stop, .done = tunnel_done};

/* Its key was revoked. */
static void on_cut(struct seat *seat)
{
    activity_end(&container_of(seat, struct tunnel, seat)->activity);
}

static void on_stuck(struct loop_timer *timer)
{
    activity_end(&container_of(timer, struct tunnel, stuck)->activity);
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
        loop_timer_cancel(t->activity.loop, &t->stuck);
    else if (t->moved || !t->stuck.due_ms)
        loop_timer_set(t->activity.loop, &t->stuck, STUCK_MS);
    t->moved = false;
}

static void side_watch(struct side *s)
{
    uint32_t read = s->ended || waiting(other(s)) ? 0 : EPOLLIN;
    loop_watch(s->tunnel->activity.loop, &s->io, read | (waiting(s) ? EPOLLOUT : 0));
}

/* False: this side fails. */
static bool side_flush(struct side *s)
{
    while (waiting(s)) {
        ssize_t n = send(s->io.fd, s->out.data + s->at, waiting(s), MSG_NOSIGNAL | MSG_DONTWAIT);
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
    ssize_t n = recv(s->io.fd, data, sizeof(data), MSG_DONTWAIT), sent = 0;
    if (n < 0)
        return errno == EAGAIN || errno == EINTR;
    if (n == 0)
        s->ended = true;
    else if ((sent = send(to->io.fd, data, (size_t)n, MSG_NOSIGNAL | MSG_DONTWAIT)) < 0 &&
             errno != EAGAIN)
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
        activity_end(&t->activity);
        return;
    }
    tunnel_watch(t);
}

/* The bytes that came with the upgrade always fit: only the account can refuse them. */
static void side_init(struct side *s, int fd, struct buf *first)
{
    struct activity *a = &s->tunnel->activity;
    s->io = (struct loop_io){.fd = fd, .fn = on_io, .share = account_share(a->hold.account)};
    activity_buf(a, &s->out, 2 * PIECE + first->len);
    buf_add(&s->out, buf_text(first), first->len);
    buf_done(first);
}

struct tunnel *tunnel_new(struct core *core, struct box *b, struct account *account,
                          struct err *err)
{
    struct tunnel *t = activity_new(sizeof(*t), &tunnel_ops, core, account, err);
    if (!t)
        return NULL;
    for (int i = 0; i < 2; i++) {
        t->side[i].tunnel = t;
        t->side[i].io.fd = -1;
    }
    t->stuck.fn = on_stuck;
    if (activity_charge(&t->activity, ACCOUNT_TUNNELS, err) < 0 ||
        activity_charge(&t->activity, ACCOUNT_DESCRIPTORS, err) < 0) {
        activity_end(&t->activity);
        return NULL;
    }
    activity_enter(&t->activity, b);
    return t;
}

void tunnel_start(struct tunnel *t, struct seat *seat, const int fds[2], struct buf out[2])
{
    seat_take(&t->seat, seat, on_cut);
    for (int i = 0; i < 2; i++)
        side_init(&t->side[i], fds[i], &out[i]);
    if (fds[0] < 0 || fds[1] < 0 || t->side[0].out.failed || t->side[1].out.failed ||
        !side_flush(&t->side[0]) || !side_flush(&t->side[1]))
        activity_end(&t->activity);
    else
        tunnel_watch(t);
}
