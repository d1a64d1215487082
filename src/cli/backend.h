/* `brig-daemon audit REQUEST`: who reads the daemon's database for a verb (audit/ask.h). */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "cli/options.h"

#include <stdbool.h>

/* What every verb that asks it has: --json, --state. */
struct backend_options {
    bool json;
    const char *state;
};
extern const struct opt_table backend_option_table; /* both */
extern const struct opt_table backend_state_table;  /* --state alone */
/* 1: it was one of these; 0: it was not. */
int backend_take(struct backend_options *o, const struct opt *opt, const char *value,
                 struct err *err);

/* A line of the answer, without its newline, NUL-terminated; not the last one. Positive: enough. */
typedef int backend_line_fn(void *ctx, const char *line, size_t len, struct err *err);
/* Whenever there is nothing more to read for the moment. */
typedef int backend_pause_fn(void *ctx, struct err *err);

struct backend_reader {
    backend_line_fn *line;
    backend_pause_fn *pause; /* may be NULL */
    void *ctx;
    struct buf end; /* the last line: {"end":…}; filled in */
};
/* Negative, or the exit status of the program (0, or 1 for a verification that is not good). */
int backend_run(const char *request, struct backend_reader *r, struct err *err);

/* The beginning of a request: {"verb":…,"state":…; the caller adds members and calls backend_end.
 */
int backend_begin(struct json_writer *w, struct buf *out, const char *verb, const char *state,
                  struct err *err);
int backend_end(struct json_writer *w, struct err *err);
