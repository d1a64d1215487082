/* A byte buffer with a hard cap. Appending past the cap, or running out of memory, sets `failed`
 * and drops the rest: a writer checks once at the end instead of after each call. Always
 * NUL-terminated. */
#pragma once

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

/* Keeps account of the memory that buffers take, where somebody has to answer for it. Called before
 * an allocation changes from `from` bytes to `to`; false: it may not grow. Less is always granted.
 */
struct buf_meter {
    bool (*fn)(struct buf_meter *m, size_t from, size_t to);
};

struct buf {
    char *data;
    size_t len;
    size_t size; /* bytes allocated, including the final NUL */
    size_t cap;  /* most content bytes this buffer may ever hold */
    bool failed;
    struct buf_meter *meter; /* or NULL; it outlives the buffer's memory */
};

void buf_init(struct buf *b, size_t cap);
void buf_init_metered(struct buf *b, size_t cap, struct buf_meter *meter);
void buf_done(struct buf *b);
void buf_reset(struct buf *b);
/* Gives the memory back; what was set at the beginning stays. */
void buf_release(struct buf *b);
/* Takes `len` bytes off the front, for those who read a buffer while others write to it. */
void buf_drop(struct buf *b, size_t len);
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
