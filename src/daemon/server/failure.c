/* Errors, in the form that each kind of client expects. Two tables: from our codes to HTTP's, and
 * from HTTP's to Connect's. */
#include "daemon/server/connection.h"
#include "http/connect.h"
#include "mcp/rpc.h"

#include <stdarg.h>
#include <stdio.h>

#define MESSAGE_MAX 1024

int failure_status(enum err_code code)
{
    switch (code) {
    case ERR_USAGE:
    case ERR_POLICY:
    case ERR_NOT_EXEC:
        return 400;
    case ERR_REFUSED:
        return 403;
    case ERR_NOT_FOUND:
        return 404;
    case ERR_LIMIT:
        return 429;
    case ERR_UNSUPPORTED:
        return 501;
    case ERR_PROTOCOL:
        return 502;
    case ERR_INTERRUPTED:
    case ERR_MEMORY:
        return 503;
    default:
        return 500;
    }
}

static const char *connect_code(int status)
{
    switch (status) {
    case 401:
        return "unauthenticated";
    case 403:
        return "permission_denied";
    case 404:
    case 410:
        return "not_found";
    case 409:
        return "already_exists";
    case 413:
    case 429:
    case 507:
        return "resource_exhausted";
    case 501:
    case 405:
        return "unimplemented";
    case 502:
    case 503:
        return "unavailable";
    case 408:
    case 504:
        return "deadline_exceeded";
    default:
        return status < 500 ? "invalid_argument" : "internal";
    }
}

static void write_connect(struct json_writer *w, int status, const char *message)
{
    jw_object_begin(w);
    jw_kv_string(w, "code", connect_code(status));
    jw_kv_string(w, "message", message);
    jw_object_end(w);
}

static void write_numbered(struct json_writer *w, int64_t code, const char *message, bool data)
{
    jw_object_begin(w);
    jw_kv_int(w, "code", code);
    jw_kv_string(w, "message", message);
    if (data) {
        jw_key(w, "data");
        jw_null(w);
    }
    jw_object_end(w);
}

static void write_port(const struct auth *a, int status, const char *message, struct buf *out)
{
    struct json_writer w;
    jw_init(&w, out, false);
    jw_object_begin(&w);
    jw_kv_string(&w, "sandboxId", a->id);
    jw_kv_string(&w, "message", message);
    jw_kv_uint(&w, "port", a->port);
    jw_kv_int(&w, "code", status);
    jw_object_end(&w);
}

/* The last frame of a stream. */
static void write_frame(int status, const char *message, struct buf *out)
{
    struct buf text cleanup_buf;
    struct json_writer w;
    jw_begin(&w, &text, CONNECT_FRAME_MAX);
    jw_key(&w, "error");
    write_connect(&w, status, message);
    jw_object_end(&w);
    connect_frame_write(out, CONNECT_END, buf_text(&text), text.len);
}

/* These must be seen as such by whoever looks at the status alone: the client's own check for a
 * sandbox that is gone, and everything that tests whether a key is asked for. */
static bool is_plain_status(int status)
{
    return status == 401 || status == 502;
}

struct failure failure_write(enum error_style style, int status, const char *message,
                             struct buf *out)
{
    struct json_writer w;
    jw_init(&w, out, false);
    switch (style) {
    case ERRORS_CONNECT_STREAM:
        if (!is_plain_status(status)) {
            write_frame(status, message, out);
            return (struct failure){200, "application/connect+json"};
        }
        write_connect(&w, status, message);
        break;
    case ERRORS_CONNECT:
        write_connect(&w, status, message);
        break;
    case ERRORS_TEXT:
        buf_str(out, message);
        return (struct failure){status, "text/plain; charset=utf-8"};
    case ERRORS_DIFY:
        write_numbered(&w, -status, message, true);
        break;
    case ERRORS_RPC:
        rpc_write_error(out, NULL, RPC_INVALID_REQUEST, message, NULL);
        break;
    case ERRORS_API:
    case ERRORS_PORT: /* of which only fail() knows what it is about */
        write_numbered(&w, status, message, false);
        break;
    }
    return (struct failure){status, "application/json"};
}

static void add_advice(struct exchange *x, int status)
{
    if (status == 401)
        exchange_add_header(x, "WWW-Authenticate", "Bearer realm=\"brig\"");
    if (status == 429 || status == 503)
        exchange_add_header(x, "Retry-After", "1");
}

static void fail(struct exchange *x, int status, const char *message)
{
    struct buf body cleanup_buf;
    buf_init(&body, 16 * MESSAGE_MAX);
    struct failure f = {status, "application/json; charset=utf-8"};
    if (x->style == ERRORS_PORT)
        write_port(&x->auth, status, message, &body);
    else
        f = failure_write(x->style, status, message, &body);
    if (!x->begun) {
        add_advice(x, f.status);
        answer_whole(x, f.status, f.type, buf_text(&body), body.len);
    } else if (x->style == ERRORS_CONNECT_STREAM && x->chunked && !is_plain_status(status)) {
        exchange_write(x, buf_text(&body), body.len);
    }
}

__attribute__((format(printf, 3, 0))) static void vformat(char *out, size_t size, const char *fmt,
                                                          va_list ap)
{
    if (vsnprintf(out, size, fmt, ap) < 0)
        out[0] = '\0';
}

void exchange_fail(struct exchange *x, int status, const char *fmt, ...)
{
    char message[MESSAGE_MAX];
    va_list ap;
    va_start(ap, fmt);
    vformat(message, sizeof message, fmt, ap);
    va_end(ap);
    if (!x->begun && !x->over) {
        fail(x, status, message);
        exchange_free(x);
        return;
    }
    /* In the middle of an answer only Connect's streams have a place for it. */
    bool said = !x->over && x->style == ERRORS_CONNECT_STREAM && x->chunked;
    if (said)
        fail(x, is_plain_status(status) ? 503 : status, message);
    if (said)
        exchange_end(x);
    else
        exchange_abort(x);
}

void exchange_fail_err(struct exchange *x, const struct err *err)
{
    exchange_fail(x, failure_status((enum err_code)err->code), "%s%s%s", err->message,
                  err->hint[0] ? "; " : "", err->hint);
}

void exchange_refuse(struct exchange *x, int status, const char *fmt, ...)
{
    char message[MESSAGE_MAX];
    va_list ap;
    if (x->over)
        return;
    va_start(ap, fmt);
    vformat(message, sizeof message, fmt, ap);
    va_end(ap);
    if (x->begun)
        connection_lost(x->c);
    else
        fail(x, status, message);
    x->over = true;
    connection_later(x->c);
}
