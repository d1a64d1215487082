/* Answers: whole, or in pieces; or the socket itself is handed over. */
#include "daemon/server/connection.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

const char *answer_reason(int status)
{
    static const struct {
        int status;
        const char *reason;
    } table[] = {
        {200, "OK"},
        {101, "Switching Protocols"},
        {201, "Created"},
        {202, "Accepted"},
        {204, "No Content"},
        {206, "Partial Content"},
        {304, "Not Modified"},
        {400, "Bad Request"},
        {401, "Unauthorized"},
        {403, "Forbidden"},
        {404, "Not Found"},
        {405, "Method Not Allowed"},
        {408, "Request Timeout"},
        {409, "Conflict"},
        {410, "Gone"},
        {413, "Content Too Large"},
        {415, "Unsupported Media Type"},
        {416, "Range Not Satisfiable"},
        {429, "Too Many Requests"},
        {431, "Request Header Fields Too Large"},
        {500, "Internal Server Error"},
        {501, "Not Implemented"},
        {502, "Bad Gateway"},
        {503, "Service Unavailable"},
        {504, "Gateway Timeout"},
        {507, "Insufficient Storage"},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        if (table[i].status == status)
            return table[i].reason;
    return "Other";
}

/* ---- heads ---- */

static const char *date_now(struct server *s)
{
    uint64_t now = loop_now_ms(s->loop);
    if (s->date[0] && now - s->date_ms < 1000)
        return s->date;
    time_t t = time(NULL);
    struct tm tm;
    s->date_ms = now;
    if (!gmtime_r(&t, &tm) || !strftime(s->date, sizeof s->date, "%a, %d %b %Y %H:%M:%S GMT", &tm))
        s->date[0] = '\0';
    return s->date;
}

static void put(struct http_headers *h, const char *name, const char *value)
{
    h->items[h->count++] = (struct http_header){(char *)name, (char *)value};
}

void answer_head_write(struct server *s, const struct answer_head *a,
                       const struct http_headers *extra, struct buf *out)
{
    struct http_header items[HTTP_HEADERS_MAX];
    struct http_response r = {.status = a->status, .body = a->body, .length = a->length};
    char length[24];
    r.headers = (struct http_headers){.items = items};
    snprintf(r.reason, sizeof r.reason, "%s", answer_reason(a->status));
    if (a->type)
        put(&r.headers, "Content-Type", a->type);
    put(&r.headers, "Date", date_now(s));
    /* Answers hold tokens and other people's data: nobody keeps or interprets them. */
    put(&r.headers, "Cache-Control", "no-store");
    if (a->length_only) {
        snprintf(length, sizeof length, "%llu", (unsigned long long)a->length);
        put(&r.headers, "Content-Length", length);
        r.body = BODY_NONE;
    }
    for (size_t i = 0; extra && i < extra->count && r.headers.count < HTTP_HEADERS_MAX; i++)
        r.headers.items[r.headers.count++] = extra->items[i];
    buf_room(out, 512);
    http_response_write(&r, a->keep, out);
}

static bool has_no_body(int status)
{
    return status == 204 || status == 304 || status < 200;
}

static void write_head(struct exchange *x, int status, const char *type, enum http_body body,
                       uint64_t length)
{
    struct connection *c = x->c;
    struct answer_head a = {.status = status,
                            .type = type,
                            .body = has_no_body(status) ? BODY_NONE : body,
                            .length = length,
                            .length_only = x->head_only && body == BODY_LENGTH,
                            .keep = c->keep};
    if (x->head_only && body == BODY_CHUNKED)
        a.body = BODY_NONE;
    if (!output_waiting(c))
        c->mark_ms = loop_now_ms(c->server->loop);
    x->begun = true;
    answer_head_write(c->server, &a, &x->extra, &c->out);
    if (c->out.failed)
        connection_lost(c);
}

static bool may_keep(const struct exchange *x)
{
    return x->request.keep_alive && !x->continue_due && !x->c->server->draining;
}

/* The answer is complete, and what is left of the body has no reader: taken out of the way if that
 * is cheap. */
static bool may_keep_after(struct exchange *x)
{
    struct connection *c = x->c;
    const char *data;
    size_t len;
    int r = 0;
    if (!may_keep(x))
        return false;
    while (!c->framing.done && (r = input_piece(c, &data, &len, NULL)) > 0)
        input_take(c, len);
    if (c->framing.done)
        return true;
    return r == 0 && c->framing.kind == BODY_LENGTH && c->framing.piece <= SKIP_MAX;
}

/* ---- whole answers ---- */

/* The handler ends what nobody listens to any more. */
static void end_over(struct exchange *x)
{
    if (!x->leaving)
        exchange_free(x);
}

void answer_whole(struct exchange *x, int status, const char *type, const char *body, size_t len)
{
    struct connection *c = x->c;
    c->keep = may_keep_after(x);
    write_head(x, status, type, BODY_LENGTH, len);
    output_add(c, body, x->head_only || has_no_body(status) ? 0 : len, true);
}

void exchange_reply(struct exchange *x, int status, const char *type, const char *body, size_t len)
{
    if (x->over) {
        end_over(x);
        return;
    }
    if (x->begun) {
        exchange_abort(x);
        return;
    }
    answer_whole(x, status, type, body, len);
    exchange_free(x);
}

/* ---- in pieces ---- */

void exchange_begin(struct exchange *x, int status, const char *type, int64_t length)
{
    struct connection *c = x->c;
    if (x->over || x->begun)
        return;
    struct err err = ERR_INIT;
    if (account_charge(x->account, ACCOUNT_STREAMS, 1, &err) < 0) {
        exchange_refuse(x, 429, "%s; %s", err.message, err.hint);
        return;
    }
    x->streaming = true;
    x->bounded = length >= 0;
    x->left = length >= 0 ? (uint64_t)length : 0;
    x->chunked = length < 0 && x->request.minor;
    /* To HTTP/1.0 the end of the connection is the end of the answer. */
    c->keep = may_keep(x) && (x->bounded || x->chunked);
    write_head(x, status, type,
               x->bounded   ? BODY_LENGTH
               : x->chunked ? BODY_CHUNKED
                            : BODY_UNTIL_CLOSE,
               x->left);
    connection_later(c);
}

static bool is_full(struct exchange *x)
{
    if (!x->over && output_waiting(x->c) < OUT_ENOUGH)
        return false;
    x->wants_writable = true;
    if (!x->over)
        connection_settle(x->c);
    return true;
}

bool exchange_write(struct exchange *x, const void *data, size_t len)
{
    struct connection *c = x->c;
    char head[32];
    if (x->over)
        return false;
    if (x->head_only || !len)
        return true;
    if (!x->begun || (x->bounded && len > x->left)) {
        connection_lost(c); /* not what was announced: better nothing than something wrong */
        return false;
    }
    if (x->chunked) {
        int n = snprintf(head, sizeof head, "%zx\r\n", len);
        struct iovec parts[3] = {{head, (size_t)n}, {(void *)data, len}, {"\r\n", 2}};
        output_add_parts(c, parts, 3, false);
    } else {
        x->left -= x->bounded ? len : 0;
        output_add(c, data, len, false);
    }
    return !is_full(x);
}

size_t exchange_waiting(const struct exchange *x)
{
    return x->over ? 0 : output_waiting(x->c);
}

void answer_writable(struct exchange *x)
{
    if (!x->wants_writable || x->over)
        return;
    x->wants_writable = false;
    if (x->writable)
        x->writable(x->ctx);
}

void exchange_end(struct exchange *x)
{
    if (x->over) {
        end_over(x);
        return;
    }
    if (!x->begun || (x->bounded && x->left && !x->head_only)) {
        exchange_abort(x);
        return;
    }
    if (x->chunked && !x->head_only)
        output_add(x->c, "0\r\n\r\n", 5, true);
    exchange_free(x);
}

void exchange_abort(struct exchange *x)
{
    struct connection *c = x->c;
    struct linger cut = {.l_onoff = 1};
    if (x->over) {
        end_over(x);
        return;
    }
    /* A reset, not an end: without a length the client could not tell. */
    setsockopt(c->io.fd, SOL_SOCKET, SO_LINGER, &cut, sizeof cut);
    connection_lost(c);
    exchange_free(x);
}

/* ---- the socket itself ---- */

int exchange_tunnel(struct exchange *x, struct buf *ret_rest, struct seat *ret_seat)
{
    struct connection *c = x->c;
    *ret_seat = (struct seat){0};
    if (!x->over)
        output_flush(c);
    if (x->over || output_waiting(c) || x->begun) {
        exchange_abort(x);
        return -EPIPE;
    }
    buf_add(ret_rest, c->in + c->in_at, c->in_len - c->in_at);
    if (ret_rest->failed) {
        exchange_abort(x);
        return -ENOBUFS;
    }
    int fd = connection_detach(c, ret_seat);
    exchange_free(x);
    return fd;
}
