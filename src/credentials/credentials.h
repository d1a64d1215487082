/* BOUNDARY 4: what the code can use and never see. The environment starts empty, nothing of the
 * caller's is copied unless the operator names it, and a secret is a worthless placeholder inside:
 * brig-proxy swaps it on the way to the one origin that it is bound to.
 *
 * C-1  The environment of the code is exactly what the plan lists; nothing is inherited. */
#pragma once

#include "audit/evidence.h"
#include "base/err.h"
#include "plan/plan.h"
#include "plan/stage.h"
#include "policy/policy.h"

#include <sys/types.h>

/* What other rooms want the code to find in its environment. */
struct extra_variable {
    const char *name;
    char *value; /* owned */
};
#define EXTRA_VARIABLES_MAX 48

#define CREDENTIALS_INNER "brig:"

struct credentials {
    const struct policy *policy;
    const struct egress *egress; /* of this run, with placeholders; NULL: no secrets */
    struct extra_variable extra[EXTRA_VARIABLES_MAX];
    unsigned extra_count;
    bool incomplete; /* a variable did not fit */
    const char *home;
    const char *tmpdir;
    const char *term;        /* or NULL */
    const char *tools;       /* programs of brig's own, for want of others; or NULL */
    const char *first_tools; /* the same, in the place of the system's; or NULL */
    bool engine; /* an engine runs the code: variables of the policy are the code's alone, and stand
                    behind CREDENTIALS_INNER, where neither loader nor library looks */
    bool host_etc;      /* the host's /etc is there, but closed (process tier) */
    bool root_inside;   /* the code's uid is 0 in its own view */
    const int *user_ns; /* from where the environment of init can be read (os/peek.h), or NULL */
    unsigned count;     /* variables planned */
};

int credentials_plan(struct credentials *c, enum plan_stage stage, struct plan *plan,
                     struct err *err);
/* Before plan. What the policy sets by name stays. */
void credentials_set(struct credentials *c, const char *name, const char *value);
void credentials_teardown(struct credentials *c);
/* C-1: the process that waits to become the code was itself started with an empty environment. */
int credentials_check(const int *user_ns, pid_t pid, struct err *err);
int credentials_attest(struct credentials *c, pid_t pid, struct evidence *out, struct err *err);
