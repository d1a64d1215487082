/* BOUNDARY 3: where the code can go. In this version: nowhere.
 *
 * N-1  Container tier: an empty network namespace with nothing but loopback; there is no route that
 * could be opened. N-2  Process tier: no socket of a network family can be made (system call
 * filter), and Landlock refuses TCP besides. */
#pragma once

#include "audit/evidence.h"
#include "base/err.h"
#include "plan/plan.h"
#include "plan/stage.h"

#include <stdbool.h>
#include <sys/types.h>

struct network {
    bool namespaced;
};

int network_plan(struct network *n, enum plan_stage stage, struct plan *plan, struct err *err);
int network_attest(struct network *n, pid_t pid, struct evidence *out, struct err *err);
