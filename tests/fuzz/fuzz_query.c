/* Queries and paths. What is taken and encoded anew is read as the same pairs. */
#include "http/query.h"

#include "base/buf.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void encode(struct buf *out, const char *text)
{
    for (; *text; text++)
        buf_fmt(out, "%%%02X", (unsigned char)*text);
}

static void check_query(const char *text, size_t size)
{
    struct err err = ERR_INIT;
    struct query q, again;
    struct buf out;
    if (query_parse(text, size, &q, &err) < 0) {
        if (!err.message[0] || q.count)
            abort();
        return;
    }
    buf_init(&out, 8 * size + 16);
    for (size_t i = 0; i < q.count; i++) {
        encode(&out, q.pairs[i].name);
        buf_chr(&out, '=');
        encode(&out, q.pairs[i].value);
        buf_chr(&out, '&');
        if (!query_get(&q, q.pairs[i].name))
            abort();
    }
    if (out.failed || query_parse(buf_text(&out), out.len, &again, NULL) < 0 ||
        again.count != q.count)
        abort();
    for (size_t i = 0; i < q.count; i++)
        if (strcmp(q.pairs[i].name, again.pairs[i].name) != 0 ||
            strcmp(q.pairs[i].value, again.pairs[i].value) != 0)
            abort();
    query_done(&again);
    query_done(&q);
    buf_done(&out);
}

static void check_path(const char *text, size_t size)
{
    char *out = malloc(size + 1);
    if (!out)
        return;
    if (path_decode(text, size, out, NULL) == 0) {
        size_t slashes = 0, kept = 0;
        for (size_t i = 0; i < size; i++)
            slashes += text[i] == '/';
        for (const char *p = out; *p; p++)
            kept += *p == '/';
        if (slashes != kept || strstr(out, "/../") || strlen(out) > size)
            abort();
    }
    free(out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    check_query((const char *)data, size);
    check_path((const char *)data, size);
    return 0;
}
