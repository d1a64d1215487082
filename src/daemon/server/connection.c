/* One connection: reads heads, starts exchanges, and waits for what each phase needs, with a
 * deadline for everything that waits for the client (DM-2). */
#include "daemon/server/connection.h"
#include "base/clock.h"
#include "base/container.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define REQUESTS_AT_ONCE 8 /* of one connection, before others have their turn */
#define READS_AT_ONCE    4
#define TURNS_MOST       8 /* that a request waits for those of its own key */
#define LINGER_MS        2000
#define LINGER_MAX       (1u << 20)
/* Bytes of a body that must come (DM-5): of one that is kept until it is complete in each
 * head_timeout, of one that is passed on in each idle_timeout. */
#define BODY_PACE   (64u * 1024)
#define STREAM_PACE 1024u

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

/* Frees everything but the struct itself, which callers further up the stack may still look at. */
static int give_up(struct connection *c)
{
    struct server *s = c->server;
    int fd = c->io.fd;
    loop_forget(s->loop, &c->io);
    loop_timer_cancel(s->loop, &c->timer);
    c->io.fd = -1;
    c->phase = PHASE_DEAD;
    c->out_at = 0;
    buf_release(&c->out);
    connection_waits(c, WAITS_NOT);
    hold_done(&c->hold);
    if (c->x)
        c->x->over = true;
    connection_later(c);
    return fd;
}

void connection_lost(struct connection *c)
{
    struct seat seat = {.server = c->server, .caller = c->caller};
    if (c->phase == PHASE_DEAD)
        return;
    close(give_up(c));
    if (c->caller) {
        seat_leave(&seat);
    } else {
        c->server->refusing--;
        server_connection_ended(c->server);
    }
    c->caller = NULL;
}

int connection_detach(struct connection *c, struct seat *ret)
{
    int fd = give_up(c);
    *ret = (struct seat){.server = c->server, .caller = c->caller, .by = c->by};
    c->caller = NULL;
    return fd;
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
    if (!output_waiting(c))
        output_release(c);
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

/* Answers where there is no exchange, and ends the connection. */
static void connection_refuse(struct connection *c, int status, const char *message)
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

/* From here on what the request makes us hold is charged to its key. A request without a key (a
 * health check) stays on the account of its address. */
static int charge_key(struct exchange *x, struct err *err)
{
    struct connection *c = x->c;
    if (!x->auth.key)
        return 0;
    x->account = account_of(c->server->accounts, x->auth.key);
    if (!x->account)
        return err_memory(err);
    hold_init(&x->hold, x->account);
    int r = account_charge(x->account, ACCOUNT_CONNECTIONS, 1, err);
    x->counted = r == 0;
    c->io.share = account_share(x->account);
    if (r == 0)
        r = hold_add(&x->hold, sizeof *x + 2 * x->head_len, err);
    return r < 0 ? r : hold_move(&c->hold, x->account, err);
}

/* If the key has used up its part of this round, the connection waits for the next one (AC-4). */
static void serve(struct exchange *x)
{
    struct server *s = x->c->server;
    struct loop_share *share = account_share(x->account);
    x->waits_turn = loop_share_spent(s->loop, share) && x->turns++ < TURNS_MOST;
    if (x->waits_turn) {
        connection_later(x->c);
        return;
    }
    uint64_t began = clock_us();
    s->fn(s->ctx, x);
    loop_share_use(s->loop, share, clock_us() - began);
}

static void start(struct connection *c, struct http_request *r, size_t head_len)
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
    x->head_len = head_len;
    c->phase = PHASE_EXCHANGE;
    x->style = style_of(&x->request);
    body_begin(c, &x->request);
    status = 401;
    int known = s->auth(s->ctx, &x->request, &x->auth, &status);
    c->by = known < 0 ? NULL : x->auth.by;
    if (known < 0) {
        s->stats.no_key++;
        x->request.keep_alive = false;
        if (x->auth.is_port)
            x->style = ERRORS_PORT;
        exchange_fail(x, status, "%s",
                      x->auth.why     ? x->auth.why
                      : status == 401 ? "no valid API key (X-API-KEY, or Authorization: Bearer)"
                                      : answer_reason(status));
        return;
    }
    struct err err = ERR_INIT;
    if (charge_key(x, &err) < 0) {
        x->request.keep_alive = false;
        exchange_fail_err(x, &err);
        return;
    }
    serve(x);
}

/* true: something was done, and more could be. */
static bool read_head(struct connection *c)
{
    struct err err = ERR_INIT;
    struct http_request r;
    if (!has_input(c))
        return false;
    /* Its last request was its key's; whose the next one is is not known yet. */
    c->io.share = NULL;
    if (c->caller && hold_move(&c->hold, &c->caller->account, NULL) < 0) {
        connection_lost(c);
        return false;
    }
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
    start(c, &r, (size_t)n);
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

static void connection_advance(struct connection *c)
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
    return x && x->reading && !x->paused && !x->over && !c->framing.done;
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
    /* Watch quiet connections too, so that a departed client is noticed. */
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
        return c->mark_ms + (c->x->is_kept ? l->head_timeout_ms : l->idle_timeout_ms);
    case PHASE_SKIP:
        return c->mark_ms + l->head_timeout_ms;
    case PHASE_LINGER:
        return c->mark_ms + LINGER_MS;
    case PHASE_DEAD:
        break;
    }
    return 0;
}

/* Whether, and in which group, it may be closed when there is no room for others (DM-4). */
static enum waiting waiting_of(const struct connection *c)
{
    if (c->phase == PHASE_LINGER)
        return WAITS_REQUEST;
    if (c->phase == PHASE_EXCHANGE || output_waiting(c))
        return WAITS_NOT;
    return c->in ? WAITS_HEAD : WAITS_REQUEST;
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
    connection_waits(c, waiting_of(c));
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
    if (c->x && c->x->waits_turn && c->x->over)
        exchange_free(c->x); /* nobody has heard of it */
    else if (c->x && c->x->waits_turn)
        serve(c->x);
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

static void note_progress(struct connection *c)
{
    bool enough = c->phase != PHASE_EXCHANGE || !c->x ||
                  c->framing.taken - c->mark_bytes >= (c->x->is_kept ? BODY_PACE : STREAM_PACE);
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
        if (n == -EDQUOT && c->x) {
            struct err err = ERR_INIT;
            account_charge(c->x->account, ACCOUNT_BYTES, IN_SIZE, &err);
            exchange_refuse(c->x, 429, "%s; %s", err.message, err.hint);
            return;
        }
        if (n <= 0) {
            /* A client that closes before it has its answer does not want it. */
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
    hold_init(&c->hold, caller ? &caller->account : NULL);
    buf_init_metered(&c->out, OUT_MAX, &c->hold.meter);
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
