/* Hexadecimal text. Digits are read in both cases unless a function says otherwise, and written in
 * lower case. */
#pragma once

#include "base/buf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HEX_DIGITS "0123456789abcdef"

extern const int8_t hex_values[256]; /* value + 1; 0: no digit */

/* The value of a digit; -1 for any other byte, also for the -1 that stands for the end of a text.
 */
static inline int hex_digit(int c)
{
    return (unsigned)c < sizeof hex_values ? hex_values[c] - 1 : -1;
}

/* The same of lower-case digits alone, for texts that have one spelling. */
static inline int hex_digit_lower(int c)
{
    return c >= 'A' && c <= 'F' ? -1 : hex_digit(c);
}

/* The byte that two digits stand for, or -1. The second is not looked at if the first is none, so
 * that a text may end there. */
static inline int hex_byte(const char *text)
{
    int high = hex_digit(text[0]), low = high < 0 ? -1 : hex_digit(text[1]);
    return low < 0 ? -1 : high << 4 | low;
}

/* 16 digits and a NUL; needs neither heap nor library, so children may use it. */
static inline void hex_u64(uint64_t n, char out[static 17])
{
    for (int i = 0; i < 16; i++)
        out[i] = HEX_DIGITS[n >> (60 - 4 * i) & 15];
    out[16] = '\0';
}

/* `out` has room for 2 * len digits and a NUL. */
void hex_encode(const void *data, size_t len, char *out);
void hex_write(struct buf *out, const void *data, size_t len);
/* True where the text is exactly 2 * len lower-case digits. NULL is none. */
bool hex_decode(const char *text, void *ret, size_t len);
