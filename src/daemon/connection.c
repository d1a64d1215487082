/* One connection: reads heads, starts exchanges, and waits for what each phase needs, with a
 * deadline for everything that waits for the client (DM-2). */
#include "daemon/connection.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define REQUESTS_AT_ONCE 8 /* of one connection, before others have their turn */
#define READS_AT_ONCE    4
#define LINGER_MS        2000
#define LINGER_MAX       (1u << 20)
#define BODY_PACE        1024 /* bytes of a body that must come in each head_timeout */

void connection_later(struct connection *c)
{
    loop_defer(c->server->loop, &c->task);
}

static uint64_t now_ms(const struct connection *c)
{
    return loop_now_ms(c->server->loop);
}

static bool has_input(const struct connection *c)
{
    return c->in_at < c->in_len;
}

/* ---- the end ---- */

/* Its place is free again, whatever becomes of the descriptor. */
static int give_up(struct connection *c)
{
    struct server *s = c->server;
    int fd = c->io.fd;
    loop_forget(s->loop, &c->io);
    loop_timer_cancel(s->loop, &c->timer);
    c->io.fd = -1;
    c->phase = PHASE_DEAD;
    output_release(c);
    if (c->caller)
        s->connections--;
    else
        s->refusing--;
    caller_drop(s, c->caller);
    c->caller = NULL;
    if (c->x)
        c->x->over = true;
    connection_later(c);
    server_connection_ended(s);
    return fd;
}

void connection_lost(struct connection *c)
{
    if (c->phase != PHASE_DEAD)
        close(give_up(c));
}

int connection_detach(struct connection *c)
{
    return give_up(c);
}

void connection_free(struct connection *c)
{
    connection_lost(c);
    if (c->x) {
        exchange_leave(c->x);
        if (c->x) /* nobody else will: the server is at its end */
            exchange_free(c->x);
    }
    loop_undefer(c->server->loop, &c->task);
    *c->at = c->next;
    if (c->next)
        c->next->at = c->at;
    c->in_at = c->in_len;
    input_release(c);
    buf_done(&c->out);
    free(c);
}

/* Our side is closed first. Where nothing more can come that we have not read, that is all. */
static void linger(struct connection *c)
{
    if (c->shut || output_waiting(c))
        return;
    c->shut = true;
    if (c->framing.done && !has_input(c)) {
        connection_lost(c);
        return;
    }
    shutdown(c->io.fd, SHUT_WR);
    c->mark_ms = now_ms(c);
}

void connection_answered(struct connection *c)
{
    c->skipped = 0;
    c->mark_ms = now_ms(c);
    if (!c->keep || c->server->draining)
        c->phase = PHASE_LINGER;
    else
        c->phase = c->framing.done ? PHASE_HEAD : PHASE_SKIP;
    output_flush(c);
    if (c->phase == PHASE_LINGER)
        linger(c);
    if (c->phase == PHASE_DEAD || c->advancing)
        return;
    if (has_input(c))
        connection_later(c);
    else
        input_release(c);
    connection_settle(c);
}

void connection_refuse(struct connection *c, int status, const char *message)
{
    struct buf body cleanup_buf;
    buf_init(&body, 4096);
    struct failure f = failure_write(ERRORS_API, status, message, &body);
    struct answer_head h = {
        .status = f.status, .type = f.type, .body = BODY_LENGTH, .length = body.len};
    answer_head_write(c->server, &h, NULL, &c->out);
    c->keep = false;
    c->framing = (struct framing){0};
    output_add(c, buf_text(&body), body.len, true);
    if (c->phase != PHASE_DEAD)
        connection_answered(c);
}

/* ---- requests ---- */

/* Before a handler says what its clients expect. */
static enum error_style style_of(const struct http_request *r)
{
    const char *type = http_header_get(&r->headers, "Content-Type");
    if (type && !strncasecmp(type, "application/connect+", 20))
        return ERRORS_CONNECT_STREAM;
    return http_header_get(&r->headers, "Connect-Protocol-Version") ? ERRORS_CONNECT : ERRORS_API;
}

static void start(struct connection *c, struct http_request *r)
{
    struct server *s = c->server;
    const char *why;
    int status = host_check(s, r, c->local, &why);
    if (status) {
        s->stats.foreign++;
        connection_refuse(c, status, why);
        return;
    }
    struct exchange *x = exchange_new(c, r);
    if (!x) {
        connection_lost(c);
        return;
    }
    c->x = x;
    c->phase = PHASE_EXCHANGE;
    x->style = style_of(&x->request);
    body_begin(c, &x->request);
    status = 401;
    if (s->auth(s->ctx, &x->request, &x->auth, &status) < 0) {
        s->stats.no_key++;
        x->request.keep_alive = false;
        exchange_fail(x, status, "%s",
                      status == 401 ? "no valid API key (X-API-KEY, or Authorization: Bearer)"
                                    : answer_reason(status));
        return;
    }
    s->fn(s->ctx, x);
}

/* true: something was done, and more could be. */
static bool read_head(struct connection *c)
{
    struct err err = ERR_INIT;
    struct http_request r;
    if (!has_input(c))
        return false;
    ssize_t n = http_head_scan(c->in + c->in_at, c->in_len - c->in_at, &c->scanned, &err);
    if (n == 0 && c->in_len - c->in_at < IN_SIZE)
        return false;
    if (n == 0)
        err_set(&err, ERR_LIMIT, "the head of the request is over %u bytes", IN_SIZE);
    if (n <= 0 || http_request_parse(c->in + c->in_at, (size_t)n, &r, &err) < 0) {
        c->server->stats.malformed++;
        connection_refuse(c, err.code == ERR_LIMIT ? 431 : 400, err.message);
        return false;
    }
    c->in_at += (size_t)n;
    c->scanned = 0;
    c->requests++;
    c->server->stats.requests++;
    start(c, &r);
    http_request_done(&r);
    return true;
}

/* The rest of a body that its handler did not want. */
static bool skip(struct connection *c)
{
    const char *data;
    size_t len;
    int r;
    while ((r = input_piece(c, &data, &len, NULL)) > 0) {
        input_take(c, len);
        c->skipped += len;
    }
    if (r < 0 || c->skipped > SKIP_MAX) {
        c->keep = false;
        connection_answered(c);
        return false;
    }
    if (!c->framing.done)
        return false;
    c->phase = PHASE_HEAD;
    c->mark_ms = now_ms(c);
    return true;
}

static bool advance_once(struct connection *c)
{
    switch (c->phase) {
    case PHASE_HEAD:
        return !output_waiting(c) && read_head(c);
    case PHASE_EXCHANGE:
        body_feed(c->x);
        return c->phase == PHASE_HEAD || c->phase == PHASE_SKIP;
    case PHASE_SKIP:
        return skip(c);
    case PHASE_LINGER:
        c->skipped += c->in_len - c->in_at;
        c->in_at = c->in_len;
        if (c->skipped > LINGER_MAX)
            connection_lost(c);
        return false;
    case PHASE_DEAD:
        return false;
    }
    return false;
}

void connection_advance(struct connection *c)
{
    if (c->advancing)
        return;
    c->advancing = true;
    int i = 0;
    while (i < REQUESTS_AT_ONCE && advance_once(c))
        i++;
    c->advancing = false;
    if (i == REQUESTS_AT_ONCE)
        connection_later(c);
}

/* ---- waiting ---- */

static bool wants_body(const struct connection *c)
{
    const struct exchange *x = c->x;
    return x && x->reading != READ_NOTHING && !x->paused && !x->over && !c->framing.done;
}

/* Also where nothing is queued: what is spliced stays in its pipe until it is taken. */
static bool waits_for_reader(const struct connection *c)
{
    return output_waiting(c) || (c->x && c->x->wants_writable);
}

static uint32_t events_of(const struct connection *c)
{
    bool waiting = output_waiting(c) > 0;
    uint32_t out = waits_for_reader(c) ? EPOLLOUT : 0;
    /* Who has nothing to say is watched all the same: the end of a client must not go unnoticed
     * while its answer is quiet. */
    if (c->phase == PHASE_EXCHANGE)
        return out | EPOLLRDHUP | (wants_body(c) ? EPOLLIN : 0);
    return waiting ? out : EPOLLIN | EPOLLRDHUP;
}

/* 0: waits for us, not for the client. */
static uint64_t deadline_of(const struct connection *c)
{
    const struct server_limits *l = &c->server->limits;
    if (waits_for_reader(c))
        return c->mark_ms + l->idle_timeout_ms;
    switch (c->phase) {
    case PHASE_HEAD:
        return c->mark_ms +
               (has_input(c) || !c->requests ? l->head_timeout_ms : l->idle_timeout_ms);
    case PHASE_EXCHANGE:
        if (!wants_body(c))
            return 0;
        return c->mark_ms +
               (c->x->reading == READ_STREAM ? l->idle_timeout_ms : l->head_timeout_ms);
    case PHASE_SKIP:
        return c->mark_ms + l->head_timeout_ms;
    case PHASE_LINGER:
        return c->mark_ms + LINGER_MS;
    case PHASE_DEAD:
        break;
    }
    return 0;
}

/* A deadline that moved further away is only looked at when the old one has come. */
void connection_settle(struct connection *c)
{
    struct loop *l = c->server->loop;
    if (c->phase == PHASE_DEAD)
        return;
    if (loop_watch(l, &c->io, events_of(c)) < 0) {
        connection_lost(c);
        return;
    }
    uint64_t due = deadline_of(c);
    if (due && (!c->timer.due_ms || c->timer.due_ms > due))
        loop_timer_set(l, &c->timer, due > now_ms(c) ? due - now_ms(c) : 0);
}

static void time_out(struct connection *c)
{
    c->server->stats.timed_out++;
    if (waits_for_reader(c))
        connection_lost(c);
    else if (c->phase == PHASE_HEAD && has_input(c))
        connection_refuse(c, 408, "the request did not become complete in time");
    else if (c->phase == PHASE_EXCHANGE)
        exchange_refuse(c->x, 408, "the body of the request did not come in time");
    else
        connection_lost(c);
}

static void on_timer(struct loop_timer *t)
{
    struct connection *c = container_of(t, struct connection, timer);
    uint64_t due = deadline_of(c);
    if (due && due <= now_ms(c))
        time_out(c);
    connection_settle(c);
}

/* ---- events ---- */

static void on_task(struct loop_task *t)
{
    struct connection *c = container_of(t, struct connection, task);
    if (c->x && c->x->over)
        exchange_leave(c->x);
    if (c->phase == PHASE_DEAD) {
        if (!c->x)
            connection_free(c);
        return;
    }
    output_flush(c);
    connection_advance(c);
    input_release(c);
    connection_settle(c);
}

/* A whole body must come at a certain pace; pieces of a stream only must come at all. */
static void note_progress(struct connection *c)
{
    bool enough = c->phase != PHASE_EXCHANGE || !c->x || c->x->reading == READ_STREAM ||
                  c->framing.taken - c->mark_bytes >= BODY_PACE;
    if (c->phase == PHASE_HEAD || c->phase == PHASE_LINGER || !enough)
        return;
    c->mark_ms = now_ms(c);
    c->mark_bytes = c->framing.taken;
}

static void receive(struct connection *c)
{
    for (int i = 0; i < READS_AT_ONCE; i++) {
        bool first = c->phase == PHASE_HEAD && !has_input(c);
        ssize_t n = input_receive(c);
        if (n == -EAGAIN || n == -EINTR)
            return;
        if (n <= 0) {
            /* Who closes its side before it has its answer does not want it. */
            connection_lost(c);
            return;
        }
        if (first)
            c->mark_ms = now_ms(c);
        connection_advance(c);
        note_progress(c);
        if (!wants_body(c) || (size_t)n < IN_SIZE / 2)
            return;
    }
}

static void on_event(struct loop_io *io, uint32_t events)
{
    struct connection *c = container_of(io, struct connection, io);
    if (events & (EPOLLERR | EPOLLHUP)) {
        connection_lost(c);
        return;
    }
    if (events & EPOLLOUT) {
        output_flush(c);
        if (c->x && output_waiting(c) < OUT_LITTLE)
            answer_writable(c->x);
        if (c->phase == PHASE_LINGER)
            linger(c);
        connection_advance(c);
    }
    if (c->phase != PHASE_DEAD && (events & EPOLLIN))
        receive(c);
    else if (events & EPOLLRDHUP)
        connection_lost(c);
    if (c->phase != PHASE_EXCHANGE)
        input_release(c);
    connection_settle(c);
}

void connection_new(struct server *s, int fd, bool local, struct caller *caller)
{
    struct connection *c = calloc(1, sizeof *c);
    if (!c) {
        caller_drop(s, caller);
        close(fd);
        return;
    }
    c->io = (struct loop_io){.fd = fd, .fn = on_event};
    c->timer.fn = on_timer;
    c->task.fn = on_task;
    c->server = s;
    c->caller = caller;
    c->local = local;
    buf_init(&c->out, OUT_MAX);
    c->mark_ms = now_ms(c);
    c->next = s->all;
    c->at = &s->all;
    if (c->next)
        c->next->at = &c->next;
    s->all = c;
    if (caller) {
        s->connections++;
        connection_settle(c);
    } else {
        s->refusing++;
        connection_refuse(c, 503, "too many connections");
    }
}
