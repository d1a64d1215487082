/* What every verb of the command line has in common: its place in the tree, its help, its options,
 * and how it fails. One file per verb; the tree is in verbs.c. */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "cli/options.h"

#include <stdbool.h>
#include <string.h>

struct verb {
    const char *name;                   /* "policy show": everything after `brig` */
    const char *summary;                /* one line */
    const char *usage;                  /* one form per line, without `brig` */
    const char *about;                  /* paragraphs; each line at most 78 columns */
    const char *examples;               /* as they are typed, one per line, "# why" above */
    const char *statuses;               /* "0  what it means", one per line; may be NULL */
    const struct opt_table *options;    /* ends with common_options; NULL: has children only */
    const struct verb *const *children; /* NULL-terminated; NULL: none */
    const char *operands;               /* words for completion, or NULL */
    const struct verb *form;            /* another form of it, with options of its own, or NULL */
    bool runs;                          /* a command of the caller's stands behind the options */
    int (*main)(const struct verb *verb, int argc, char *const argv[]);
};

#define OPT_HELP 0 /* the id that no table but common_options uses */
extern const struct opt_table common_options;

extern const struct verb verb_root;
extern const struct verb verb_run;
extern const struct verb verb_init;
extern const struct verb verb_image;
extern const struct verb verb_serve;
extern const struct verb verb_ps;
extern const struct verb verb_create;
extern const struct verb verb_exec;
extern const struct verb verb_cp;
extern const struct verb verb_logs;
extern const struct verb verb_kill;
extern const struct verb verb_rm;
extern const struct verb verb_pause;
extern const struct verb verb_resume;
extern const struct verb verb_stats;
extern const struct verb verb_pool;
extern const struct verb verb_audit;
extern const struct verb verb_keys;
extern const struct verb verb_receipt;
extern const struct verb verb_diff;
extern const struct verb verb_apply;
extern const struct verb verb_discard;
extern const struct verb verb_mcp;
extern const struct verb verb_oci;
extern const struct verb verb_net;
extern const struct verb verb_approvals;
extern const struct verb verb_approve;
extern const struct verb verb_deny;
extern const struct verb verb_proxy;
extern const struct verb verb_secrets;
extern const struct verb verb_doctor;
extern const struct verb verb_kernel;
extern const struct verb verb_verify_walls;
extern const struct verb verb_policy;
extern const struct verb verb_policy_choose;
extern const struct verb verb_completion;
extern const struct verb verb_help;

/* The last word of its name. */
static inline const char *verb_word(const struct verb *verb)
{
    const char *space = strrchr(verb->name, ' ');
    return space ? space + 1 : verb->name;
}

const struct verb *verb_child(const struct verb *verb, const char *word);
/* Run the verb that argv names, starting below `verb`; returns the exit status. */
int verb_dispatch(const struct verb *verb, int argc, char *const argv[]);

/* options_parse() with --help answered: 1 when help was printed and there is nothing left to do. */
int verb_parse(const struct verb *verb, int argc, char *const argv[], opt_fn fn, void *ctx,
               int *ret_rest, struct err *err);
/* The same for a verb that runs no command of the caller's: what stands behind `--` are operands
 * too. */
int verb_parse_all(const struct verb *verb, int argc, char *const argv[], opt_fn fn, void *ctx,
                   struct err *err);
/* Say what went wrong, for people on stderr and, if asked for, for programs on stdout. Returns the
 * exit status. */
int verb_fail(const struct verb *verb, const struct err *err, bool json);
/* The same; `more` adds members to the object. */
typedef void verb_more(void *ctx, struct json_writer *w);
int verb_fail_with(const struct verb *verb, const struct err *err, bool json, verb_more *more,
                   void *ctx);
/* An error in the options may come before --json was read: was it asked for anywhere? */
bool verb_wants_json(int argc, char *const argv[]);

/* help_text.c */
#define HELP_MAX 65536
/* Two columns, the right one in lines as wide as the help. */
void help_entry(struct buf *out, const char *left, const char *right);
void help_print(const struct verb *verb, int fd);
