/* BOUNDARY 4: what the code can use and never see. In this version it can use nothing: the
 * environment starts empty, and nothing of the caller's is copied unless the operator names it.
 *
 * C-1  The environment of the code is exactly what the plan lists; nothing is inherited. */
#pragma once

#include "audit/evidence.h"
#include "base/err.h"
#include "plan/plan.h"
#include "plan/stage.h"
#include "policy/policy.h"

#include <sys/types.h>

struct credentials {
    const struct policy *policy;
    const char *home;
    const char *tmpdir;
    const char *term; /* or NULL */
    bool host_etc;    /* the host's /etc is there, but closed (process tier) */
    bool root_inside; /* the code's uid is 0 in its own view */
    unsigned count;   /* variables planned */
};

int credentials_plan(struct credentials *c, enum plan_stage stage, struct plan *plan,
                     struct err *err);
int credentials_attest(struct credentials *c, pid_t pid, struct evidence *out, struct err *err);
