/* Reads a command line against tables of options. Pure: looks at nothing but its arguments, so that
 * it can be fuzzed; what an option means is the caller's business. */
#pragma once

#include "base/err.h"

#include <stddef.h>

enum opt_kind {
    OPT_FLAG,  /* takes no value; may be repeated */
    OPT_VALUE, /* one value; given twice with different values is a contradiction */
    OPT_LIST,  /* one value each time; may be repeated */
    OPT_MAYBE, /* --name or --name=VALUE; alone it means `means` */
};

struct opt {
    int id;           /* the caller's name for it */
    char brief;       /* 'm' for -m, 0 for none */
    const char *name; /* "memory" for --memory */
    enum opt_kind kind;
    const char *value; /* what the value is called in help texts: "SIZE"; NULL for a flag */
    const char *words; /* the only values there are, separated by spaces; NULL: anything */
    const char
        *means; /* OPT_FLAG, OPT_MAYBE: the value that is handed on; may be NULL for a flag */
    const char *group; /* heading in help texts */
    const char *help;
};

/* Tables are chained, so that verbs can share a part. */
struct opt_table {
    const struct opt *items;
    size_t count;
    const struct opt_table *next;
};

#define OPTIONS_MAX 64 /* in one chain */

/* From a callback: the rest of the line belongs to someone else. */
#define OPTIONS_STOP 1

/* Called for each option in order, and with opt NULL for each operand. Negative: stop with this
 * error. */
typedef int (*opt_fn)(void *ctx, const struct opt *opt, const char *value, struct err *err);

/* `argv` starts with the first argument, not with the verb. *ret_rest is the index of the first
 * argument that was not taken: after `--`, or where the callback said OPTIONS_STOP to an operand,
 * else argc. */
int options_parse(const struct opt_table *table, int argc, char *const argv[], opt_fn fn, void *ctx,
                  int *ret_rest, struct err *err);

/* The i-th option of a chain, NULL past its end. */
const struct opt *options_at(const struct opt_table *table, size_t i);
