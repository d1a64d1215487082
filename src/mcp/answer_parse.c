/* Answers over HTTP: see answer.h. */
#include "mcp/answer.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

void answer_init(struct mcp_answer *a, mcp_answer_fn *fn, void *ctx)
{
    *a = (struct mcp_answer){.fn = fn, .ctx = ctx};
    buf_init(&a->in, 2 * HTTP_HEAD_MAX);
    buf_init(&a->line, MCP_ANSWER_MAX);
    buf_init(&a->message, MCP_ANSWER_MAX);
    chunk_reader_init(&a->chunks);
}

void answer_done(struct mcp_answer *a)
{
    buf_done(&a->in);
    buf_done(&a->line);
    buf_done(&a->message);
}

static void hand_out(struct mcp_answer *a)
{
    if (a->message.len)
        a->fn(a->ctx, buf_text(&a->message), a->message.len);
    buf_reset(&a->message);
}

/* ---- events ---- */

static void take_line(struct mcp_answer *a)
{
    const char *text = buf_text(&a->line);
    size_t len = a->line.len;
    if (len && text[len - 1] == '\r')
        len--;
    if (!len) {
        hand_out(a);
    } else if (len >= 5 && !memcmp(text, "data:", 5)) {
        size_t skip = 5 + (len > 5 && text[5] == ' ');
        if (a->message.len)
            buf_chr(&a->message, ' '); /* a message has no line feeds */
        buf_add(&a->message, text + skip, len - skip);
    }
    buf_reset(&a->line);
}

static int take_body(struct mcp_answer *a, const char *data, size_t len, struct err *err)
{
    if (!a->events) {
        buf_add(&a->message, data, len);
    } else {
        while (len) {
            const char *end = memchr(data, '\n', len);
            size_t n = end ? (size_t)(end - data) : len;
            buf_add(&a->line, data, n);
            if (end)
                take_line(a);
            n += end != NULL;
            data += n;
            len -= n;
        }
    }
    if (a->line.failed || a->message.failed)
        return err_set(err, ERR_LIMIT, "an answer of more than %u bytes", MCP_ANSWER_MAX);
    return 0;
}

/* An event that is cut off was never there. */
static void take_end(struct mcp_answer *a)
{
    if (!a->events)
        hand_out(a);
    a->done = true;
}

/* ---- framing ---- */

static int take_chunks(struct mcp_answer *a, const char *data, size_t len, struct err *err)
{
    while (len && !a->chunks.done) {
        const char *piece = NULL;
        size_t piece_len = 0;
        ssize_t n = chunk_read(&a->chunks, data, len, &piece, &piece_len, err);
        if (n < 0 || (piece_len && take_body(a, piece, piece_len, err) < 0))
            return err_number(err);
        if (!n && !a->chunks.done)
            return err_set(err, ERR_PROTOCOL, "malformed chunks");
        data += n;
        len -= (size_t)n;
    }
    if (a->chunks.done)
        take_end(a);
    return 0;
}

static int take_bytes(struct mcp_answer *a, const char *data, size_t len, struct err *err)
{
    if (a->body == BODY_CHUNKED)
        return take_chunks(a, data, len, err);
    /* What comes behind an answer is none of it. */
    if (a->body == BODY_NONE)
        len = 0;
    if (a->body == BODY_LENGTH && len > a->left)
        len = (size_t)a->left;
    if (take_body(a, data, len, err) < 0)
        return err_number(err);
    a->left -= a->body == BODY_LENGTH ? len : 0;
    if (a->body == BODY_NONE || (a->body == BODY_LENGTH && !a->left))
        take_end(a);
    return 0;
}

static int take_head(struct mcp_answer *a, size_t len, struct err *err)
{
    struct http_response r = {0};
    const char *type, *session;
    if (http_response_parse(a->in.data, len, "POST", &r, err) < 0)
        return err_number(err);
    if (r.status >= 200) {
        type = http_header_get(&r.headers, "Content-Type");
        session = http_header_get(&r.headers, "Mcp-Session-Id");
        a->headed = true;
        a->status = r.status;
        a->body = r.body;
        a->left = r.length;
        a->events = type && !strncasecmp(type, "text/event-stream", 17);
        if (session && strlen(session) < sizeof(a->session))
            snprintf(a->session, sizeof(a->session), "%s", session);
    }
    http_response_done(&r);
    return 0;
}

int answer_feed(struct mcp_answer *a, const char *data, size_t len, struct err *err)
{
    ssize_t head;
    if (a->done)
        return 0;
    if (a->headed)
        return take_bytes(a, data, len, err);
    buf_add(&a->in, data, len);
    if (a->in.failed)
        return err_set(err, ERR_LIMIT, "the head of the answer is too long");
    while (!a->headed) {
        head = http_head_length(buf_text(&a->in), a->in.len, err);
        if (head <= 0)
            return (int)head;
        if (take_head(a, (size_t)head, err) < 0)
            return err_number(err);
        memmove(a->in.data, a->in.data + head, a->in.len - (size_t)head);
        a->in.len -= (size_t)head;
    }
    return take_bytes(a, buf_text(&a->in), a->in.len, err);
}

int answer_close(struct mcp_answer *a, struct err *err)
{
    if (a->headed && a->body == BODY_UNTIL_CLOSE)
        take_end(a);
    return a->done ? 0 : err_set(err, ERR_PROTOCOL, "the connection ended before the answer did");
}
