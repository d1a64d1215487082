/* Connect streams: see frames.h. */
#include "daemon/e2b/frames.h"

#include "base/num.h"

#include <string.h>

static const struct json_limits message_limits = {
    .max_bytes = CALL_JSON_MAX, .max_depth = 32, .max_nodes = 65536, .max_key = 64u << 10};

static void stream_body(struct call *call, const char *data, size_t len)
{
    static char nothing[] = "{}";
    struct err err = ERR_INIT;
    struct connect_frame message;
    if (connect_body_parse(data, len, CALL_JSON_MAX, &message, &err) < 0) {
        err.code = ERR_USAGE;
        call_fail_err(call, &err);
        return;
    }
    /* The message is a part of call->body. */
    char *text = message.len ? call->body.data + ((const char *)message.data - data) : nothing;
    call_parse_object(call, text, message.len ? message.len : 2, &message_limits);
}

void frames_json(struct call *call, void (*fn)(struct call *call, const struct json *body))
{
    call->on_json = fn;
    call_body(call, CALL_JSON_MAX + CONNECT_HEAD, stream_body);
}

void frame_begin(struct frame *f, size_t cap)
{
    static const char room[CONNECT_HEAD];
    buf_init(&f->text, cap + sizeof(room));
    buf_add(&f->text, room, sizeof(room));
    jw_init(&f->w, &f->text, false);
}

static void frame_close(struct frame *f, uint8_t flags)
{
    size_t len = f->text.len - CONNECT_HEAD;
    unsigned char *head = (unsigned char *)f->text.data;
    head[0] = flags;
    head[1] = (unsigned char)(len >> 24);
    head[2] = (unsigned char)(len >> 16);
    head[3] = (unsigned char)(len >> 8);
    head[4] = (unsigned char)len;
}

bool frame_send(struct frame *f, struct call *call)
{
    bool more = true;
    if (!f->text.failed) {
        frame_close(f, 0);
        more = exchange_write(call->x, f->text.data, f->text.len);
    }
    buf_done(&f->text);
    return more;
}

void frames_start(struct call *call)
{
    exchange_begin(call->x, 200, CONNECT_STREAM, -1);
}

void frames_finish(struct call *call, const char *code, const char *message)
{
    struct frame f;
    frame_begin(&f, 8192);
    jw_object_begin(&f.w);
    if (code) {
        jw_kv_object(&f.w, "error");
        jw_kv_string(&f.w, "code", code);
        jw_kv_string(&f.w, "message", message);
        jw_object_end(&f.w);
    }
    jw_object_end(&f.w);
    frame_close(&f, CONNECT_END);
    exchange_write(call->x, f.text.data, f.text.len);
    buf_done(&f.text);
    call_end(call);
}

void frames_cut(struct call *call)
{
    call_abort(call);
}

bool frames_timeout(struct call *call, uint64_t *ret_ms)
{
    const char *text = exchange_header(call->x, "Connect-Timeout-Ms");
    *ret_ms = 0;
    if (!text)
        return true;
    /* The protocol allows ten digits. */
    if (strlen(text) <= 10 && num_parse_uint(text, ret_ms, NULL) == 0)
        return true;
    struct err err = ERR_INIT;
    err_set(&err, ERR_USAGE, "Connect-Timeout-Ms: expected at most ten digits");
    call_fail_err(call, &err);
    return false;
}

uint64_t frames_keepalive_ms(struct call *call)
{
    const char *text = exchange_header(call->x, "Keepalive-Ping-Interval");
    uint64_t seconds;
    if (!text || num_parse_uint(text, &seconds, NULL) < 0 || !seconds || seconds > 3600)
        return 0;
    return seconds * 1000;
}
