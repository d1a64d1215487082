/* Reads and writes the frames of Connect streams; connect.h says what they are. */
#include "http/connect.h"

#include <string.h>

ssize_t connect_frame_parse(const char *data, size_t len, size_t max, struct connect_frame *ret,
                            struct err *err)
{
    const uint8_t *p = (const uint8_t *)data;
    if (len < 1)
        return 0;
    if (p[0] & CONNECT_COMPRESSED)
        return err_set(err, ERR_USAGE, "compressed messages are not understood");
    if (p[0] & ~CONNECT_END)
        return err_set(err, ERR_USAGE, "a message with unknown flags: 0x%02x", p[0]);
    if (len < CONNECT_HEAD)
        return 0;
    size_t size = (size_t)p[1] << 24 | (size_t)p[2] << 16 | (size_t)p[3] << 8 | p[4];
    if (size > max)
        return err_set(err, ERR_USAGE, "a message of %zu bytes; %zu are the most", size, max);
    if (len - CONNECT_HEAD < size)
        return 0;
    *ret = (struct connect_frame){.flags = p[0], .data = data + CONNECT_HEAD, .len = size};
    return (ssize_t)(CONNECT_HEAD + size);
}

int connect_body_parse(const char *data, size_t len, size_t max, struct connect_frame *ret,
                       struct err *err)
{
    struct connect_frame f = {0};
    ssize_t n = connect_frame_parse(data, len, max, &f, err);
    if (n < 0)
        return err_number(err);
    if (n == 0)
        return err_set(err, ERR_USAGE, "the message is not complete");
    if (f.flags & CONNECT_END)
        return err_set(err, ERR_USAGE, "an end of stream in place of a message");
    if ((size_t)n != len)
        return err_set(err, ERR_USAGE, "more than one message");
    *ret = f;
    return 0;
}

void connect_frame_write(struct buf *out, uint8_t flags, const char *data, size_t len)
{
    const uint8_t head[CONNECT_HEAD] = {flags, (uint8_t)(len >> 24), (uint8_t)(len >> 16),
                                        (uint8_t)(len >> 8), (uint8_t)len};
    buf_room(out, sizeof head + len);
    buf_add(out, head, sizeof head);
    buf_add(out, data, len);
}

/* ---- streams ---- */

void connect_reader_init(struct connect_reader *r)
{
    *r = (struct connect_reader){0};
    buf_init(&r->in, 2 * (CONNECT_FRAME_MAX + CONNECT_HEAD));
}

void connect_reader_done(struct connect_reader *r)
{
    buf_done(&r->in);
}

void connect_reader_feed(struct connect_reader *r, const char *data, size_t len)
{
    buf_drop(&r->in, r->at);
    r->at = 0;
    buf_add(&r->in, data, len);
}

int connect_reader_next(struct connect_reader *r, struct connect_frame *ret, struct err *err)
{
    if (r->in.failed)
        return err_set(err, ERR_LIMIT, "more than is kept of a stream");
    ssize_t n = connect_frame_parse(buf_text(&r->in) + r->at, r->in.len - r->at, CONNECT_FRAME_MAX,
                                    ret, err);
    if (n < 0)
        return err_number(err);
    r->at += (size_t)n;
    return n > 0;
}

bool connect_reader_pending(const struct connect_reader *r)
{
    return r->at < r->in.len;
}
