/* Text from outside, made safe to stand in a message: in quotes, cut to a bounded length, and
 * without bytes that a terminal would obey. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define QUOTE_MAX 80

struct quoted {
    char text[QUOTE_MAX + 8]; /* room for the quotes and the mark of a cut */
};

/* Returns q->text, so that it can stand in an argument list. NULL is quoted as an empty text. */
const char *quote(struct quoted *q, const char *text);

/* Length of the well-formed UTF-8 sequence at s, 0 if there is none. s ends with a NUL. */
size_t utf8_sequence(const char *s);
/* The whole text is well-formed UTF-8. */
bool utf8_valid(const char *text);
