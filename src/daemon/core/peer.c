/* One packet socket to the launcher, the recorder or a warden: sends, receives, and gives every
 * question exactly one answer. */
#include "daemon/core/peer.h"

#include "base/cleanup.h"
#include "base/container.h"
#include "daemon/base/account.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#define MESSAGES_PER_ROUND 32 /* then the others get their turn */

struct peer_out {
    struct peer_out *next;
    struct account *account;
    enum wire_type type;
    uint32_t request;
    int64_t value;
    size_t len;
    char text[];
};

struct peer_ask {
    struct peer_ask *next;
    struct peer *peer;
    struct loop_timer timer;
    uint32_t id;
    enum wire_type type;
    bool late; /* its time-out was reported */
    peer_answer_fn *fn;
    void *ctx;
};

static void on_io(struct loop_io *io, uint32_t events);

void peer_init(struct peer *p, struct loop *loop, struct wire_msg *room, const struct peer_ops *ops)
{
    *p = (struct peer){.loop = loop, .room = room, .ops = ops, .io = {.fd = -1, .fn = on_io}};
    p->out_end = &p->out;
}

int peer_open(struct peer *p, int fd, struct err *err)
{
    p->io.fd = fd;
    if (fcntl(fd, F_SETFL, O_NONBLOCK) < 0) {
        int r = err_sys(err, "%s: fcntl", p->ops->name);
        peer_close(p, NULL);
        return r;
    }
    int r = loop_watch(p->loop, &p->io, EPOLLIN);
    if (r < 0) {
        errno = -r;
        r = err_sys(err, "%s: epoll_ctl", p->ops->name);
        peer_close(p, NULL);
    }
    return r;
}

bool peer_is_open(const struct peer *p)
{
    return p->io.fd >= 0;
}

/* ---- sending ---- */

static int queue(struct peer *p, enum wire_type type, uint32_t request, int64_t value,
                 const char *text, size_t len)
{
    size_t size = len + sizeof(struct peer_out);
    if (p->out_bytes + size > p->ops->out_max ||
        account_charge(p->account, ACCOUNT_BYTES, size, NULL) < 0)
        return -ENOBUFS;
    struct peer_out *o = malloc(size);
    if (!o) {
        account_return(p->account, ACCOUNT_BYTES, size);
        return -ENOMEM;
    }
    *o = (struct peer_out){
        .account = p->account, .type = type, .request = request, .value = value, .len = len};
    if (len)
        memcpy(o->text, text, len);
    *p->out_end = o;
    p->out_end = &o->next;
    p->out_bytes += size;
    return loop_watch(p->loop, &p->io, EPOLLIN | EPOLLOUT);
}

int peer_send(struct peer *p, enum wire_type type, uint32_t request, int64_t value,
              const char *text, size_t len)
{
    if (p->io.fd < 0)
        return -EPIPE;
    if (len > WIRE_TEXT_MAX)
        return -EMSGSIZE;
    if (!p->out) {
        int r = wire_send(p->io.fd, type, request, value, text, len, NULL, 0);
        if (r != -EAGAIN)
            return r;
    }
    return queue(p, type, request, value, text, len);
}

static void drop_first(struct peer *p)
{
    struct peer_out *o = p->out;
    p->out = o->next;
    if (!p->out)
        p->out_end = &p->out;
    p->out_bytes -= o->len + sizeof *o;
    account_return(o->account, ACCOUNT_BYTES, o->len + sizeof *o);
    if (o->type == WIRE_LAUNCH)
        explicit_bzero(o->text, o->len); /* it may hold headers */
    free(o);
}

static void flush(struct peer *p)
{
    while (p->out) {
        struct peer_out *o = p->out;
        int r = wire_send(p->io.fd, o->type, o->request, o->value, o->text, o->len, NULL, 0);
        if (r == -EAGAIN)
            return;
        drop_first(p); /* any other failure is seen as the end of the connection when reading */
    }
    loop_watch(p->loop, &p->io, EPOLLIN);
}

/* ---- questions ---- */

static void ask_remove(struct peer_ask *a)
{
    struct peer *p = a->peer;
    loop_timer_cancel(p->loop, &a->timer);
    for (struct peer_ask **at = &p->asks; *at; at = &(*at)->next)
        if (*at == a) {
            *at = a->next;
            p->ask_count--;
            return;
        }
}

static void on_timeout(struct loop_timer *t)
{
    struct peer_ask *a = container_of(t, struct peer_ask, timer);
    struct err err = ERR_INIT;
    errno = ETIMEDOUT;
    err_sys(&err, "%s did not answer %s in time", a->peer->ops->name, wire_type_name(a->type));
    a->late = true;
    a->fn(a->ctx, NULL, &err);
}

static void refuse(struct peer *p, enum wire_type type, int error, peer_answer_fn *fn, void *ctx)
{
    struct err err = ERR_INIT;
    if (error == -EMSGSIZE) {
        err_set(&err, ERR_LIMIT, "the request is too large (%s)", wire_type_name(type));
    } else if (error == -ENOBUFS) {
        err_set(&err, ERR_LIMIT, "%s has too much to do", p->ops->name);
    } else {
        errno = -error;
        err_sys(&err, "%s cannot be asked (%s)", p->ops->name, wire_type_name(type));
    }
    fn(ctx, NULL, &err);
}

uint32_t peer_number(struct peer *p)
{
    if (++p->next_request == 0)
        p->next_request = 1;
    return p->next_request;
}

void peer_ask(struct peer *p, enum wire_type type, int64_t value, const char *text, size_t len,
              uint64_t timeout_ms, peer_answer_fn *fn, void *ctx)
{
    if (p->ask_count >= p->ops->ask_max) {
        refuse(p, type, -ENOBUFS, fn, ctx);
        return;
    }
    struct peer_ask *a = malloc(sizeof *a);
    if (!a) {
        refuse(p, type, -ENOMEM, fn, ctx);
        return;
    }
    *a = (struct peer_ask){.peer = p, .id = peer_number(p), .type = type, .fn = fn, .ctx = ctx};
    a->timer.fn = on_timeout;
    int r = peer_send(p, type, a->id, value, text, len);
    if (r < 0) {
        free(a);
        refuse(p, type, r, fn, ctx);
        return;
    }
    a->next = p->asks;
    p->asks = a;
    p->ask_count++;
    if (timeout_ms)
        loop_timer_set(p->loop, &a->timer, timeout_ms);
}

static bool is_answer(const struct wire_msg *m)
{
    return m->request != 0 &&
           (m->type == WIRE_DONE || m->type == WIRE_FAIL || m->type == WIRE_STATS);
}

static void answer(struct peer *p, struct wire_msg *m)
{
    struct peer_ask *a = p->asks;
    while (a && a->id != m->request)
        a = a->next;
    if (!a) {
        if (m->type == WIRE_FAIL)
            p->ops->message(p, m); /* of something that was said, not asked */
        return;
    }
    ask_remove(a);
    struct err err = ERR_INIT;
    if (a->late) {
        if (p->ops->late)
            p->ops->late(p, a->type, m);
    } else if (m->type == WIRE_FAIL) {
        if (wire_err_read(m->text, m->text_len, &err) < 0 || err.code == ERR_NONE)
            err_set(&err, ERR_PROTOCOL, "%s failed without saying why", p->ops->name);
        a->fn(a->ctx, NULL, &err);
    } else {
        a->fn(a->ctx, m, NULL);
    }
    free(a);
}

/* ---- receiving ---- */

static void lost(struct peer *p, int why)
{
    struct err err = ERR_INIT;
    if (why == -EPROTO) {
        err_set(&err, ERR_PROTOCOL, "%s sent nonsense", p->ops->name);
    } else {
        errno = why ? -why : ECONNRESET;
        err_sys(&err, "%s is gone", p->ops->name);
    }
    peer_close(p, &err);
    p->ops->closed(p, &err);
}

static void receive(struct peer *p, unsigned most)
{
    for (unsigned i = 0; i < most && p->io.fd >= 0; i++) {
        int r = wire_receive(p->io.fd, p->room, MSG_DONTWAIT);
        /* The peer closed without reading everything that we sent. The kernel reports that before
         * it hands out the peer's last messages, so read again. */
        if (r == 0)
            r = wire_receive(p->io.fd, p->room, MSG_DONTWAIT);
        if (r == -EAGAIN || r == -EINTR)
            return;
        if (r <= 0) {
            lost(p, r);
            return;
        }
        if (is_answer(p->room))
            answer(p, p->room);
        else
            p->ops->message(p, p->room);
        wire_close_fds(p->room);
    }
}

static void on_io(struct loop_io *io, uint32_t events)
{
    struct peer *p = container_of(io, struct peer, io);
    if (events & EPOLLOUT)
        flush(p);
    if (p->io.fd >= 0 && (events & ~(uint32_t)EPOLLOUT))
        receive(p, MESSAGES_PER_ROUND);
}

void peer_drain(struct peer *p)
{
    receive(p, 1024);
}

void peer_close(struct peer *p, const struct err *why)
{
    struct err gone = ERR_INIT;
    if (!why) {
        err_set(&gone, ERR_INTERRUPTED, "%s was left", p->ops->name);
        why = &gone;
    }
    loop_close(p->loop, &p->io);
    while (p->out)
        drop_first(p);
    while (p->asks) {
        struct peer_ask *a = p->asks;
        ask_remove(a);
        if (!a->late)
            a->fn(a->ctx, NULL, why);
        free(a);
    }
}
