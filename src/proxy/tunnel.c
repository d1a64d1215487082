/* Bytes both ways. Between two plain sockets they never enter this process: splice(2) moves them
 * through a pipe. Where they must be looked at (WebSocket frames, secrets that an upstream echoes)
 * or be encrypted, they are copied.
 *
 * An idle tunnel holds two sockets and this struct, no pipe and no buffer. */
#include "base/cleanup.h"
#include "base/container.h"
#include "http/ws.h"
#include "proxy/pipes.h"
#include "proxy/proxy.h"
#include "proxy/ws_search.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#define IDLE_MS    (10u * 60 * 1000)
#define SPLICE_MAX (1u << 20)
#ifndef ROUND_MAX
#define ROUND_MAX (4u << 20) /* then the others get a turn */
#endif
#define COPY_MAX (64u * 1024)

struct flow {
    struct tunnel *t;
    struct stream *from, *to;
    bool up;   /* towards the outside */
    bool cut;  /* the budget ended: no more is read */
    bool eof;  /* `from` has finished */
    bool done; /* and `to` knows it */
    bool copied;
    struct pipe_pair pipe;
    size_t in_pipe;
    char *held; /* copied bytes that `to` has not taken yet */
    size_t held_at, held_len;
    uint64_t bytes;
    struct ws_reader *frames;
    struct redact_stream *redact;
    struct ws_search search; /* where there are frames */
};

struct tunnel {
    struct tunnel *next, **link;
    struct proxy *px;
    struct rules *rules;
    struct target target;
    enum entry entry;
    size_t rule;
    int status;
    struct stream *client, *upstream;
    struct flow up, down;
    struct ws_reader frames[2];
    uint64_t started_ms, active_ms;
    struct loop_timer idle;
    enum deny_reason reason;
    const char *note;
};

/* ---- the end ---- */

static void flow_release(struct flow *f)
{
    pipe_give_back(&f->pipe, f->in_pipe == 0 && !f->cut); /* a cut one has a rest in it */
    free(f->held);
    redact_close(f->redact);
}

static void tunnel_event(struct tunnel *t)
{
    struct event ev = {
        .entry = t->entry,
        .target = &t->target,
        .allowed = true,
        .reason = t->reason,
        .rule = t->rule,
        .note = t->note,
        .status = t->status,
        .up = t->up.bytes,
        .down = t->down.bytes,
        .ms = loop_now_ms(t->px->loop) - t->started_ms,
    };
    event_send(t->px, &ev);
}

static void unlink_tunnel(struct tunnel *t)
{
    loop_timer_cancel(t->px->loop, &t->idle);
    if (t->next)
        t->next->link = t->link;
    *t->link = t->next;
    stream_close(t->client);
    stream_close(t->upstream);
    flow_release(&t->up);
    flow_release(&t->down);
    rules_drop(t->rules);
    free(t);
}

static void tunnel_end(struct tunnel *t)
{
    tunnel_event(t);
    budget_disconnect(&t->px->budgets, t->rule);
    unlink_tunnel(t);
}

/* ---- one direction; each step: 1 go on, 0 wait, negative: over ---- */

/* What may go out of `len` bytes that were read. */
static size_t within_budget(struct flow *f, size_t len)
{
    if (!f->up)
        return len;
    size_t may = (size_t)budget_upload(&f->t->px->budgets, f->t->rule, len);
    if (may < len) {
        f->cut = true;
        f->t->reason = DENY_UPLOAD;
    }
    return may;
}

static int splice_in(struct flow *f)
{
    if (f->pipe.read_fd < 0 && !pipe_take(&f->pipe)) {
        f->copied = true;
        return 1;
    }
    ssize_t n = splice(f->from->io.fd, NULL, f->pipe.write_fd, NULL, SPLICE_MAX,
                       SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
    if (n < 0 && errno == EINTR)
        return 1;
    if (n <= 0)
        pipe_give_back(&f->pipe, true);
    if (n == 0) {
        f->eof = true;
        return 1;
    }
    if (n < 0)
        return errno == EAGAIN ? 0 : -errno;
    f->in_pipe = within_budget(f, (size_t)n);
    return 1;
}

static int splice_out(struct flow *f)
{
    while (f->in_pipe > 0) {
        ssize_t n = splice(f->pipe.read_fd, NULL, f->to->io.fd, NULL, f->in_pipe,
                           SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 && errno == EAGAIN ? 0 : -EPIPE;
        f->in_pipe -= (size_t)n;
        f->bytes += (uint64_t)n;
    }
    return 1;
}

/* Sends what can be sent at once and holds the rest. */
static int send_or_hold(struct flow *f, const char *data, size_t len)
{
    ssize_t n = 0;
    if (len == 0)
        return f->held_len == 0;
    if (f->held_len == 0) {
        n = stream_write(f->to, data, len);
        if (n < 0 && n != -EAGAIN)
            return (int)n;
        if (n < 0)
            n = 0;
        f->bytes += (uint64_t)n;
    }
    size_t rest = len - (size_t)n;
    if (rest == 0)
        return 1;
    char *held = realloc(f->held, f->held_len + rest);
    if (!held)
        return -ENOMEM;
    memcpy(held + f->held_len, data + n, rest);
    f->held = held;
    f->held_len += rest;
    return 0;
}

static int send_held(struct flow *f)
{
    while (f->held_at < f->held_len) {
        ssize_t n = stream_write(f->to, f->held + f->held_at, f->held_len - f->held_at);
        if (n < 0)
            return n == -EAGAIN ? 0 : (int)n;
        f->held_at += (size_t)n;
        f->bytes += (uint64_t)n;
    }
    free(f->held);
    f->held = NULL;
    f->held_at = f->held_len = 0;
    return 1;
}

static int send_piece(void *ctx, const char *data, size_t len)
{
    return send_or_hold(ctx, data, len);
}

static int pass_redacted(struct flow *f, const char *data, size_t len)
{
    const char *safe;
    size_t safe_len;
    if (f->frames)
        return ws_search_feed(&f->search, data, len, send_piece, f);
    if (redact_feed(f->redact, data, len, &safe, &safe_len, NULL) < 0)
        return -EPROTO;
    return send_or_hold(f, safe, safe_len);
}

static int pass_on(struct flow *f, const char *data, size_t len)
{
    if (f->frames && ws_check(f->frames, data, len, NULL) < 0) {
        f->t->reason = f->up ? DENY_MALFORMED : DENY_RESPONSE;
        return -EPROTO;
    }
    if (!f->redact)
        return send_or_hold(f, data, within_budget(f, len));
    int r = pass_redacted(f, data, len);
    if (r == -EPROTO)
        f->t->reason = DENY_RESPONSE;
    return r;
}

static int copy_in(struct flow *f)
{
    static char scratch[COPY_MAX]; /* one thread; nothing stays in it between two calls */
    ssize_t n = stream_read(f->from, scratch, sizeof scratch);
    if (n > 0)
        return pass_on(f, scratch, (size_t)n);
    if (n < 0)
        return n == -EAGAIN ? 0 : (int)n;
    f->eof = true;
    const char *rest = NULL;
    size_t len = 0;
    if (f->redact && redact_flush(f->redact, &rest, &len) < 0)
        return -EPROTO;
    int r = send_or_hold(f, rest, len);
    return r < 0 ? r : 1;
}

static int flow_step(struct flow *f)
{
    int r = f->held_len ? send_held(f) : f->in_pipe ? splice_out(f) : 1;
    if (r <= 0)
        return r;
    if (f->cut)
        return -EDQUOT;
    if (f->eof) {
        if (!f->done)
            stream_finish(f->to);
        f->done = true;
        return 0;
    }
    return f->copied ? copy_in(f) : splice_in(f);
}

static int flow_run(struct flow *f)
{
    uint64_t end = f->bytes + ROUND_MAX;
    int r = f->done ? 0 : 1;
    /* After the end of the input there will be no further event, so go on now. */
    while (r > 0 && (f->bytes < end || f->eof || f->cut))
        r = flow_step(f);
    /* Between two bursts nothing is kept. */
    if (f->in_pipe == 0)
        pipe_give_back(&f->pipe, !f->cut);
    return r;
}

/* ---- both ---- */

static bool is_full(const struct flow *f)
{
    return f->in_pipe > 0 || f->held_len > 0;
}

static unsigned wants(const struct flow *in, const struct flow *out)
{
    unsigned w = 0;
    if (!in->eof && !in->cut && !is_full(in))
        w |= STREAM_READABLE;
    if (is_full(out))
        w |= STREAM_WRITABLE;
    return w;
}

static void tunnel_run(struct tunnel *t)
{
    uint64_t before = t->up.bytes + t->down.bytes;
    int up = flow_run(&t->up);
    int down = up < 0 ? 0 : flow_run(&t->down);
    if (t->up.bytes + t->down.bytes != before)
        t->active_ms = loop_now_ms(t->px->loop);
    if (up < 0 || down < 0 || (t->up.done && t->down.done)) {
        tunnel_end(t);
        return;
    }
    stream_want(t->client, wants(&t->up, &t->down));
    stream_want(t->upstream, wants(&t->down, &t->up));
}

static void on_ready(void *ctx, unsigned ready)
{
    (void)ready;
    tunnel_run(ctx);
}

static void on_idle(struct loop_timer *timer)
{
    struct tunnel *t = container_of(timer, struct tunnel, idle);
    uint64_t quiet = loop_now_ms(t->px->loop) - t->active_ms;
    if (quiet < IDLE_MS) {
        loop_timer_set(t->px->loop, &t->idle, IDLE_MS - quiet);
        return;
    }
    tunnel_end(t);
}

static void flow_init(struct flow *f, struct tunnel *t, struct stream *from, struct stream *to,
                      const struct tunnel_options *o)
{
    *f = (struct flow){.t = t, .from = from, .to = to, .up = from == t->client, .pipe = {-1, -1}};
    f->copied = o->websocket || o->redact || from->tls || to->tls;
    if (o->websocket) {
        f->frames = &t->frames[f->up];
        ws_reader_init(f->frames, f->up);
    }
}

static int first_bytes(struct tunnel *t, const struct tunnel_options *o, struct err *err)
{
    if (o->redact && redactor_lag(t->px->redactor) > 0 &&
        redact_open(t->px->redactor, &t->down.redact, err) < 0)
        return err_number(err);
    t->down.search = (struct ws_search){.redactor = t->px->redactor, .redact = t->down.redact};
    if (o->first_up_len && pass_on(&t->up, o->first_up, o->first_up_len) < 0)
        return err_number(err);
    return o->first_down_len ? pass_on(&t->down, o->first_down, o->first_down_len) : 0;
}

void tunnel_start(const struct tunnel_options *o, struct stream *client, struct stream *upstream)
{
    struct tunnel *t = calloc(1, sizeof *t);
    if (!t) {
        budget_disconnect(&o->px->budgets, o->rule);
        stream_close(client);
        stream_close(upstream);
        return;
    }
    *t = (struct tunnel){.px = o->px,
                         .rules = rules_hold(o->px->rules),
                         .target = o->target,
                         .entry = o->entry,
                         .rule = o->rule,
                         .status = o->status,
                         .client = client,
                         .upstream = upstream,
                         .started_ms = loop_now_ms(o->px->loop),
                         .active_ms = loop_now_ms(o->px->loop),
                         .idle.fn = on_idle,
                         .next = o->px->tunnels,
                         .link = &o->px->tunnels};
    t->target.path = NULL;
    if (t->next)
        t->next->link = &t->next;
    *t->link = t;
    flow_init(&t->up, t, client, upstream, o);
    flow_init(&t->down, t, upstream, client, o);
    loop_timer_set(t->px->loop, &t->idle, IDLE_MS);
    stream_on(client, on_ready, t);
    stream_on(upstream, on_ready, t);
    struct err err = ERR_INIT;
    if (first_bytes(t, o, &err) < 0) {
        tunnel_end(t);
        return;
    }
    tunnel_run(t);
}

unsigned tunnels_review(struct proxy *px)
{
    unsigned ended = 0;
    for (struct tunnel *t = px->tunnels, *next; t; t = next) {
        next = t->next;
        if (rules_follow(px, t->rules, &t->target, t->upstream, &t->rule, &t->reason)) {
            rules_drop(t->rules);
            t->rules = rules_hold(px->rules);
            continue;
        }
        tunnel_event(t); /* rules_follow has given its connection back */
        unlink_tunnel(t);
        ended++;
    }
    return ended;
}

void tunnels_end(struct proxy *px)
{
    while (px->tunnels)
        tunnel_end(px->tunnels);
}
