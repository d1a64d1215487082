/* Forms: the first line of the input is the Content-Type, the rest the body. In one piece and byte
 * by byte the same parts, the same data and the same verdict. */
#include "http/multipart.h"

#include "base/buf.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct outcome {
    struct buf seen;
    bool bad, complete;
};

static void note(struct buf *out, const struct multipart *m, enum multipart_event event)
{
    if (event == MULTIPART_PART) {
        if (strlen(m->name) > MULTIPART_NAME_MAX || strlen(m->filename) > MULTIPART_NAME_MAX)
            abort();
        buf_fmt(out, "[%s|%s|%d]", m->name, m->filename, m->has_filename);
    } else if (event == MULTIPART_DATA) {
        if (!m->data_len)
            abort();
        buf_add(out, m->data, m->data_len);
    } else if (event == MULTIPART_END) {
        buf_str(out, "[end]");
    }
}

static void read_in_steps(const char *type, const char *body, size_t len, size_t step,
                          struct outcome *o)
{
    struct multipart *m = malloc(sizeof *m);
    unsigned idle = 0;
    *o = (struct outcome){0};
    buf_init(&o->seen, 16 * len + 65536);
    o->bad = !m || multipart_init(m, type, NULL) < 0;
    for (size_t at = 0; at < len && !o->bad;) {
        enum multipart_event event = MULTIPART_MORE;
        size_t piece = len - at < step ? len - at : step;
        ssize_t n = multipart_read(m, body + at, piece, &event, NULL);
        o->bad = n < 0;
        if (o->bad)
            break;
        if ((size_t)n > piece)
            abort();
        idle = n ? 0 : idle + 1;
        if (idle > 4)
            abort(); /* it takes nothing and gives nothing */
        at += (size_t)n;
        note(&o->seen, m, event);
        if (event == MULTIPART_DONE)
            break;
    }
    o->complete = !o->bad && multipart_complete(m);
    free(m);
    if (o->seen.failed)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data;
    const char *line = memchr(text, '\n', size);
    char type[512];
    struct outcome whole, bytes;
    if (!line || (size_t)(line - text) >= sizeof type || memchr(text, 0, (size_t)(line - text)))
        return 0;
    memcpy(type, text, (size_t)(line - text));
    type[line - text] = '\0';
    size_t len = size - (size_t)(line + 1 - text);
    read_in_steps(type, line + 1, len, len ? len : 1, &whole);
    read_in_steps(type, line + 1, len, 1, &bytes);
    if (whole.bad != bytes.bad || whole.complete != bytes.complete)
        abort();
    if (!whole.bad && whole.complete &&
        (whole.seen.len != bytes.seen.len ||
         (whole.seen.len && memcmp(whole.seen.data, bytes.seen.data, whole.seen.len) != 0)))
        abort();
    buf_done(&whole.seen);
    buf_done(&bytes.seen);
    return 0;
}
