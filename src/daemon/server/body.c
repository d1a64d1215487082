/* The body of a request, piece by piece, at the pace of the handler that reads it. */
#include "daemon/server/connection.h"

#include <string.h>
#include <strings.h>

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
    x->reading = false;
    x->stream_done(x->body_ctx, true);
}

static bool feed_once(struct exchange *x)
{
    struct connection *c = x->c;
    struct err err = ERR_INIT;
    const char *data;
    size_t len;
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
    give_piece(x, data, len);
    return true;
}

void body_feed(struct exchange *x)
{
    struct connection *c = x->c;
    if (c->feeding) /* the handler that is being fed called this: the loop below goes on */
        return;
    c->feeding = true;
    while (c->x == x && !x->over && x->reading && !x->paused && feed_once(x))
        ;
    c->feeding = false;
}

/* ---- for handlers ---- */

static bool is_coded(const struct exchange *x)
{
    const char *coding = exchange_header(x, "Content-Encoding");
    return coding && strcasecmp(coding, "identity") != 0 && !x->takes_coded;
}

void exchange_take_coded(struct exchange *x)
{
    x->takes_coded = true;
}

void exchange_keep_body(struct exchange *x)
{
    x->is_kept = true;
}

void exchange_read_stream(struct exchange *x, size_t (*fn)(void *ctx, const char *data, size_t len),
                          void (*done)(void *ctx, bool good), void *ctx)
{
    static const char go_on[] = "HTTP/1.1 100 Continue\r\n\r\n";
    struct connection *c = x->c;
    x->stream_fn = fn;
    x->stream_done = done;
    x->body_ctx = ctx;
    x->reading = true;
    if (x->over) {
        connection_later(c);
        return;
    }
    if (is_coded(x)) {
        exchange_refuse(x, 415, "a body with a Content-Encoding is not taken");
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
