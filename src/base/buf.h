/* A byte buffer with a hard cap. Appending past the cap, or running out of memory, sets `failed`
 * and drops the rest: a writer checks once at the end instead of after each call. Always
 * NUL-terminated. */
#pragma once

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

struct buf {
    char *data;
    size_t len;
    size_t size; /* bytes allocated, including the final NUL */
    size_t cap;  /* most content bytes this buffer may ever hold */
    bool failed;
};

void buf_init(struct buf *b, size_t cap);
void buf_done(struct buf *b);
void buf_reset(struct buf *b);
/* Make room for `len` more bytes at once, where the size is known beforehand. */
void buf_room(struct buf *b, size_t len);
void buf_add(struct buf *b, const void *data, size_t len);
void buf_str(struct buf *b, const char *s);
void buf_chr(struct buf *b, char c);
void buf_fmt(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void buf_vfmt(struct buf *b, const char *fmt, va_list ap) __attribute__((format(printf, 2, 0)));
/* Never NULL, also when empty. */
const char *buf_text(const struct buf *b);

#define cleanup_buf __attribute__((cleanup(buf_done)))
