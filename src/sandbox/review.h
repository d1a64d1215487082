/* Reviews of runs, for the command line: what `brig run --review` and the sandboxes of the daemon
 * have left in the caller's state folder. */
#pragma once

#include "base/buf.h"
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct reviews_line {
    const char *id, *project, *command;
    int64_t started_ns;
    bool running;
};
int reviews_list(void (*fn)(void *ctx, const struct reviews_line *line), void *ctx,
                 struct err *err);

struct reviews_style {
    bool colour, terminal, stat;
};
/* Calls `out` for each changed file. */
int reviews_diff(const char *id, const struct reviews_style *style,
                 int (*out)(void *ctx, const char *text, size_t len), void *ctx, struct err *err);
int reviews_json(const char *id, bool stat, struct buf *out, struct err *err);

struct reviews_choice {
    const char *const *files; /* none: all */
    size_t file_count;
    const char *const *trust;
    size_t trust_count;
    const char *digest; /* or NULL */
    bool dry_run;
};
/* Adds what was applied to `out`: one line each, or a JSON object. When nothing is left of the
 * review, it is removed. */
int reviews_apply(const char *id, const struct reviews_choice *choice, bool json, struct buf *out,
                  struct err *err);
int reviews_discard(const char *id, struct err *err);
