/* Connect streams: see connect.h. */
#include "daemon/connect.h"

#include "base/num.h"

#include <string.h>

static const struct json_limits message_limits = {
    .max_bytes = CALL_JSON_MAX, .max_depth = 32, .max_nodes = 65536};

static void stream_body(struct call *call, const char *data, size_t len)
{
    struct err err = ERR_INIT;
    const char *text;
    size_t text_len;
    int r = connect_unwrap(data, len, &text, &text_len, &err);
    if (r == 0)
        r = text_len ? json_parse(text, text_len, &message_limits, &call->json, &err)
                     : json_parse("{}", 2, NULL, &call->json, &err);
    if (r < 0)
        connect_finish_err(call, &err);
    else
        call->on_json(call, call->json);
}

void connect_json(struct call *call, void (*fn)(struct call *call, const struct json *body))
{
    call->on_json = fn;
    call_body(call, CALL_JSON_MAX + 5, stream_body);
}

void connect_frame_begin(struct connect_frame *f, size_t cap)
{
    buf_init(&f->text, cap + 5);
    buf_add(&f->text, "\0\0\0\0", 5);
    jw_init(&f->w, &f->text, false);
}

static void frame_close(struct connect_frame *f, uint8_t flags)
{
    size_t len = f->text.len - 5;
    unsigned char *head = (unsigned char *)f->text.data;
    head[0] = flags;
    head[1] = (unsigned char)(len >> 24);
    head[2] = (unsigned char)(len >> 16);
    head[3] = (unsigned char)(len >> 8);
    head[4] = (unsigned char)len;
}

bool connect_frame_send(struct connect_frame *f, struct call *call)
{
    bool more = true;
    if (!f->text.failed) {
        frame_close(f, 0);
        more = exchange_write(call->x, f->text.data, f->text.len);
    }
    buf_done(&f->text);
    return more;
}

void connect_start(struct call *call)
{
    exchange_begin(call->x, 200, CONNECT_STREAM, -1);
}

void connect_finish(struct call *call, const char *code, const char *message)
{
    struct connect_frame f;
    connect_frame_begin(&f, 8192);
    jw_object_begin(&f.w);
    if (code) {
        jw_key(&f.w, "error");
        jw_object_begin(&f.w);
        jw_kv_string(&f.w, "code", code);
        jw_kv_string(&f.w, "message", message);
        jw_object_end(&f.w);
    }
    jw_object_end(&f.w);
    frame_close(&f, 2);
    exchange_write(call->x, f.text.data, f.text.len);
    buf_done(&f.text);
    exchange_end(call->x);
    call_ended(call);
}

static const char *code_of(const struct err *err)
{
    switch ((enum err_code)err->code) {
    case ERR_USAGE:
    case ERR_POLICY:
        return "invalid_argument";
    case ERR_NOT_FOUND:
    case ERR_NOT_EXEC:
        return "not_found";
    case ERR_REFUSED:
        return "permission_denied";
    case ERR_LIMIT:
        return "resource_exhausted";
    case ERR_UNSUPPORTED:
        return "unimplemented";
    case ERR_INTERRUPTED:
        return "unavailable";
    default:
        return "internal";
    }
}

void connect_finish_err(struct call *call, const struct err *err)
{
    connect_start(call);
    connect_finish(call, code_of(err), err->message);
}

bool connect_timeout(struct call *call, uint64_t *ret_ms)
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
    connect_finish_err(call, &err);
    return false;
}

uint64_t connect_keepalive_ms(struct call *call)
{
    const char *text = exchange_header(call->x, "Keepalive-Ping-Interval");
    uint64_t seconds;
    if (!text || num_parse_uint(text, &seconds, NULL) < 0 || !seconds || seconds > 3600)
        return 0;
    return seconds * 1000;
}
