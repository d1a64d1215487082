/* The body of a request, as a whole or piece by piece, at the pace of who reads it. */
#include "daemon/server/connection.h"

#include <string.h>
#include <strings.h>

#define JSON_DEPTH 32
#define JSON_NODES (256u * 1024)

void body_begin(struct connection *c, const struct http_request *r)
{
    struct framing *f = &c->framing;
    *f = (struct framing){.kind = r->body};
    c->mark_bytes = 0;
    if (r->body == BODY_CHUNKED)
        chunk_reader_init(&f->chunk);
    else if (r->body == BODY_LENGTH)
        f->piece = r->length;
    f->done = r->body != BODY_CHUNKED && !f->piece;
}

/* ---- whole bodies ---- */

static void give_json(struct exchange *x, const char *data, size_t len)
{
    const struct json_limits limits = {x->cap, JSON_DEPTH, JSON_NODES};
    struct err err = ERR_INIT;
    if (!len) {
        data = "{}";
        len = 2;
    }
    if (json_parse(data, len, &limits, &x->json, &err) < 0) {
        exchange_refuse(x, 400, "the body is not JSON as it should be: %s", err.message);
        return;
    }
    x->reading = READ_NOTHING;
    x->json_fn(x->body_ctx, x->json);
}

static void give_whole(struct exchange *x, const char *data, size_t len)
{
    if (x->reading == READ_JSON) {
        give_json(x, data, len);
        return;
    }
    x->reading = READ_NOTHING;
    x->all_fn(x->body_ctx, data, len);
}

/* The usual case: all of it is there, and stays where it is as long as the exchange lives. */
static bool give_in_place(struct exchange *x)
{
    struct connection *c = x->c;
    const struct framing *f = &c->framing;
    const char *data;
    size_t len;
    if (f->kind != BODY_LENGTH || f->taken || f->piece > c->in_len - c->in_at ||
        input_piece(c, &data, &len, NULL) <= 0)
        return false;
    input_take(c, len);
    x->in_place = true;
    give_whole(x, data, len);
    return true;
}

static void keep(struct exchange *x, const char *data, size_t len)
{
    if (len > x->cap - x->whole.len) {
        exchange_refuse(x, 413, "the body is over %zu bytes", x->cap);
        return;
    }
    buf_add(&x->whole, data, len);
    input_take(x->c, len);
    struct err err = ERR_INIT;
    if (x->whole.failed && hold_refusal(&x->hold, &err) < 0)
        exchange_refuse(x, 429, "%s; %s", err.message, err.hint);
    else if (x->whole.failed)
        exchange_refuse(x, 503, ERR_MEMORY_TEXT);
}

/* ---- pieces ---- */

static void give_piece(struct exchange *x, const char *data, size_t len)
{
    struct connection *c = x->c;
    x->resumed = false;
    size_t took = x->stream_fn(x->body_ctx, data, len);
    if (c->x != x || x->over)
        return;
    input_take(c, took < len ? took : len);
    x->paused = took < len && !x->resumed;
}

static void end_body(struct exchange *x)
{
    if (x->reading != READ_STREAM) {
        give_whole(x, buf_text(&x->whole), x->whole.len);
        return;
    }
    x->reading = READ_NOTHING;
    x->stream_done(x->body_ctx, true);
}

static bool feed_once(struct exchange *x)
{
    struct connection *c = x->c;
    struct err err = ERR_INIT;
    const char *data;
    size_t len;
    if (x->reading != READ_STREAM && give_in_place(x))
        return false;
    int r = input_piece(c, &data, &len, &err);
    if (r < 0) {
        c->server->stats.malformed++;
        exchange_refuse(x, 400, "%s", err.message);
        return false;
    }
    if (r == 0) {
        if (c->framing.done)
            end_body(x);
        return false;
    }
    if (x->reading == READ_STREAM)
        give_piece(x, data, len);
    else
        keep(x, data, len);
    return true;
}

void body_feed(struct exchange *x)
{
    struct connection *c = x->c;
    if (c->feeding) /* called by who is being fed: the loop below goes on */
        return;
    c->feeding = true;
    while (c->x == x && !x->over && x->reading != READ_NOTHING && !x->paused && feed_once(x))
        ;
    c->feeding = false;
}

/* ---- for handlers ---- */

static bool is_coded(const struct exchange *x)
{
    const char *coding = exchange_header(x, "Content-Encoding");
    return coding && strcasecmp(coding, "identity") != 0 && !x->takes_coded;
}

static void begin(struct exchange *x, enum reading how, void *ctx)
{
    static const char go_on[] = "HTTP/1.1 100 Continue\r\n\r\n";
    struct connection *c = x->c;
    x->reading = how;
    x->body_ctx = ctx;
    if (x->over) {
        connection_later(c);
        return;
    }
    if (is_coded(x)) {
        exchange_refuse(x, 415, "a body with a Content-Encoding is not taken");
        return;
    }
    if (how != READ_STREAM && x->request.body == BODY_LENGTH && x->request.length > x->cap) {
        exchange_refuse(x, 413, "the body is over %zu bytes", x->cap);
        return;
    }
    if (x->continue_due) {
        x->continue_due = false;
        output_add(c, go_on, sizeof go_on - 1, true);
    }
    c->mark_ms = loop_now_ms(c->server->loop);
    body_feed(x);
    connection_settle(c);
}

void exchange_take_coded(struct exchange *x)
{
    x->takes_coded = true;
}

void exchange_keep_body(struct exchange *x)
{
    x->is_kept = true;
}

void exchange_read_all(struct exchange *x, size_t cap,
                       void (*fn)(void *ctx, const char *data, size_t len), void *ctx)
{
    x->all_fn = fn;
    x->is_kept = true;
    x->cap = cap;
    buf_init_metered(&x->whole, cap, &x->hold.meter);
    begin(x, READ_ALL, ctx);
}

void exchange_read_json(struct exchange *x, void (*fn)(void *ctx, const struct json *body),
                        void *ctx)
{
    x->json_fn = fn;
    x->is_kept = true;
    x->cap = x->c->server->limits.body_max;
    buf_init_metered(&x->whole, x->cap, &x->hold.meter);
    begin(x, READ_JSON, ctx);
}

void exchange_read_stream(struct exchange *x, size_t (*fn)(void *ctx, const char *data, size_t len),
                          void (*done)(void *ctx, bool good), void *ctx)
{
    x->stream_fn = fn;
    x->stream_done = done;
    begin(x, READ_STREAM, ctx);
}

void exchange_body_resume(struct exchange *x)
{
    struct connection *c = x->c;
    x->resumed = true;
    x->paused = false;
    if (x->over)
        return;
    c->mark_ms = loop_now_ms(c->server->loop);
    c->mark_bytes = c->framing.taken;
    body_feed(x);
    if (c->phase != PHASE_DEAD)
        connection_settle(c);
}
