/* Answers of our own: a small JSON body that says which boundary, why, and what would help. Never a
 * word that came from a server, and never a secret. */
#include "proxy/session.h"

#include <stdio.h>
#include <string.h>

static int status_of(enum deny_reason reason)
{
    switch (reason) {
    case DENY_CONNECTIONS:
    case DENY_UPLOAD:
    case DENY_REQUESTS:
        return 429;
    case DENY_MALFORMED:
        return 400;
    case DENY_CREDENTIAL:
    case DENY_RESPONSE:
        return 502;
    default:
        return 403;
    }
}

static const char *phrase_of(int status)
{
    switch (status) {
    case 400:
        return "Bad Request";
    case 403:
        return "Forbidden";
    case 407:
        return "Proxy Authentication Required";
    case 408:
        return "Request Timeout";
    case 413:
        return "Content Too Large";
    case 429:
        return "Too Many Requests";
    case 431:
        return "Request Header Fields Too Large";
    case 502:
        return "Bad Gateway";
    case 504:
        return "Gateway Timeout";
    default:
        return "Refused";
    }
}

static const char *boundary_of(enum deny_reason reason)
{
    bool secret = reason == DENY_CREDENTIAL || reason == DENY_RESPONSE;
    return boundary_name(secret ? BOUNDARY_CREDENTIALS : BOUNDARY_NETWORK);
}

static void write_body(struct buf *out, enum deny_reason reason, const char *word,
                       const char *message, const char *hint)
{
    struct json_writer w;
    jw_init(&w, out, false);
    jw_object_begin(&w);
    jw_key(&w, "error");
    jw_object_begin(&w);
    jw_kv_string(&w, "boundary", boundary_of(reason));
    jw_kv_string(&w, "reason", word);
    jw_kv_string(&w, "message", message);
    jw_kv_string(&w, "hint", hint && hint[0] ? hint : NULL);
    jw_object_end(&w);
    jw_object_end(&w);
    buf_chr(out, '\n');
}

static void write_head(struct session *s, int status, const char *word, size_t length)
{
    struct buf *out = &s->client.out;
    buf_fmt(out, "HTTP/1.1 %d %s\r\n", status, phrase_of(status));
    buf_str(out, "Content-Type: application/json\r\nCache-Control: no-store\r\n");
    buf_fmt(out, "X-Brig-Denied: %s\r\n", word);
    if (status == 407)
        buf_str(out, "Proxy-Authenticate: Basic realm=\"brig\"\r\n");
    buf_fmt(out, "Connection: %s\r\n", s->keep_alive ? "keep-alive" : "close");
    buf_fmt(out, "Content-Length: %zu\r\n\r\n", length);
}

/* The client's request is over for us. Where part of it has not been read the connection is, too.
 */
static enum step answer(struct session *s, int status, enum deny_reason reason, const char *word,
                        const char *message, const char *hint)
{
    struct exchange *x = s->x;
    if (x && x->have_response) {
        x->reason = reason;
        return session_end(s, true);
    }
    if (s->dial || s->state == SESSION_RELAY || s->state == SESSION_DIAL)
        upstream_close(s);
    dial_cancel(s->dial);
    s->dial = NULL;
    s->keep_alive = s->keep_alive && x && x->body.done && !s->client.eof;
    struct buf body cleanup_buf;
    buf_init(&body, 4096);
    write_body(&body, reason, word, message, hint);
    write_head(s, status, word, body.len);
    if (!x || strcmp(x->request.method, "HEAD") != 0)
        side_queue(&s->client, body.data, body.len);
    if (x) {
        x->reason = reason;
        x->status = status;
        x->down += body.len;
        if (hint)
            snprintf(x->hint, sizeof(x->hint), "%s", hint);
    }
    session_moved(s);
    s->state = SESSION_ANSWER;
    return STEP_ON;
}

enum step refuse(struct session *s, enum deny_reason reason, const char *hint)
{
    return answer(s, status_of(reason), reason, deny_name(reason), deny_text(reason), hint);
}

enum step refuse_with(struct session *s, int status, const char *word, const char *message,
                      const char *hint)
{
    bool malformed = status == 400 || status == 413 || status == 431;
    enum deny_reason reason = malformed ? DENY_MALFORMED : status == 407 ? DENY_AUTH : DENY_NONE;
    if (s->x && !s->x->note && reason == DENY_NONE)
        s->x->note = message;
    return answer(s, status, reason, word, message, hint);
}
