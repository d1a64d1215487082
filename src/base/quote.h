/* Text from outside, made safe to stand in a message: in quotes, cut to a bounded length, and
 * without bytes that a terminal would obey. */
#pragma once

#include <stdbool.h>

#define QUOTE_MAX 80

struct quoted {
    char text[QUOTE_MAX + 8]; /* room for the quotes and the mark of a cut */
};

/* Returns q->text, so that it can stand in an argument list. NULL is quoted as an empty text. */
const char *quote(struct quoted *q, const char *text);

/* Well-formed UTF-8 from end to end. */
bool text_is_utf8(const char *text);
/* A control character (C0, DEL, C1) is somewhere in this UTF-8 text. */
bool text_has_control(const char *text);
