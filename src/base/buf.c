/* The growing byte buffer with a cap. */
#include "base/buf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LARGE (1u << 20)

void buf_init(struct buf *b, size_t cap)
{
    *b = (struct buf){.cap = cap};
}

void buf_init_metered(struct buf *b, size_t cap, struct buf_meter *meter)
{
    *b = (struct buf){.cap = cap, .meter = meter};
}

void buf_release(struct buf *b)
{
    size_t size = b->size;
    free(b->data);
    *b = (struct buf){.cap = b->cap, .meter = b->meter};
    if (b->meter && size)
        b->meter->fn(b->meter, size, 0);
}

void buf_drop(struct buf *b, size_t len)
{
    if (!len)
        return;
    b->len -= len;
    memmove(b->data, b->data + len, b->len + 1);
}

void buf_done(struct buf *b)
{
    buf_release(b);
    *b = (struct buf){0};
}

void buf_reset(struct buf *b)
{
    b->len = 0;
    b->failed = false;
    if (b->data)
        b->data[0] = '\0';
}

/* Double the size each time. Large buffers grow by a quarter only: moving them is cheap (mremap),
 * and unused room is charged to an account. */
static size_t next_size(size_t size, size_t need)
{
    if (!size)
        size = 256;
    while (size < need)
        size += size < LARGE ? size : size / 4;
    return size;
}

static bool resize(struct buf *b, size_t size)
{
    if (b->meter && !b->meter->fn(b->meter, b->size, size))
        return false;
    char *data = realloc(b->data, size);
    if (!data) {
        if (b->meter)
            b->meter->fn(b->meter, size, b->size);
        return false;
    }
    b->data = data;
    b->size = size;
    return true;
}

static bool reserve(struct buf *b, size_t extra, bool exactly)
{
    if (b->failed || extra > b->cap - b->len) {
        b->failed = true;
        return false;
    }
    size_t need = b->len + extra + 1;
    if (need <= b->size)
        return true;
    /* If there is no room for the larger size, take exactly what is needed. */
    if ((exactly || !resize(b, next_size(b->size, need))) && !resize(b, need))
        b->failed = true;
    return !b->failed;
}

void buf_room(struct buf *b, size_t len)
{
    reserve(b, len, true);
}

void buf_add(struct buf *b, const void *data, size_t len)
{
    if (!reserve(b, len, false))
        return;
    if (len)
        memcpy(b->data + b->len, data, len);
    b->len += len;
    b->data[b->len] = '\0';
}

void buf_str(struct buf *b, const char *s)
{
    buf_add(b, s, strlen(s));
}

void buf_chr(struct buf *b, char c)
{
    if (!reserve(b, 1, false))
        return;
    b->data[b->len++] = c;
    b->data[b->len] = '\0';
}

void buf_vfmt(struct buf *b, const char *fmt, va_list ap)
{
    va_list again;
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    if (n >= 0 && reserve(b, (size_t)n, false)) {
        vsnprintf(b->data + b->len, (size_t)n + 1, fmt, again);
        b->len += (size_t)n;
    } else {
        b->failed = true;
    }
    va_end(again);
}

void buf_fmt(struct buf *b, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    buf_vfmt(b, fmt, ap);
    va_end(ap);
}

const char *buf_text(const struct buf *b)
{
    return b->data ? b->data : "";
}
