/* Heads of responses, for a method that the first byte chooses. What is taken and written anew must
 * be taken again and be framed the same. */
#include "http/message.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_written(struct http_response *r, const char *method)
{
    struct http_response again;
    struct err err = ERR_INIT;
    struct buf out;
    buf_init(&out, 1 << 20);
    http_strip_hop_by_hop(&r->headers);
    http_response_write(r, r->keep_alive, &out);
    if (out.failed || out.len > HTTP_HEAD_MAX)
        goto out;
    if (http_head_length(out.data, out.len, &err) != (ssize_t)out.len)
        abort();
    if (http_response_parse(out.data, out.len, method, &again, &err) < 0) {
        if (err.code != ERR_LIMIT)
            abort();
        goto out;
    }
    if (again.status != r->status || again.body != r->body || again.length != r->length ||
        strcmp(again.reason, r->reason) != 0 ||
        (r->status >= 200 && again.keep_alive != r->keep_alive))
        abort();
    http_response_done(&again);
out:
    buf_done(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const methods[] = {"GET", "HEAD", "CONNECT", "POST"};
    struct err err = ERR_INIT;
    struct http_response r;
    if (!size)
        return 0;
    const char *method = methods[data[0] % 4];
    const char *text = (const char *)data + 1;
    ssize_t len = http_head_length(text, size - 1, &err);
    if (len <= 0) {
        if (http_response_parse(text, size - 1, method, &r, NULL) == 0)
            abort();
        return 0;
    }
    if (http_response_parse(text, (size_t)len, method, &r, &err) < 0) {
        if (!err.message[0])
            abort();
        return 0;
    }
    check_written(&r, method);
    http_response_done(&r);
    return 0;
}
