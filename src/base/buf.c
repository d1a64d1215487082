#include "base/buf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void buf_init(struct buf *b, size_t cap)
{
    *b = (struct buf){.cap = cap};
}

void buf_done(struct buf *b)
{
    free(b->data);
    *b = (struct buf){0};
}

void buf_reset(struct buf *b)
{
    b->len = 0;
    b->failed = false;
    if (b->data)
        b->data[0] = '\0';
}

static bool reserve(struct buf *b, size_t extra)
{
    if (b->failed || extra > b->cap - b->len) {
        b->failed = true;
        return false;
    }
    size_t need = b->len + extra + 1;
    if (need <= b->size)
        return true;
    size_t size = b->size ? b->size : 256;
    while (size < need)
        size *= 2;
    char *data = realloc(b->data, size);
    if (!data) {
        b->failed = true;
        return false;
    }
    b->data = data;
    b->size = size;
    return true;
}

void buf_room(struct buf *b, size_t len)
{
    reserve(b, len);
}

void buf_add(struct buf *b, const void *data, size_t len)
{
    if (!reserve(b, len))
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
    if (!reserve(b, 1))
        return;
    b->data[b->len++] = c;
    b->data[b->len] = '\0';
}

void buf_vfmt(struct buf *b, const char *fmt, va_list ap)
{
    va_list again;
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    if (n >= 0 && reserve(b, (size_t)n)) {
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
