/* Heads of requests. What is taken and written anew must be taken again and mean the same. */
#include "http/message.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool is_framing(const char *name)
{
    return !strcasecmp(name, "Host") || !strcasecmp(name, "Content-Length");
}

/* The headers that are passed on, in order. */
static void compare_headers(const struct http_headers *a, const struct http_headers *b)
{
    size_t j = 0;
    for (size_t i = 0; i < a->count; i++) {
        if (is_framing(a->items[i].name))
            continue;
        while (j < b->count && is_framing(b->items[j].name))
            j++;
        if (j == b->count || strcmp(a->items[i].name, b->items[j].name) != 0 ||
            strcmp(a->items[i].value, b->items[j].value) != 0)
            abort();
        j++;
    }
}

static void check_written(struct http_request *r)
{
    struct http_request again;
    struct err err = ERR_INIT;
    struct buf out;
    buf_init(&out, 1 << 20);
    http_strip_hop_by_hop(&r->headers);
    http_request_write(r, "host.example:80", &out);
    if (out.failed || out.len > HTTP_HEAD_MAX)
        goto out;
    if (http_head_length(out.data, out.len, &err) != (ssize_t)out.len)
        abort();
    if (http_request_parse(out.data, out.len, &again, &err) < 0) {
        if (err.code != ERR_LIMIT)
            abort();
        goto out;
    }
    if (strcmp(again.method, r->method) != 0 || strcmp(again.target, r->target) != 0 ||
        again.body != r->body || again.length != r->length || !again.upgrade != !r->upgrade ||
        strcmp(again.host.text, "host.example") != 0)
        abort();
    http_strip_hop_by_hop(&again.headers);
    compare_headers(&r->headers, &again.headers);
    http_request_done(&again);
out:
    buf_done(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data;
    struct err err = ERR_INIT;
    struct http_request r;
    ssize_t len = http_head_length(text, size, &err);
    if (len <= 0) {
        /* Nothing that has no end, or a bare LF, is ever taken. */
        if (http_request_parse(text, size, &r, NULL) == 0)
            abort();
        return 0;
    }
    if (http_request_parse(text, (size_t)len, &r, &err) < 0) {
        if (!err.message[0])
            abort();
        return 0;
    }
    if (memchr(text, 0, (size_t)len))
        abort();
    if (r.form != FORM_AUTHORITY)
        check_written(&r);
    http_request_done(&r);
    return 0;
}
