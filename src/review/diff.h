/* Which lines differ between two texts. Pure, in memory proportional to the number of lines, and in
 * bounded time whatever the texts are: beyond that the answer is right but no longer the shortest.
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct diff_line {
    const char *text; /* without its line feed */
    size_t len;
    bool unended; /* the last one, without a line feed */
};

struct diff_side {
    struct diff_line *lines;
    uint32_t *class; /* equal lines have equal numbers, on both sides */
    uint8_t *changed;
    size_t count;
};

struct diff {
    struct diff_side a, b;
};
void diff_done(struct diff *d);
/* The texts must outlive the result. */
int diff_make(struct diff *ret, const char *a, size_t a_len, const char *b, size_t b_len,
              struct err *err);

/* Unified, with `context` lines around each change. Calls back for each line, first with the
 * heading of each hunk ('@'), then with its lines (' ', '-', '+'). */
typedef void diff_line_fn(void *ctx, char kind, const char *text, size_t len, bool unended);
void diff_walk(const struct diff *d, size_t context, diff_line_fn *fn, void *ctx);
/* A NUL, or bytes that no text has, in the first part. */
bool diff_is_binary(const char *text, size_t len);
