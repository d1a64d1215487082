/* What the verbs on the daemon's sandboxes have in common: options, operands, tables. */
#pragma once

#include "cli/client/client.h"
#include "cli/verb.h"

#define BOXES_MAX 256

enum boxes_option { BOXES_JSON = 800, BOXES_WATCH, BOXES_ALL };

/* --watch, --json, and what every verb on the daemon has. */
extern const struct opt_table boxes_watch_table;

struct boxes {
    struct client client;
    bool json, watch, all;
    const char *words[BOXES_MAX]; /* operands */
    unsigned count;
    /* What is the verb's own: an option (opt), or an operand (opt NULL) before it is listed. 1:
     * taken. */
    int (*own)(void *ctx, const struct opt *opt, const char *value, struct err *err);
    void *ctx;
    bool stop_at_operand; /* all from the second operand on belongs to the command that is run */
};
/* Parses, and finds the daemon. 1: help was printed. `rest`: the first argument after `--`. */
int boxes_parse(struct boxes *b, const struct verb *verb, int argc, char *const argv[], int *rest,
                struct err *err);
/* The ids named, or all with --all; fn for each. Goes on after a failure and returns the first. */
int boxes_each(struct boxes *b, int (*fn)(struct boxes *b, const char *id, struct err *err),
               struct err *err);
/* Prints a tree as one line of JSON. */
int boxes_print_json(const struct json *j, struct err *err);
/* "5m", "1h 3m", "12s" */
void boxes_age(int64_t ms, char out[static 24]);
/* RFC 3339 to milliseconds since 1970; 0 if it is none. */
int64_t boxes_time(const char *text);
/* Runs `draw` once, or with --watch again and again on a cleared screen until a signal. */
int boxes_watch_loop(struct boxes *b,
                     int (*draw)(struct boxes *b, struct buf *out, struct err *err),
                     struct err *err);
/* The ordinary main of a verb: parse, then run. */
int boxes_main(struct boxes *b, const struct verb *verb, int argc, char *const argv[],
               int (*run)(struct boxes *b, struct err *err));
