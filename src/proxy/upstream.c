/* The connection behind a session: kept for further requests to the same origin, dialled anew
 * otherwise. It counts as one connection of the rule that its last request matched. */
#include "proxy/session.h"

#include <errno.h>
#include <string.h>

static void on_upstream(void *ctx, unsigned ready)
{
    struct session *s = ctx;
    if (ready & STREAM_READABLE)
        s->up.readable = true;
    if (s->state != SESSION_RELAY && s->state != SESSION_HAND_ON) {
        /* No request is under way: the server has closed, sends something unasked, or this is TLS's
         * own traffic. */
        if (side_read(&s->up, 1) != 0 || s->up.eof)
            upstream_close(s);
        return;
    }
    session_go(s);
}

void upstream_close(struct session *s)
{
    side_close(&s->up);
    if (s->up_counted)
        budget_disconnect(&s->px->budgets, s->up_rule);
    s->up_counted = false;
    s->up_rule = SIZE_MAX;
    s->up_used = false;
}

static bool same_pin(const struct egress *e, size_t a, size_t b)
{
    if (a >= e->rule_count || b >= e->rule_count)
        return false;
    const struct egress_rule *x = &e->rules[a];
    const struct egress_rule *y = &e->rules[b];
    return x->pinned == y->pinned && (!x->pinned || host_equal(&x->address, &y->address));
}

static bool leads_there(const struct session *s, const struct target *t)
{
    return s->up.stream && s->up_counted && s->up_target.scheme == t->scheme &&
           s->up_target.port == t->port && host_equal(&s->up_target.host, &t->host);
}

/* A kept connection serves another rule: there it must be within the budget, and lead to the same
 * place. */
static bool may_keep(struct session *s, size_t rule)
{
    const struct egress *e = &s->px->rules->egress;
    bool shared = budget_is_shared(&s->px->budgets, s->up_rule, rule);
    if (rule == s->up_rule)
        return true;
    if (!same_pin(e, s->up_rule, rule) ||
        (!shared && budget_connect(&s->px->budgets, rule) != DENY_NONE))
        return false;
    if (!shared)
        budget_disconnect(&s->px->budgets, s->up_rule);
    s->up_rule = rule;
    return true;
}

void upstream_review(struct session *s)
{
    enum deny_reason reason = DENY_NONE;
    if (!s->up_counted)
        return;
    s->up_counted =
        rules_follow(s->px, s->rules, &s->up_target, s->up.stream, &s->up_rule, &reason);
    if (!s->up_counted)
        upstream_close(s);
}

/* ---- sending the request ---- */

static void write_host(const struct target *t, struct buf *out)
{
    uint16_t usual = t->scheme == SCHEME_HTTPS ? 443 : 80;
    buf_fmt(out, t->host.kind == HOST_IPV6 ? "[%s]" : "%s", t->host.text);
    if (t->port != usual)
        buf_fmt(out, ":%u", t->port);
}

static enum step send_request(struct session *s)
{
    struct exchange *x = s->x;
    struct buf host cleanup_buf;
    buf_init(&host, 300);
    write_host(&x->target, &host);
    size_t before = s->up.out.len;
    http_request_write(&x->request, buf_text(&host), &s->up.out);
    if (x->collected.len)
        side_queue(&s->up, x->collected.data, x->collected.len);
    size_t len = s->up.out.len - before;
    if (s->up.out.failed) {
        upstream_close(s);
        return refuse_with(s, 502, "internal", "the request could not be written", NULL);
    }
    if (budget_upload(&s->px->budgets, x->rule, len) < len) {
        upstream_close(s);
        return refuse(s, DENY_UPLOAD, NULL);
    }
    x->up += len;
    s->state = SESSION_RELAY;
    s->up_target = x->target;
    s->up_target.path = NULL;
    s->up_target.doubts = NULL;
    s->up_target.method[0] = '\0';
    session_moved(s);
    return STEP_ON;
}

/* ---- dialling ---- */

static enum step dial_failed(struct session *s, enum deny_reason reason, const struct err *err)
{
    struct exchange *x = s->x;
    if (err && err->message[0])
        exchange_note(x, err->message);
    if (reason != DENY_NONE)
        return refuse(s, reason, err ? err->hint : NULL);
    if (err && err->sys_errno == ETIMEDOUT)
        return refuse_with(s, 504, "timeout", "the server did not answer in time", NULL);
    return refuse_with(s, 502, "unreachable", "no connection to the server could be made", NULL);
}

static void on_dialled(void *ctx, struct stream *upstream, enum deny_reason reason,
                       const struct err *err)
{
    struct session *s = ctx;
    s->dial = NULL;
    enum step r;
    if (upstream) {
        side_take(&s->up, upstream);
        stream_on(upstream, on_upstream, s);
        r = send_request(s);
    } else {
        r = dial_failed(s, reason, err);
    }
    if (r != STEP_GONE)
        session_go(s);
}

static enum step dial(struct session *s)
{
    struct exchange *x = s->x;
    enum deny_reason over = budget_connect(&s->px->budgets, x->rule);
    if (over != DENY_NONE)
        return refuse(s, over, NULL);
    s->up_counted = true;
    s->up_rule = x->rule;
    s->dial = dial_start(s->px, &x->target, x->rule, true, on_dialled, s);
    if (!s->dial) {
        upstream_close(s);
        return refuse_with(s, 502, "internal", ERR_MEMORY_TEXT, NULL);
    }
    s->state = SESSION_DIAL;
    session_moved(s);
    return STEP_ON;
}

enum step upstream_start(struct session *s)
{
    struct exchange *x = s->x;
    if (leads_there(s, &x->target) && may_keep(s, x->rule)) {
        x->may_retry = !x->retried;
        s->up_used = true;
        return send_request(s);
    }
    upstream_close(s);
    return dial(s);
}

static bool is_harmless_twice(const struct exchange *x)
{
    static const char *const methods[] = {"GET", "HEAD", "OPTIONS", "PUT", "DELETE", "TRACE"};
    if (x->request.body != BODY_NONE || x->request.upgrade)
        return false;
    for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++)
        if (!strcmp(x->request.method, methods[i]))
            return true;
    return false;
}

enum step upstream_lost(struct session *s)
{
    struct exchange *x = s->x;
    bool again =
        x->may_retry && !x->have_response && !x->interim && !s->up.len && is_harmless_twice(x);
    upstream_close(s);
    if (!again) {
        x->note = "the server ended the connection before it answered";
        return refuse_with(s, 502, "unreachable",
                           "the server ended the connection without an answer", NULL);
    }
    x->retried = true;
    x->may_retry = false;
    return dial(s);
}
