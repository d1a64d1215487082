/* HTTP on a stream of the sandbox: the life of a session. Each step does what can be done now; when
 * none can go on, the streams and one timer are told what is waited for.
 *
 * N-9   Each request is decided by itself, whatever came before it on the connection.
 * N-10  What one client or server does not take is never read from the other: memory is bounded. */
#include "proxy/session.h"

#include "base/container.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define HEAD_MS     15000u
#define IDLE_MS     60000u
#define DIAL_MS     60000u
#define ASK_MS      (25 * 3600 * 1000) /* the supervisor answers, always */
#define RESPONSE_MS 300000u
#define STALL_MS    60000u
#define LINGER_MS   2000u
#define LINGER_MAX  (1u << 20)
#define READ_AHEAD  4096u /* of what the client sends while it waits for an answer */

/* ---- ends ---- */

static void free_exchange(struct exchange *x)
{
    http_request_done(&x->request);
    http_response_done(&x->response);
    redact_close(x->search);
    form_close(x->form);
    if (x->collected.data)
        explicit_bzero(x->collected.data, x->collected.size);
    buf_done(&x->collected);
    held_set(&x->held, 0);
    free(x->path);
    free(x);
}

void exchange_note(struct exchange *x, const char *text)
{
    snprintf(x->note_text, sizeof(x->note_text), "%s", text);
    x->note = x->note_text;
}

/* Sends the event of this exchange and forgets it. */
static void exchange_end(struct session *s)
{
    struct exchange *x = s->x;
    if (!x)
        return;
    struct event ev = {
        .entry = x->entry,
        .target = &x->target,
        .allowed = x->reason == DENY_NONE,
        .reason = x->reason,
        .rule = x->rule,
        .hint = x->hint,
        .note = x->note,
        .status = x->status,
        .up = x->up,
        .down = x->down,
        .ms = loop_now_ms(s->px->loop) - x->started_ms,
    };
    s->x = NULL;
    event_send(s->px, &ev);
    free_exchange(x);
}

static void free_task(struct loop_task *t)
{
    free(container_of(t, struct session, task));
}

enum step session_end(struct session *s, bool broken)
{
    struct linger at_once = {.l_onoff = 1};
    if (broken && s->client.stream && !s->client.stream->tls)
        setsockopt(s->client.stream->io.fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
    exchange_end(s);
    dial_cancel(s->dial);
    s->dial = NULL;
    ask_cancel(s->asking);
    s->asking = NULL;
    upstream_close(s);
    side_close(&s->client);
    loop_timer_cancel(s->px->loop, &s->timer);
    rules_drop(s->rules);
    s->rules = NULL;
    if (s->next)
        s->next->link = s->link;
    *s->link = s->next;
    /* A callback further up may still hold it. */
    s->task.fn = free_task;
    loop_defer(s->px->loop, &s->task);
    return STEP_GONE;
}

enum step client_gone(struct session *s)
{
    if (s->x && !s->x->note)
        s->x->note = "the client went away";
    return session_end(s, false);
}

void session_moved(struct session *s)
{
    s->active_ms = loop_now_ms(s->px->loop);
}

/* ---- steps ---- */

/* What the client sends while it waits is looked at only as far as to see whether it is still
 * there.
 */
static enum step watch_client(struct session *s)
{
    if (s->client.len >= READ_AHEAD || !s->x->body.done)
        return STEP_WAIT;
    return side_read(&s->client, READ_AHEAD) < 0 ? client_gone(s) : STEP_WAIT;
}

static enum step relay_step(struct session *s)
{
    enum step up = request_body_step(s);
    if (up == STEP_GONE || s->state != SESSION_RELAY)
        return up;
    enum step down = response_step(s);
    if (down == STEP_GONE || s->state != SESSION_RELAY)
        return down;
    if (up == STEP_ON || down == STEP_ON)
        return STEP_ON;
    return watch_client(s);
}

enum step session_answered(struct session *s)
{
    exchange_end(s);
    session_moved(s);
    if (s->keep_alive) {
        s->state = SESSION_HEAD;
        return STEP_ON;
    }
    stream_finish(s->client.stream);
    s->state = SESSION_LINGER;
    return STEP_ON;
}

static enum step answer_step(struct session *s)
{
    int r = side_flush(&s->client);
    if (r < 0)
        return client_gone(s);
    return r ? session_answered(s) : STEP_WAIT;
}

static enum step linger_step(struct session *s)
{
    while (s->lingered < LINGER_MAX) {
        s->lingered += s->client.len;
        side_used(&s->client, s->client.len);
        int r = side_read(&s->client, SIDE_READ_MAX);
        if (r < 0 || s->client.eof)
            return session_end(s, false);
        if (!r)
            return STEP_WAIT;
    }
    return session_end(s, false);
}

static void hand_to_sniff(struct session *s)
{
    struct exchange *x = s->x;
    struct stream *client = side_give(&s->client);
    sniff_start(s->px, client, ENTRY_CONNECT, &x->target.host, x->target.port, s->client.data,
                s->client.len);
}

static void hand_to_tunnel(struct session *s)
{
    struct exchange *x = s->x;
    struct tunnel_options o = {
        .px = s->px,
        .target = x->target,
        .entry = x->entry,
        .rule = x->rule,
        .websocket = true,
        .redact = x->redact,
        .first_up = s->client.data,
        .first_up_len = s->client.len,
        .first_down = s->up.data,
        .first_down_len = s->up.len,
        .status = 101,
    };
    o.target.doubts = NULL;
    o.target.path = NULL; /* nor a method: under new rules it is a connection like any other */
    o.target.method[0] = '\0';
    s->up_counted = false; /* it is the tunnel's now */
    tunnel_start(&o, side_give(&s->client), side_give(&s->up));
}

static enum step hand_on_step(struct session *s)
{
    int r = side_flush(&s->client);
    if (r < 0)
        return client_gone(s);
    if (!r)
        return STEP_WAIT;
    if (s->x->request.form == FORM_AUTHORITY)
        hand_to_sniff(s);
    else
        hand_to_tunnel(s);
    /* The tunnel that took over sends the event. */
    free_exchange(s->x);
    s->x = NULL;
    return session_end(s, false);
}

static enum step step(struct session *s)
{
    switch (s->state) {
    case SESSION_HEAD:
        return request_step(s);
    case SESSION_COLLECT:
        return collect_step(s);
    case SESSION_ASK:
    case SESSION_DIAL:
        return watch_client(s);
    case SESSION_RELAY:
        return relay_step(s);
    case SESSION_ANSWER:
        return answer_step(s);
    case SESSION_HAND_ON:
        return hand_on_step(s);
    case SESSION_LINGER:
        return linger_step(s);
    }
    return session_end(s, true);
}

/* ---- waiting ---- */

static bool client_is_read(const struct session *s)
{
    if (s->client.eof)
        return false;
    switch (s->state) {
    case SESSION_HEAD:
    case SESSION_COLLECT:
    case SESSION_LINGER:
        return true;
    case SESSION_ASK:
    case SESSION_DIAL:
        return s->x->body.done && s->client.len < READ_AHEAD;
    case SESSION_RELAY:
        if (s->x->body.done)
            return s->client.len < READ_AHEAD;
        return !s->x->unsent && !side_pending(&s->up);
    default:
        return false;
    }
}

static void want(struct session *s)
{
    unsigned client = client_is_read(s) ? STREAM_READABLE : 0;
    if (side_pending(&s->client))
        client |= STREAM_WRITABLE;
    stream_want(s->client.stream, client);
    if (!s->up.stream)
        return;
    /* An idle one is read too, to see when it goes. */
    unsigned up = side_pending(&s->client) || s->up.eof ? 0 : STREAM_READABLE;
    if (side_pending(&s->up))
        up |= STREAM_WRITABLE;
    stream_want(s->up.stream, up);
}

static uint64_t patience(const struct session *s)
{
    switch (s->state) {
    case SESSION_HEAD:
        return s->client.len ? HEAD_MS : IDLE_MS;
    case SESSION_ASK:
        return ASK_MS;
    case SESSION_DIAL:
        return DIAL_MS;
    case SESSION_RELAY:
        return side_pending(&s->client) || side_pending(&s->up) ? STALL_MS : RESPONSE_MS;
    case SESSION_LINGER:
        return LINGER_MS;
    default:
        return STALL_MS;
    }
}

/* The timer is moved only when it would come too late: it looks for itself whether it is due. */
static void set_timer(struct session *s)
{
    uint64_t now = loop_now_ms(s->px->loop);
    uint64_t due = s->active_ms + patience(s);
    uint64_t after = due > now ? due - now : 1;
    if (!s->timer.due_ms || s->timer.due_ms > now + after)
        loop_timer_set(s->px->loop, &s->timer, after);
}

void session_go(struct session *s)
{
    enum step r;
    do
        r = step(s);
    while (r == STEP_ON);
    if (r == STEP_GONE)
        return;
    if (side_keep(&s->client) < 0 || side_keep(&s->up) < 0) {
        session_end(s, true);
        return;
    }
    want(s);
    set_timer(s);
}

static void on_client(void *ctx, unsigned ready)
{
    struct session *s = ctx;
    if (ready & STREAM_READABLE)
        s->client.readable = true;
    session_go(s);
}

static enum step time_is_up(struct session *s)
{
    switch (s->state) {
    case SESSION_HEAD:
    case SESSION_LINGER:
        return session_end(s, false);
    case SESSION_COLLECT:
        return refuse_with(s, 408, "timeout", "the body of the request did not come in time", NULL);
    case SESSION_DIAL:
        break;
    case SESSION_RELAY:
        if (side_pending(&s->client) || s->x->have_response) {
            s->x->note = "nothing moved for too long";
            return session_end(s, true);
        }
        break;
    default:
        return session_end(s, true);
    }
    s->x->note = "no answer in time";
    return refuse_with(s, 504, "timeout", "the server did not answer in time", NULL);
}

static void on_timer(struct loop_timer *t)
{
    struct session *s = container_of(t, struct session, timer);
    if (loop_now_ms(s->px->loop) < s->active_ms + patience(s)) {
        set_timer(s);
        return;
    }
    if (time_is_up(s) != STEP_GONE)
        session_go(s);
}

/* ---- the beginning ---- */

static void begin_task(struct loop_task *t)
{
    session_go(container_of(t, struct session, task));
}

void http_session_start(struct proxy *px, struct stream *client, enum entry entry,
                        const struct target *fixed, const void *seen, size_t seen_len)
{
    struct session *s = calloc(1, sizeof(*s));
    if (!s) {
        stream_close(client);
        return;
    }
    s->px = px;
    s->entry = entry;
    s->has_fixed = fixed != NULL;
    if (fixed)
        s->fixed = *fixed;
    s->rules = rules_hold(px->rules);
    s->up_rule = SIZE_MAX;
    s->active_ms = loop_now_ms(px->loop);
    s->timer.fn = on_timer;
    s->next = px->sessions;
    s->link = &px->sessions;
    if (px->sessions)
        px->sessions->link = &s->next;
    px->sessions = s;
    side_init(&s->client, 0);
    side_init(&s->up, 1);
    side_take(&s->client, client);
    stream_on(client, on_client, s);
    if (side_preload(&s->client, seen, seen_len) < 0) {
        session_end(s, true);
        return;
    }
    /* The caller may be in a callback of this very stream; and TLS may hold bytes already. */
    s->client.readable = true;
    s->task.fn = begin_task;
    loop_defer(px->loop, &s->task);
}

/* ---- other rules ---- */

/* May what is being served go on? */
static bool still_allowed(struct session *s)
{
    struct exchange *x = s->x;
    enum deny_reason reason = DENY_NONE;
    if (s->up_counted) {
        s->up_counted =
            rules_follow(s->px, s->rules, &x->target, s->up.stream, &s->up_rule, &reason);
        x->rule = s->up_rule;
        x->reason = reason;
        return s->up_counted;
    }
    struct verdict v;
    egress_decide(&s->px->rules->egress, &x->target, &v);
    x->rule = v.rule;
    x->reason = v.allow ? DENY_NONE : v.reason;
    return v.allow;
}

static bool is_decided(const struct session *s)
{
    return s->x && s->x->reason == DENY_NONE &&
           (s->state == SESSION_COLLECT || s->state == SESSION_DIAL || s->state == SESSION_RELAY ||
            (s->state == SESSION_HAND_ON && s->x->request.form != FORM_AUTHORITY));
}

unsigned sessions_review(struct proxy *px)
{
    unsigned ended = 0;
    for (struct session *s = px->sessions, *next; s; s = next) {
        next = s->next;
        bool ends = is_decided(s) && !still_allowed(s);
        if (!is_decided(s) && !ends)
            upstream_review(s);
        rules_drop(s->rules);
        s->rules = rules_hold(px->rules);
        if (ends) {
            session_end(s, true);
            ended++;
        }
    }
    return ended;
}

void sessions_end(struct proxy *px)
{
    while (px->sessions)
        session_end(px->sessions, true);
}
