/* JSON in ASCII: see ascii.h. */
#include "daemon/e2b/ascii.h"

#include "base/json.h"
#include "base/utf8.h"

#include <string.h>

/* Eight bytes at a time: none of them has its highest bit, nor gets it from one more (0x7f). */
static size_t ascii_span(const char *text, size_t len)
{
    static const uint64_t ones = 0x0101010101010101u, tops = 0x8080808080808080u;
    size_t n = 0;
    for (uint64_t x; len - n >= sizeof(x); n += sizeof(x)) {
        memcpy(&x, text + n, sizeof(x));
        if ((x | (x + ones)) & tops)
            break;
    }
    while (n < len && (unsigned char)text[n] < 0x7f)
        n++;
    return n;
}

static void write_code(struct buf *out, uint32_t code)
{
    if (code < 0x10000) {
        json_write_unit(out, code);
        return;
    }
    code -= 0x10000;
    json_write_unit(out, 0xd800 + (code >> 10));
    json_write_unit(out, 0xdc00 + (code & 0x3ff));
}

void ascii_write(struct buf *out, const char *json, size_t len)
{
    while (len && !out->failed) {
        uint32_t code;
        size_t n = ascii_span(json, len);
        buf_add(out, json, n);
        json += n;
        len -= n;
        if (!len)
            break;
        n = utf8_decode(json, len, &code);
        write_code(out, n ? code : 0xfffd);
        json += n ? n : 1;
        len -= n ? n : 1;
    }
}

/* How many bytes at the end begin a character that is not complete. */
static size_t incomplete(const char *text, size_t len)
{
    for (size_t back = 1; back <= UTF8_TAIL_MAX && back <= len; back++) {
        unsigned char c = (unsigned char)text[len - back];
        size_t need = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : c >= 0xc2 ? 2 : 1;
        if (c >= 0x80 && c < 0xc0)
            continue; /* in the middle of one */
        return need > back ? back : 0;
    }
    return 0;
}

void utf8_tail_join(struct utf8_tail *t, const char *data, size_t len, struct buf *out)
{
    buf_add(out, t->bytes, t->len);
    buf_add(out, data, len);
    t->len = out->failed ? 0 : incomplete(out->data, out->len);
    if (!t->len)
        return;
    memcpy(t->bytes, out->data + out->len - t->len, t->len);
    out->len -= t->len;
    out->data[out->len] = '\0';
}
