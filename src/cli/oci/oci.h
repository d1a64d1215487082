/* What the verbs of `brig oci` share: the options that stand before or behind the verb, the id, the
 * log of failures. */
#pragma once

#include "cli/verb.h"
#include "oci/container.h"

struct oci_line {
    struct oci_request request;
    const char *words[8]; /* operands after the id */
    unsigned word_count;
    /* The verb's own options: 1 if it was one of them. */
    int (*own)(void *ctx, const struct opt *opt, const char *value, struct err *err);
    void *ctx;
    bool alone;    /* a verb without an id */
    unsigned more; /* operands that may stand behind the id */
    bool sealed;   /* leads a process inside: from a sealed copy of this program */
    bool stops;    /* what stands behind the id is a command */
    char *const *command;
    int command_count;
    int status; /* of the verb, if nothing failed */
};

enum { OCI_OPT_ROOT = 900, OCI_OPT_LOG, OCI_OPT_LOG_FORMAT, OCI_OPT_DEBUG, OCI_OPT_SYSTEMD };
extern const struct opt_table oci_global_table;

/* Reads the line and works with `ctx`. What fails is said to people, and to the log that the engine
 * reads. The exit status. */
int oci_line_main(struct oci_line *l, const struct verb *verb, int argc, char *const argv[],
                  int (*work)(void *ctx, struct err *err));
/* --preserve-fds: that many descriptors behind stderr, all of them open. */
int oci_line_keep(const char *value, unsigned *ret, struct err *err);

extern const struct verb verb_oci_create, verb_oci_start, verb_oci_state, verb_oci_kill,
    verb_oci_delete, verb_oci_run, verb_oci_list, verb_oci_features, verb_oci_spec, verb_oci_exec,
    verb_oci_ps, verb_oci_pause, verb_oci_resume, verb_oci_update, verb_oci_events;
/* `brig-oci …`: the same by a name of its own, so that engines can be pointed at one file. */
int oci_main(int argc, char *const argv[]);
