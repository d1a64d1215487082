/* Writes heads from their parsed form. Framing is written here and nowhere else. */
#include "http/headers.h"

#include <string.h>
#include <strings.h>

static void write_field(struct buf *out, const char *name, const char *value)
{
    buf_str(out, name);
    buf_add(out, ": ", 2);
    buf_str(out, value);
    buf_add(out, "\r\n", 2);
}

static bool is_written_here(const char *name)
{
    switch (strlen(name)) {
    case 4:
        return !strcasecmp(name, "Host");
    case 10:
        return !strcasecmp(name, "Connection") || !strcasecmp(name, "Keep-Alive");
    case 14:
        return !strcasecmp(name, "Content-Length");
    case 17:
        return !strcasecmp(name, "Transfer-Encoding");
    default:
        return false;
    }
}

static void write_fields(struct buf *out, const struct http_headers *h, bool upgrade)
{
    for (size_t i = 0; i < h->count; i++) {
        const char *name = h->items[i].name;
        if (is_written_here(name) || (!upgrade && !strcasecmp(name, "Upgrade")))
            continue;
        write_field(out, name, h->items[i].value);
    }
}

static void write_body_framing(struct buf *out, enum http_body body, uint64_t length)
{
    if (body == BODY_CHUNKED)
        buf_str(out, "Transfer-Encoding: chunked\r\n");
    else if (body == BODY_LENGTH)
        buf_fmt(out, "Content-Length: %llu\r\n", (unsigned long long)length);
}

void http_request_write(const struct http_request *r, const char *host_header, struct buf *out)
{
    buf_str(out, r->method);
    buf_chr(out, ' ');
    buf_str(out, r->target ? r->target : "/");
    buf_str(out, " HTTP/1.1\r\n");
    write_field(out, "Host", host_header);
    write_fields(out, &r->headers, false);
    if (r->upgrade) {
        buf_str(out, "Connection: Upgrade\r\n");
        write_field(out, "Upgrade", r->upgrade);
    }
    write_body_framing(out, r->body, r->length);
    buf_add(out, "\r\n", 2);
}

void http_response_write(const struct http_response *r, bool keep_alive, struct buf *out)
{
    const char *length = http_header_get(&r->headers, "Content-Length");
    buf_fmt(out, "HTTP/1.1 %03d ", r->status);
    buf_str(out, r->reason);
    buf_add(out, "\r\n", 2);
    write_fields(out, &r->headers, r->status == 101);
    if (r->status == 101)
        buf_str(out, "Connection: Upgrade\r\n");
    else if (r->status >= 200)
        buf_str(out, keep_alive ? "Connection: keep-alive\r\n" : "Connection: close\r\n");
    if (r->body == BODY_NONE && length && r->status >= 200 && r->status != 204)
        write_field(out, "Content-Length", length);
    write_body_framing(out, r->body, r->length);
    buf_add(out, "\r\n", 2);
}
