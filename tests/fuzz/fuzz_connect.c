/* Connect frames: in one piece and byte by byte the same frames and the same verdict; what is read
 * and written anew is what came. */
#include "http/connect.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct outcome {
    struct buf out;
    bool bad, pending;
};

static void read_in_steps(const char *data, size_t size, size_t step, struct outcome *o)
{
    struct connect_reader r;
    struct connect_frame f;
    connect_reader_init(&r);
    *o = (struct outcome){0};
    buf_init(&o->out, size + 1);
    for (size_t at = 0; at < size && !o->bad; at += step) {
        int n;
        connect_reader_feed(&r, data + at, size - at < step ? size - at : step);
        while ((n = connect_reader_next(&r, &f, NULL)) > 0)
            connect_frame_write(&o->out, f.flags, f.data, f.len);
        o->bad = n < 0;
    }
    o->pending = connect_reader_pending(&r);
    connect_reader_done(&r);
    if (o->out.failed)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data;
    struct outcome whole, bytes;
    struct connect_frame f;
    read_in_steps(text, size, size ? size : 1, &whole);
    read_in_steps(text, size, 1, &bytes);
    if (whole.bad != bytes.bad || whole.out.len != bytes.out.len)
        abort();
    if (whole.out.len && (memcmp(whole.out.data, data, whole.out.len) != 0 ||
                          memcmp(bytes.out.data, data, bytes.out.len) != 0))
        abort();
    if (!whole.bad && whole.pending != (whole.out.len < size))
        abort();
    if (connect_body_parse(text, size, CONNECT_FRAME_MAX, &f, NULL) == 0 &&
        (whole.bad || whole.out.len != size || f.len + CONNECT_HEAD != size))
        abort();
    buf_done(&whole.out);
    buf_done(&bytes.out);
    return 0;
}
