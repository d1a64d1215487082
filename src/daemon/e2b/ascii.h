/* JSON in ASCII alone, and text that arrives in pieces. */
#pragma once

#include "base/buf.h"

#include <stddef.h>

/* JSON text with every character above 0x7e as \uXXXX: they stand in strings alone. */
void ascii_write(struct buf *out, const char *json, size_t len);

/* The first bytes of a character whose others are still to come. */
#define UTF8_TAIL_MAX 3
struct utf8_tail {
    char bytes[UTF8_TAIL_MAX];
    size_t len;
};
/* Appends what was kept and the new bytes; keeps back what may be half a character. */
void utf8_tail_join(struct utf8_tail *t, const char *data, size_t len, struct buf *out);
