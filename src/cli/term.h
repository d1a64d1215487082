/* Writing for people: whole writes, and no byte of the sandboxed program's choosing reaches the
 * terminal as a command to it. */
#pragma once

#include "base/buf.h"
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>

/* A terminal, NO_COLOR not set, TERM not dumb. */
bool term_colour(int fd);
/* A terminal that shows UTF-8, as far as its user's environment says. */
bool term_utf8(int fd);
/* All of it or negative, with errno set. */
int term_write(int fd, const void *data, size_t len);
/* What a verb prints, to stdout; `what` it is, for messages: "the policy". */
int term_print(const struct buf *out, const char *what, struct err *err);
/* Append text with control characters replaced by '?'. Tabs and newlines too: the result is one
 * line. */
void term_clean(struct buf *out, const char *text);
/* "brig: …" on stderr, cleaned, in one write. */
void term_say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
