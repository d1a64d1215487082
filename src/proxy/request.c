/* From the first byte of a request to the moment when it is sent: read, put into canonical form,
 * decided, given its credentials.
 *
 * N-8  Every way in ends in one target and one decision; where two places of a request name its
 *      host they must agree.
 *
 * N-16 What the request says a second time about its method, path or host is found before it is
 *      decided, and what its body says of a method before that leaves.
 *
 * C-9  A secret is put in after everything that the client sent was understood and decided. */
#include "proxy/session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define ROUND_MAX (1u << 20) /* then the others get a turn */

/* ---- the target ---- */

static uint16_t usual_port(enum scheme scheme)
{
    return scheme == SCHEME_HTTPS ? 443 : 80;
}

/* The Host header, where there is one, names this target. */
static bool host_agrees(const struct http_request *r, const struct target *t)
{
    if (!r->host.text[0])
        return true;
    uint16_t port = r->port ? r->port : usual_port(t->scheme);
    return host_equal(&r->host, &t->host) && port == t->port;
}

static int use_url(const struct http_request *r, struct target *t, struct err *err)
{
    t->scheme = r->url.scheme;
    t->host = r->url.host;
    t->port = r->url.port;
    if (!host_agrees(r, t))
        return err_set(err, ERR_PROTOCOL, "the Host header is not the host of the URL");
    return 0;
}

static int use_fixed(const struct session *s, const struct http_request *r, struct target *t,
                     struct err *err)
{
    t->scheme = s->fixed.scheme;
    t->host = s->fixed.host;
    t->port = s->fixed.port;
    if (r->form == FORM_AUTHORITY)
        return err_set(err, ERR_PROTOCOL, "CONNECT to something that is no proxy");
    if (r->form == FORM_ABSOLUTE && (r->url.scheme != t->scheme || r->url.port != t->port ||
                                     !host_equal(&r->url.host, &t->host)))
        return err_set(err, ERR_PROTOCOL, "the URL names another host than the connection");
    if (!host_agrees(r, t))
        return err_set(err, ERR_PROTOCOL, "the Host header names another host than the connection");
    return 0;
}

/* The explicit proxy: each request names its own. */
static int use_named(struct session *s, struct exchange *x, struct err *err)
{
    struct http_request *r = &x->request;
    struct target *t = &x->target;
    if (gateway_is_meant(s, r)) {
        x->entry = ENTRY_GATEWAY;
        t->host = r->host;
        t->port = r->port ? r->port : usual_port(SCHEME_HTTP);
        if (r->form == FORM_ABSOLUTE && use_url(r, t, err) < 0)
            return err_number(err);
        return gateway_resolve(r, t, err);
    }
    if (r->form == FORM_AUTHORITY) {
        x->entry = ENTRY_CONNECT;
        t->scheme = SCHEME_ANY;
        t->host = r->host;
        t->port = r->port;
        return 0;
    }
    if (r->form == FORM_ABSOLUTE)
        return use_url(r, t, err);
    t->host = r->host;
    t->port = r->port ? r->port : 80;
    return err_set(err, ERR_PROTOCOL, "a proxy needs the whole URL in the request line");
}

static int make_target(struct session *s, struct exchange *x, struct err *err)
{
    struct http_request *r = &x->request;
    int result = s->has_fixed ? use_fixed(s, r, &x->target, err) : use_named(s, x, err);
    if (r->form == FORM_AUTHORITY)
        return result;
    memcpy(x->target.method, r->method, sizeof(x->target.method));
    x->path = strndup(r->target, strcspn(r->target, "?"));
    if (!x->path)
        return err_memory(err);
    x->target.path = x->path;
    doubts_find(r, &x->doubts);
    x->target.doubts = &x->doubts;
    return result;
}

/* ---- checks that need no rule ---- */

/* In constant time: how far two texts agree is not to be measured. */
static bool same_secret(const char *a, const char *b)
{
    size_t len = strlen(b);
    unsigned char differs = 0;
    if (strlen(a) != len)
        return false;
    for (size_t i = 0; i < len; i++)
        differs |= (unsigned char)(a[i] ^ b[i]);
    return !differs;
}

static bool is_authorized(const struct session *s, const struct http_request *r)
{
    if (!s->px->auth || s->has_fixed)
        return true;
    const char *given = http_header_get(&r->headers, "Proxy-Authorization");
    return given && http_header_count(&r->headers, "Proxy-Authorization") == 1 &&
           same_secret(given, s->px->auth);
}

static bool is_websocket(const struct http_request *r)
{
    return r->upgrade && !strcasecmp(r->upgrade, "websocket") && !strcmp(r->method, "GET") &&
           r->body == BODY_NONE && http_header_count(&r->headers, "Sec-WebSocket-Key") == 1;
}

/* Hop by hop headers go, with every upgrade but the one that is understood here. Extensions would
 * change what a frame is. */
static void clean(struct http_request *r)
{
    if (!is_websocket(r)) {
        free(r->upgrade);
        r->upgrade = NULL;
    } else {
        http_header_remove(&r->headers, "Sec-WebSocket-Extensions");
    }
    http_strip_hop_by_hop(&r->headers);
    if (!r->expects_continue)
        http_header_remove(&r->headers, "Expect");
}

/* ---- credentials ---- */

/* Answers will be searched for secrets: they must come as they are, and whole. */
static int ask_for_plain_answer(struct http_request *r, struct err *err)
{
    http_header_remove(&r->headers, "Accept-Encoding");
    http_header_remove(&r->headers, "Range");
    http_header_remove(&r->headers, "If-Range");
    return http_header_add(&r->headers, "Accept-Encoding", "identity", err);
}

static void note_stray(struct session *s, struct exchange *x)
{
    const struct egress *e = &s->px->rules->egress;
    int i = e->secret_count ? inject_stray(e, &x->target, &x->request) : -1;
    if (i >= 0)
        snprintf(x->hint, sizeof(x->hint),
                 "the placeholder of %.80s went to an origin it is not for", e->secrets[i].name);
}

static int take_own_credentials(struct session *s, struct exchange *x, struct err *err)
{
    char name[INJECT_NAME_MAX];
    int n =
        inject_strip(&s->px->rules->egress, reading_rule(s), &x->target, &x->request, name, err);
    if (n > 0 && !x->hint[0])
        snprintf(x->hint, sizeof(x->hint),
                 "%.64s was taken out: a secret is bound to this host; name it in pass of the rule",
                 name);
    /* Nor is it written down. What is left of the path is no longer than what was there. */
    if (n > 0 && x->path) {
        size_t len = strcspn(x->request.target, "?");
        memcpy(x->path, x->request.target, len);
        x->path[len] = '\0';
    }
    return n;
}

/* What the client sent of its own goes; needs no value. */
static int check_credentials(struct session *s, struct exchange *x, struct err *err)
{
    note_stray(s, x);
    return s->px->rules->egress.secret_count ? take_own_credentials(s, x, err) : 0;
}

/* C-6, C-9: when the last byte has come that is waited for, and the request is about to leave. */
static int add_credentials(struct session *s, struct exchange *x, struct err *err)
{
    struct proxy *px = s->px;
    if (!px->rules->egress.secret_count)
        return 0;
    x->redact = inject_binds(&px->rules->egress, &x->target.host, x->target.port);
    int n = inject_apply(&px->injector, &x->target, &x->request, err);
    if (n < 0)
        return n;
    x->redact = x->redact || n > 0;
    s->up.wipe = s->up.wipe || n > 0;
    return x->redact ? ask_for_plain_answer(&x->request, err) : 0;
}

/* ---- deciding ---- */

static void on_answer(void *ctx)
{
    struct session *s = ctx;
    s->asking = NULL;
    session_moved(s);
    if (request_decide(s) != STEP_GONE)
        session_go(s);
}

/* A denial; or, where the policy asks a person first, the wait for the answer. */
static enum step deny(struct session *s, const struct verdict *v)
{
    struct exchange *x = s->x;
    s->asking = ask_start(s->px, &x->target, v->reason, on_answer, s);
    if (s->asking) {
        s->state = SESSION_ASK;
        return STEP_WAIT;
    }
    if (x->request.form == FORM_AUTHORITY)
        x->target.scheme = x->target.port == 80 ? SCHEME_HTTP : SCHEME_HTTPS;
    return refuse(s, ask_was_denied(s->px, &x->target) ? DENY_ASKED : v->reason, v->hint);
}

static enum step answer_connect(struct session *s)
{
    struct exchange *x = s->x;
    struct verdict v;
    egress_decide(&s->px->rules->egress, &x->target, &v);
    x->rule = v.rule;
    if (!v.allow)
        return deny(s, &v);
    upstream_close(s);
    const char *ok = "HTTP/1.1 200 Connection established\r\n\r\n";
    side_queue(&s->client, ok, strlen(ok));
    s->state = SESSION_HAND_ON;
    return STEP_ON;
}

/* N-10: no connection of the rule's is counted yet while a body is collected. */
static bool hold_collected(struct exchange *x)
{
    return held_set(&x->held, x->request.headers.block_len + x->collected.size);
}

static enum step refuse_busy(struct session *s)
{
    return refuse_with(s, 429, "busy", "too many bodies at once have their placeholders swapped",
                       NULL);
}

static enum step start_collecting(struct session *s)
{
    struct exchange *x = s->x;
    buf_init(&x->collected, INJECT_BODY_MAX);
    if (!hold_collected(x))
        return refuse_busy(s);
    if (x->request.expects_continue) {
        const char *go_on = "HTTP/1.1 100 Continue\r\n\r\n";
        x->request.expects_continue = false;
        http_header_remove(&x->request.headers, "Expect");
        if (side_send(&s->client, go_on, strlen(go_on)) < 0)
            return client_gone(s);
    }
    s->state = SESSION_COLLECT;
    return STEP_ON;
}

static enum step decide(struct session *s)
{
    struct exchange *x = s->x;
    struct proxy *px = s->px;
    struct verdict v;
    struct err err = ERR_INIT;
    egress_decide(&px->rules->egress, &x->target, &v);
    x->rule = v.rule;
    if (!v.allow)
        return deny(s, &v);
    enum step plain = reading_check(s);
    if (s->state == SESSION_ANSWER)
        return plain;
    enum deny_reason over = budget_request(&px->budgets, v.rule, loop_now_ms(px->loop));
    if (over != DENY_NONE)
        return refuse(s, over, NULL);
    reading_take_hosts(s);
    clean(&x->request);
    plain = reading_watch_body(s);
    if (s->state == SESSION_ANSWER)
        return plain;
    if (check_credentials(s, x, &err) < 0)
        return refuse(s, DENY_CREDENTIAL, NULL);
    if (!x->body.done && inject_wants_body(&px->injector, &x->target))
        return start_collecting(s);
    if (add_credentials(s, x, &err) < 0)
        return refuse(s, DENY_CREDENTIAL, NULL);
    return upstream_start(s);
}

enum step request_decide(struct session *s)
{
    return s->x->request.form == FORM_AUTHORITY ? answer_connect(s) : decide(s);
}

/* ---- the head ---- */

/* There is no request yet that could be blamed: what is known of the target is told. */
static enum step refuse_head(struct session *s, const struct err *err)
{
    struct exchange *x = s->x;
    s->keep_alive = false;
    if (s->has_fixed && !x->target.host.text[0])
        x->target = s->fixed;
    if (x->target.scheme == SCHEME_ANY)
        x->target.scheme = SCHEME_HTTP;
    exchange_note(x, err->message);
    int status = err->code == ERR_LIMIT ? 431 : 400;
    return refuse_with(s, status, "malformed", err->message, err->hint);
}

static bool new_exchange(struct session *s)
{
    s->x = calloc(1, sizeof(*s->x));
    if (!s->x)
        return false;
    s->x->entry = s->entry;
    s->x->rule = SIZE_MAX;
    s->x->started_ms = loop_now_ms(s->px->loop);
    return true;
}

static enum step serve(struct session *s, size_t head_len)
{
    struct exchange *x = s->x;
    struct err err = ERR_INIT;
    int r = http_request_parse(s->client.data, head_len, &x->request, &err);
    side_used(&s->client, head_len);
    if (r < 0)
        return refuse_head(s, &err);
    s->keep_alive = x->request.keep_alive;
    body_reader_init(&x->body, x->request.body, x->request.length);
    r = make_target(s, x, &err);
    if (!is_authorized(s, &x->request))
        return refuse_with(s, 407, "proxy-authorization", "this proxy asks for a password", NULL);
    if (r < 0)
        return refuse_head(s, &err);
    return request_decide(s);
}

enum step request_step(struct session *s)
{
    struct err err = ERR_INIT;
    for (;;) {
        ssize_t n =
            s->client.len ? http_head_scan(s->client.data, s->client.len, &s->scanned, &err) : 0;
        if (n) {
            s->scanned = 0;
            session_moved(s);
            if (!new_exchange(s))
                return session_end(s, true);
            return n < 0 ? refuse_head(s, &err) : serve(s, (size_t)n);
        }
        bool first = !s->client.len;
        int r = side_read(&s->client, SIDE_READ_MAX);
        if (r < 0 || s->client.eof)
            return session_end(s, false);
        if (!r)
            return STEP_WAIT;
        if (first)
            session_moved(s); /* from here on the whole head has its time */
    }
}

/* ---- the body ---- */

/* The next piece. 1: there is one (it may be empty); 0: not now; negative: session over, *ret says.
 */
static int next_piece(struct session *s, const char **piece, size_t *len, size_t *used,
                      enum step *ret)
{
    struct exchange *x = s->x;
    struct err err = ERR_INIT;
    if (!s->client.len) {
        int r = side_read(&s->client, body_ask(&x->body, SIDE_READ_MAX));
        if (r < 0 || s->client.eof) {
            *ret = client_gone(s);
            return -1;
        }
        if (!r)
            return 0;
    }
    ssize_t n = body_read(&x->body, s->client.data, s->client.len, piece, len, &err);
    if (n < 0) {
        s->keep_alive = false;
        *ret = refuse_head(s, &err);
        return -1;
    }
    *used = (size_t)n;
    session_moved(s);
    return 1;
}

static enum step collected(struct session *s)
{
    struct exchange *x = s->x;
    struct err err = ERR_INIT;
    if (add_credentials(s, x, &err) < 0)
        return refuse(s, DENY_CREDENTIAL, NULL);
    const char *type = http_header_get(&x->request.headers, "Content-Type");
    if (inject_body_as(&s->px->injector, &x->target, type, &x->collected, &err) < 0)
        return refuse(s, DENY_CREDENTIAL, NULL);
    x->request.body = BODY_LENGTH;
    x->request.length = x->collected.len;
    return upstream_start(s);
}

enum step collect_step(struct session *s)
{
    struct exchange *x = s->x;
    enum step over = STEP_WAIT;
    if (side_flush(&s->client) < 0)
        return client_gone(s);
    while (!x->body.done) {
        const char *piece;
        size_t len;
        size_t used;
        int r = next_piece(s, &piece, &len, &used, &over);
        if (r <= 0)
            return over;
        over = reading_body(s, piece, len);
        if (over != STEP_ON || s->state != SESSION_COLLECT)
            return over;
        buf_add(&x->collected, piece, len);
        side_used(&s->client, used);
        if (x->collected.failed)
            return refuse_with(s, 413, "too-large",
                               "the body is too large to have its placeholders swapped", NULL);
        if (!hold_collected(x))
            return refuse_busy(s);
    }
    return collected(s);
}

/* A server that refuses early says why and closes: its answer may still be read. */
static enum step stop_sending(struct session *s)
{
    s->x->unsent = true;
    s->keep_alive = s->keep_alive && s->x->body.done;
    side_drop(&s->up);
    s->up.readable = true;
    return STEP_WAIT;
}

static enum step send_piece(struct session *s, const char *piece, size_t len)
{
    struct exchange *x = s->x;
    enum step form = reading_body(s, piece, len);
    if (s->state != SESSION_RELAY || form != STEP_ON)
        return form;
    if (budget_upload(&s->px->budgets, x->rule, len) < len)
        return refuse(s, DENY_UPLOAD, NULL);
    x->up += len;
    if (x->request.body == BODY_CHUNKED || side_pending(&s->up)) {
        body_write(x->request.body, piece, len, &s->up.out);
        return STEP_ON;
    }
    return side_send(&s->up, piece, len) < 0 ? stop_sending(s) : STEP_ON;
}

enum step request_body_step(struct session *s)
{
    struct exchange *x = s->x;
    enum step over = STEP_WAIT;
    size_t moved = 0;
    if (x->unsent)
        return STEP_WAIT;
    while (!x->body.done && (moved < ROUND_MAX || s->client.len)) {
        const char *piece;
        size_t len;
        size_t used;
        if (s->up.out.len - s->up.out_at > SIDE_READ_MAX / 2) {
            int flushed = side_flush(&s->up);
            if (flushed <= 0)
                return flushed < 0 ? stop_sending(s) : STEP_WAIT;
        }
        int r = next_piece(s, &piece, &len, &used, &over);
        if (r < 0)
            return over;
        if (!r)
            break;
        moved += used;
        over = len ? send_piece(s, piece, len) : STEP_ON;
        if (over != STEP_ON || s->state != SESSION_RELAY)
            return over;
        side_used(&s->client, used);
        if (x->body.done)
            body_write_end(x->request.body, &s->up.out);
    }
    if (side_pending(&s->up) && side_flush(&s->up) < 0)
        return stop_sending(s);
    return STEP_WAIT;
}
