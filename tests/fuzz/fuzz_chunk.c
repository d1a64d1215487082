/* The chunked coding: in one piece and byte by byte it must give the same body, the same end and
 * the same verdict; and what is encoded from any body must come out as that body. */
#include "http/chunk.h"

#include "base/buf.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct outcome {
    struct buf body;
    bool bad;
    bool done;
    size_t took;
};

static void read_in_steps(const char *text, size_t size, size_t step, struct outcome *o)
{
    struct chunk_reader r;
    chunk_reader_init(&r);
    *o = (struct outcome){0};
    buf_init(&o->body, size + 1);
    while (o->took < size && !r.done) {
        size_t piece = size - o->took < step ? size - o->took : step;
        const char *data;
        size_t data_len;
        ssize_t n = chunk_read(&r, text + o->took, piece, &data, &data_len, NULL);
        if (n < 0) {
            o->bad = true;
            break;
        }
        if (n == 0 || (size_t)n > piece || data_len > (size_t)n)
            abort();
        buf_add(&o->body, data, data_len);
        o->took += (size_t)n;
    }
    o->done = r.done;
    if (o->body.failed)
        abort();
}

static void check_encoded(const char *text, size_t size)
{
    struct buf out;
    struct outcome o;
    size_t first = size / 3;
    buf_init(&out, size + 100);
    if (first)
        buf_fmt(&out, "%zx\r\n", first);
    buf_add(&out, text, first);
    if (first)
        buf_str(&out, "\r\n");
    if (size > first) {
        buf_fmt(&out, "%zX\r\n", size - first);
        buf_add(&out, text + first, size - first);
        buf_str(&out, "\r\n");
    }
    buf_str(&out, "0\r\n\r\n");
    read_in_steps(out.data, out.len, 7, &o);
    if (o.bad || !o.done || o.took != out.len || o.body.len != size ||
        (size && memcmp(o.body.data, text, size) != 0))
        abort();
    buf_done(&o.body);
    buf_done(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data;
    struct outcome whole;
    struct outcome bytes;
    read_in_steps(text, size, size ? size : 1, &whole);
    read_in_steps(text, size, 1, &bytes);
    if (whole.bad != bytes.bad || whole.done != bytes.done)
        abort();
    if (!whole.bad && (whole.took != bytes.took || whole.body.len != bytes.body.len))
        abort();
    if (whole.body.len == bytes.body.len && whole.body.len &&
        memcmp(whole.body.data, bytes.body.data, whole.body.len) != 0)
        abort();
    buf_done(&whole.body);
    buf_done(&bytes.body);
    check_encoded(text, size);
    return 0;
}
