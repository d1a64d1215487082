/* The ways in which a response may spell one byte: %2F, %252F, \u002f, \x2f, \/, &#x2F;, &amp; and
 * so on. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define ESCAPE_MAX 6 /* bytes that the longest one takes */

/* The escape that begins at text[0]: its length, with the byte that it means. 0: none begins here.
 * Negative: one may begin here, but the text ends too early to tell. */
int escape_read(const char *text, size_t left, uint8_t *ret);
/* The same for an escape of an escape: "%252F" is "%2F" to one reader and "/" to the next. */
int escape_read_twice(const char *text, size_t left, uint8_t *ret);
/* Could this byte begin one? */
static inline int escape_starts(uint8_t c)
{
    return c == '%' || c == '\\' || c == '&';
}
/* Calls fn with the first two characters of every escape that means `byte`. */
void escape_heads(uint8_t byte, void (*fn)(void *ctx, char first, char second), void *ctx);
