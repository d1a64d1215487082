/* Answers: whole, in pieces, from a pipe; or the socket itself. */
#include "daemon/server/connection.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

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

void exchange_reply_empty(struct exchange *x, int status)
{
    exchange_reply(x, status, NULL, "", 0);
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

static size_t chunk_head(struct exchange *x, char *out, size_t size, size_t len)
{
    int n = snprintf(out, size, "%s%zx\r\n", x->crlf_due ? "\r\n" : "", len);
    x->crlf_due = false;
    return (size_t)n;
}

bool exchange_write(struct exchange *x, const void *data, size_t len)
{
    struct connection *c = x->c;
    char head[32];
    if (x->over)
        return false;
    if (x->head_only || !len)
        return true;
    if (!x->begun || x->splice_left || (x->bounded && len > x->left)) {
        connection_lost(c); /* not what was announced: better nothing than something wrong */
        return false;
    }
    if (x->chunked) {
        struct iovec parts[3] = {
            {head, chunk_head(x, head, sizeof head, len)}, {(void *)data, len}, {"\r\n", 2}};
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
    if (!x->begun || x->splice_left || (x->bounded && x->left && !x->head_only)) {
        exchange_abort(x);
        return;
    }
    if (x->chunked && !x->head_only) {
        const char *last = x->crlf_due ? "\r\n0\r\n\r\n" : "0\r\n\r\n";
        output_add(x->c, last, strlen(last), true);
    }
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

/* ---- from a pipe ---- */

static ssize_t client_is_slow(struct exchange *x)
{
    if (x->over)
        return -EPIPE;
    x->wants_writable = true;
    connection_settle(x->c);
    return -EBUSY;
}

static size_t bytes_in(int pipe_fd)
{
    int n = 0;
    return ioctl(pipe_fd, FIONREAD, &n) == 0 && n > 0 ? (size_t)n : 0;
}

/* Says how long the next chunk is. As many bytes are in the pipe, and only we take any out. 0: its
 * end; -EAGAIN: nothing there. */
static ssize_t open_chunk(struct exchange *x, int pipe_fd, size_t max)
{
    char head[32], byte;
    size_t n = bytes_in(pipe_fd);
    if (!n) {
        ssize_t r = read(pipe_fd, &byte, 1); /* the end, or not yet? */
        if (r <= 0)
            return r < 0 ? -errno : 0;
        exchange_write(x, &byte, 1);
        return x->over ? -EPIPE : 1;
    }
    n = n < max ? n : max;
    x->splice_left = n;
    output_add(x->c, head, chunk_head(x, head, sizeof head, n), true);
    return x->over ? -EPIPE : 1;
}

static ssize_t splice_some(struct exchange *x, int pipe_fd, size_t max)
{
    ssize_t n = splice(pipe_fd, NULL, x->c->io.fd, NULL, max, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
    if (n < 0 && errno == EAGAIN)
        return bytes_in(pipe_fd) ? client_is_slow(x) : -EAGAIN;
    if (n < 0 && (errno == EPIPE || errno == ECONNRESET))
        connection_lost(x->c);
    if (n <= 0)
        return n < 0 ? -errno : 0;
    output_moved(x->c, (size_t)n);
    return n;
}

ssize_t exchange_splice(struct exchange *x, int pipe_fd, size_t max)
{
    struct connection *c = x->c;
    if (x->over || !x->begun)
        return -EPIPE;
    if (x->head_only || !max || (x->bounded && !x->left))
        return 0;
    output_flush(c);
    if (output_waiting(c) || x->over)
        return client_is_slow(x);
    if (x->chunked && !x->splice_left) {
        ssize_t r = open_chunk(x, pipe_fd, max);
        if (r <= 0 || !x->splice_left)
            return r;
        if (output_waiting(c))
            return client_is_slow(x);
    }
    uint64_t most = x->chunked ? x->splice_left : x->bounded ? x->left : max;
    ssize_t n = splice_some(x, pipe_fd, most < max ? (size_t)most : max);
    if (n > 0 && x->chunked) {
        x->splice_left -= (uint64_t)n;
        x->crlf_due = !x->splice_left;
    } else if (n > 0 && x->bounded) {
        x->left -= (uint64_t)n;
    }
    return n;
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
