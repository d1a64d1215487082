/* The way back: a response is read strictly, written anew, and searched for the secrets of its
 * origin.
 *
 * C-8  Where a secret belongs to the origin, an answer that cannot be searched (encoded, in part)
 * is not passed on. */
#include "os/weaken.h"
#include "proxy/session.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#define INTERIM_MAX 16
#define ROUND_MAX   (1u << 20)   /* then the others get a turn */
#define COALESCE    (16u * 1024) /* up to here a piece is put behind what waits to be written */

/* ---- what may not pass ---- */

static bool is_encoded(const struct http_response *r)
{
    const char *coding = http_header_get(&r->headers, "Content-Encoding");
    return coding && (http_header_count(&r->headers, "Content-Encoding") > 1 ||
                      (coding[0] && strcasecmp(coding, "identity") != 0));
}

static bool cannot_be_searched(const struct http_response *r)
{
    return r->body != BODY_NONE && (is_encoded(r) || r->status == 206);
}

static int redact_head(struct redactor *redactor, struct http_response *r)
{
    int found = redact_text(redactor, r->reason, strlen(r->reason));
    for (size_t i = 0; i < r->headers.count; i++) {
        struct http_header *h = &r->headers.items[i];
        found += redact_text(redactor, h->name, strlen(h->name));
        found += redact_text(redactor, h->value, strlen(h->value));
    }
    return found;
}

static void note_found(struct exchange *x, int found)
{
    if (found > 0)
        snprintf(x->hint, sizeof(x->hint), "a secret in the answer was overwritten");
}

static int start_search(struct session *s)
{
    struct exchange *x = s->x;
    struct err err = ERR_INIT;
    if (!x->redact || !redactor_lag(s->px->redactor) || guard_left_out(GUARD_REDACTION))
        return 0;
    if (cannot_be_searched(&x->response))
        return -1;
    note_found(x, redact_head(s->px->redactor, &x->response));
    return x->answer.done ? 0 : redact_open(s->px->redactor, &x->search, &err);
}

/* A session of the secret's account would be as good as the secret, outside too; inside it is of no
 * use, since no cookie goes up (C-10). */
static void take_cookies(struct session *s)
{
    struct exchange *x = s->x;
    const struct egress_rule *rule = reading_rule(s);
    if (!x->redact || (rule && rule_passes(rule, "Cookie", strlen("Cookie"), false)) ||
        guard_left_out(GUARD_REDACTION))
        return;
    http_header_remove(&x->response.headers, "Set-Cookie");
    http_header_remove(&x->response.headers, "Set-Cookie2");
}

/* ---- heads ---- */

static enum http_body framing_for(const struct exchange *x)
{
    enum http_body kind = x->response.body;
    if (kind != BODY_CHUNKED && kind != BODY_UNTIL_CLOSE)
        return kind;
    return x->request.minor ? BODY_CHUNKED : BODY_UNTIL_CLOSE;
}

static void write_head(struct session *s, bool keep_alive)
{
    struct exchange *x = s->x;
    enum http_body kind = x->response.body;
    x->response.body = x->to_client;
    http_response_write(&x->response, keep_alive, &s->client.out);
    x->response.body = kind;
    x->down += s->client.out.len - s->client.out_at;
}

static enum step pass_head(struct session *s)
{
    struct exchange *x = s->x;
    x->status = x->response.status;
    body_reader_init(&x->answer, x->response.body, x->response.length);
    if (start_search(s) < 0)
        return refuse(s, DENY_RESPONSE, NULL);
    take_cookies(s);
    http_strip_hop_by_hop(&x->response.headers);
    x->to_client = framing_for(x);
    bool eof = s->client.eof && !s->client.len;
    s->keep_alive = s->keep_alive && x->body.done && !eof && x->to_client != BODY_UNTIL_CLOSE;
    write_head(s, s->keep_alive);
    x->have_response = true;
    return STEP_ON;
}

static enum step pass_upgrade(struct session *s)
{
    struct exchange *x = s->x;
    struct http_headers *h = &x->response.headers;
    const char *to = http_header_get(h, "Upgrade");
    if (!x->request.upgrade || !to || strcasecmp(to, x->request.upgrade) != 0 ||
        http_header_count(h, "Upgrade") != 1 || http_header_get(h, "Sec-WebSocket-Extensions"))
        return refuse(s, DENY_RESPONSE, NULL);
    x->answer.done = true;
    x->response.body = x->to_client = BODY_NONE;
    if (start_search(s) < 0)
        return refuse(s, DENY_RESPONSE, NULL);
    take_cookies(s);
    http_strip_hop_by_hop(h);
    if (http_header_add(h, "Upgrade", "websocket", NULL) < 0)
        return session_end(s, true);
    x->status = 101;
    write_head(s, true);
    s->state = SESSION_HAND_ON;
    return STEP_ON;
}

/* 1xx: "go on" is passed to a client that asked for it, anything else is of no use to anyone. */
static enum step pass_interim(struct session *s)
{
    struct exchange *x = s->x;
    static const char go_on[] = "HTTP/1.1 100 Continue\r\n\r\n";
    if (++x->interim > INTERIM_MAX)
        return refuse(s, DENY_RESPONSE, NULL);
    if (x->response.status == 101)
        return pass_upgrade(s);
    bool wanted = x->response.status == 100 && x->request.expects_continue;
    http_response_done(&x->response);
    if (!wanted)
        return STEP_ON;
    x->request.expects_continue = false; /* once */
    return side_send(&s->client, go_on, sizeof(go_on) - 1) < 0 ? client_gone(s) : STEP_ON;
}

/* Do not wait for the end of a head that is not HTTP. */
static bool speaks_http(const struct side *up)
{
    static const char start[] = "HTTP/1.";
    size_t len = up->len < sizeof(start) - 1 ? up->len : sizeof(start) - 1;
    return !memcmp(up->data, start, len);
}

static ssize_t scan_head(struct session *s, struct err *err)
{
    if (!s->up.len)
        return 0;
    if (!speaks_http(&s->up))
        return err_set(err, ERR_PROTOCOL, "the server does not speak HTTP/1.x");
    return http_head_scan(s->up.data, s->up.len, &s->x->scanned, err);
}

/* STEP_WAIT: it has not come in full. */
static enum step head_step(struct session *s)
{
    struct exchange *x = s->x;
    struct err err = ERR_INIT;
    ssize_t n = 0;
    while (!(n = scan_head(s, &err))) {
        int r = side_read(&s->up, SIDE_READ_MAX);
        if (r < 0 || s->up.eof)
            return upstream_lost(s);
        if (!r)
            return STEP_WAIT;
        session_moved(s);
    }
    x->scanned = 0;
    if (n > 0 &&
        http_response_parse(s->up.data, (size_t)n, x->request.method, &x->response, &err) == 0) {
        side_used(&s->up, (size_t)n);
        return x->response.status < 200 ? pass_interim(s) : pass_head(s);
    }
    exchange_note(x, err.message);
    return refuse(s, DENY_RESPONSE, NULL);
}

/* ---- bodies ---- */

static enum step cut_short(struct session *s, enum deny_reason reason, const char *note)
{
    s->x->reason = reason;
    s->x->note = note;
    return session_end(s, true);
}

static int pass_plain(struct session *s, const char *piece, size_t len)
{
    struct exchange *x = s->x;
    x->down += len;
    if (x->to_client != BODY_CHUNKED && len > COALESCE && !side_pending(&s->client))
        return side_send(&s->client, piece, len);
    body_write(x->to_client, piece, len, &s->client.out);
    return s->client.out.failed ? -1 : 0;
}

static int pass_piece(struct session *s, const char *piece, size_t len)
{
    struct exchange *x = s->x;
    if (x->search) {
        int found = redact_feed(x->search, piece, len, &piece, &len, NULL);
        if (found < 0)
            return found;
        note_found(x, found);
    }
    return len ? pass_plain(s, piece, len) : 0;
}

static int pass_end(struct session *s)
{
    struct exchange *x = s->x;
    const char *rest = NULL;
    size_t len = 0;
    x->ended = true;
    if (x->search) {
        int found = redact_flush(x->search, &rest, &len);
        if (found < 0)
            return found;
        note_found(x, found);
        if (len && pass_plain(s, rest, len) < 0)
            return -1;
    }
    body_write_end(x->to_client, &s->client.out);
    return 0;
}

/* Brings more of the body. 1: there is some; 0: not now; negative: it ended where it must not. */
static int more_body(struct session *s)
{
    struct exchange *x = s->x;
    if (s->up.len)
        return 1;
    int r = side_read(&s->up, body_ask(&x->answer, SIDE_READ_MAX));
    if (r > 0)
        session_moved(s);
    if (r || !s->up.eof)
        return r;
    if (x->answer.kind != BODY_UNTIL_CLOSE)
        return -1;
    x->answer.done = true;
    return 0;
}

/* As much of the body as the client takes. */
static enum step body_step(struct session *s)
{
    struct exchange *x = s->x;
    size_t moved = 0;
    while (!x->answer.done && (moved < ROUND_MAX || s->up.len)) {
        if (s->client.out.len - s->client.out_at > COALESCE) {
            int r = side_flush(&s->client);
            if (r <= 0)
                return r < 0 ? client_gone(s) : STEP_WAIT;
        }
        int r = more_body(s);
        if (r < 0)
            return cut_short(s, DENY_NONE, "the answer ended before its end");
        if (!r)
            break;
        const char *piece;
        size_t len;
        struct err err = ERR_INIT;
        ssize_t n = body_read(&x->answer, s->up.data, s->up.len, &piece, &len, &err);
        if (n < 0)
            return cut_short(s, DENY_RESPONSE, "the body of the answer is malformed");
        if (pass_piece(s, piece, len) < 0)
            return session_end(s, true);
        side_used(&s->up, (size_t)n);
        moved += (size_t)n;
    }
    return STEP_ON;
}

static enum step finish(struct session *s)
{
    struct exchange *x = s->x;
    bool clean = x->response.keep_alive && x->body.done && !x->unsent && !s->up.len && !s->up.eof &&
                 !side_pending(&s->up);
    if (!clean)
        upstream_close(s);
    return session_answered(s);
}

enum step response_step(struct session *s)
{
    struct exchange *x = s->x;
    if (!x->have_response) {
        enum step r = head_step(s);
        if (r == STEP_WAIT && side_pending(&s->client) && side_flush(&s->client) < 0)
            return client_gone(s);
        if (r != STEP_ON || !x->have_response || s->state != SESSION_RELAY)
            return r;
    }
    enum step r = body_step(s);
    if (r != STEP_ON)
        return r;
    if (x->answer.done && !x->ended && pass_end(s) < 0)
        return session_end(s, true);
    int flushed = side_flush(&s->client);
    if (flushed < 0)
        return client_gone(s);
    return flushed && x->ended ? finish(s) : STEP_WAIT;
}
