/* The program of brig's own that stands in the place of the container's, on a tier with one. */
#pragma once

#include "oci/judge.h"
#include "oci/sentry.h"

#include <limits.h>

/* A module's engine needs files that no image has. It stands in a booth, a small file system around
 * the container's view, which is a folder there (booth_child.c). */
#define OCI_BOOTH_FOLDER "root"
#define OCI_BOOTH_ROOT   "/" OCI_BOOTH_FOLDER
#define OCI_BOOTH_ENGINE "/engine"
#define OCI_VARIABLE     "brig:" /* as credentials/credentials.h has it */

struct oci_engine {
    enum tier tier;
    bool booth;
    bool user_kernel;       /* it is gVisor's Sentry */
    char program[PATH_MAX]; /* of the host */
    struct oci_sentry sentry;
};
struct oci_become;

void oci_engine_init(struct oci_engine *e);
void oci_engine_close(struct oci_engine *e);

/* What cannot be there: of a process, the first or one of exec; of a whole configuration; of one
 * more process in a container. */
int oci_engine_judge(enum tier tier, const struct oci_process *p, unsigned keep, struct err *err);
int oci_engine_judge_config(enum tier tier, const struct oci_config *c, struct err *err);
int oci_engine_judge_exec(enum tier tier, const struct oci_process *p, const struct oci_config *c,
                          struct err *err);
/* Finds it. A tier without an engine has none, and nothing is done. */
int oci_engine_find(struct oci_engine *e, enum tier tier, struct err *err);
/* The same, for a container that is made: can this node give the tier? */
int oci_engine_open(struct oci_engine *e, enum tier tier, bool rules, struct err *err);
/* In the place of the arguments, and marks the variables. *ret_number is a place among the former:
 * the number of the descriptor that the module is open by. */
int oci_engine_become(const struct oci_engine *e, const struct oci_process *p, char ***argv,
                      char **env, char **ret_number, struct err *err);
/* Of the tier gvisor, in the place of arguments and variables: what the Sentry is told, the first
 * time when namespaces were joined; `state` is the container's. */
int oci_engine_describe(struct oci_engine *e, const struct oci_config *c, struct oci_become *b,
                        struct err *err);
int oci_engine_describe_exec(struct oci_engine *e, const struct oci_process *p,
                             const struct oci_state *state, struct oci_become *b, struct err *err);
/* launch.c: of a program, in memory; nobody can change it. */
int oci_sealed_copy(int from, struct err *err);
/* A list whose entries are owned. */
void oci_engine_free(char **list);
