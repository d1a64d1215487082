/* The input and output buffers of one side of an HTTP session. */
#include "proxy/side.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* A head of 64 KiB, and what may come behind it. */
#define OWN_MAX (192u * 1024)
#define OUT_MAX (2u << 20)

static char shared[2][SIDE_READ_MAX];

void side_init(struct side *s, unsigned scratch)
{
    *s = (struct side){.scratch = scratch};
    buf_init(&s->out, OUT_MAX);
}

void side_take(struct side *s, struct stream *stream)
{
    s->stream = stream;
    s->eof = false;
    s->readable = false;
}

static void drop_in(struct side *s)
{
    free(s->own);
    s->own = NULL;
    s->own_room = 0;
    held_set(&s->held, 0);
    s->data = NULL;
    s->len = 0;
}

static void drop_out(struct side *s)
{
    if (s->wipe && s->out.data)
        explicit_bzero(s->out.data, s->out.size);
    buf_done(&s->out);
    buf_init(&s->out, OUT_MAX);
    s->out_at = 0;
}

struct stream *side_give(struct side *s)
{
    struct stream *stream = s->stream;
    s->stream = NULL;
    stream_want(stream, 0);
    stream_on(stream, NULL, NULL);
    return stream;
}

void side_close(struct side *s)
{
    stream_close(s->stream);
    s->stream = NULL;
    s->eof = false;
    s->readable = false;
    drop_in(s);
    drop_out(s);
}

/* ---- in ---- */

/* The bytes that are left move to the front of a buffer of our own with room for more. */
static int make_own(struct side *s, size_t more)
{
    if (s->own && s->own_room - s->len >= more) {
        if (s->data != s->own)
            memmove(s->own, s->data, s->len);
        s->data = s->own;
        return 0;
    }
    /* Double the size, so that a head that arrives byte by byte is not copied for each byte. */
    size_t room = more ? 2 * s->len + 4096 : s->len;
    if (room > OWN_MAX)
        return -EMSGSIZE;
    char *own = held_set(&s->held, room) ? malloc(room) : NULL;
    if (!own)
        return -ENOMEM;
    if (s->len)
        memcpy(own, s->data, s->len);
    free(s->own);
    s->own = own;
    s->own_room = room;
    s->data = own;
    return 0;
}

int side_read(struct side *s, size_t max)
{
    if (!s->readable || s->eof)
        return 0;
    if (max > SIDE_READ_MAX)
        max = SIDE_READ_MAX;
    char *to = shared[s->scratch];
    if (s->len) {
        int r = make_own(s, 1);
        if (r < 0)
            return r;
        to = s->own + s->len;
        max = max < s->own_room - s->len ? max : s->own_room - s->len;
    } else {
        drop_in(s);
    }
    ssize_t n = stream_read(s->stream, to, max);
    if (n <= 0)
        s->readable = false;
    if (n == 0)
        s->eof = true;
    if (n == 0 || n == -EAGAIN)
        return 0;
    if (n < 0)
        return (int)n;
    /* Fewer bytes than asked for: there is no more for now, so another read would be wasted. */
    s->readable = (size_t)n == max;
    if (!s->len)
        s->data = to;
    s->len += (size_t)n;
    return 1;
}

int side_preload(struct side *s, const void *data, size_t len)
{
    if (!len)
        return 0;
    s->own = held_set(&s->held, len) ? malloc(len) : NULL;
    if (!s->own)
        return -ENOMEM;
    memcpy(s->own, data, len);
    s->own_room = len;
    s->data = s->own;
    s->len = len;
    return 0;
}

void side_used(struct side *s, size_t len)
{
    if (len) /* else there may be no data at all */
        s->data += len;
    s->len -= len;
    if (!s->len)
        drop_in(s);
}

int side_keep(struct side *s)
{
    bool is_own = s->own && s->data >= s->own && s->data < s->own + s->own_room;
    return s->len && !is_own ? make_own(s, 0) : 0;
}

/* ---- out ---- */

void side_drop(struct side *s)
{
    drop_out(s);
}

bool side_pending(const struct side *s)
{
    return s->out.len > s->out_at;
}

void side_queue(struct side *s, const void *data, size_t len)
{
    buf_add(&s->out, data, len);
}

int side_flush(struct side *s)
{
    if (s->out.failed)
        return -ENOMEM;
    while (side_pending(s)) {
        ssize_t n = stream_write(s->stream, s->out.data + s->out_at, s->out.len - s->out_at);
        if (n == -EAGAIN)
            return 0;
        if (n < 0)
            return (int)n;
        s->out_at += (size_t)n;
        s->written += (uint64_t)n;
    }
    if (s->out.data)
        drop_out(s);
    return 1;
}

int side_send(struct side *s, const void *data, size_t len)
{
    const char *from = data;
    if (side_pending(s)) {
        side_queue(s, data, len);
        return side_flush(s);
    }
    while (len) {
        ssize_t n = stream_write(s->stream, from, len);
        if (n == -EAGAIN)
            break;
        if (n < 0)
            return (int)n;
        from += n;
        len -= (size_t)n;
        s->written += (uint64_t)n;
    }
    if (!len)
        return 1;
    side_queue(s, from, len);
    return s->out.failed ? -ENOMEM : 0;
}
