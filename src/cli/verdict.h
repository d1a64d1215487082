/* What `brig run` says on stderr after a run: which limit ended it, what was weaker than asked,
 * what was denied. */
#pragma once

#include "policy/policy.h"
#include "sandbox/sandbox.h"

#include <stdbool.h>

/* Only what is weaker than the level asks for, because the operator said so. */
void verdict_notices(const struct run_result *result);
/* All of it. */
void verdict_say(const struct policy *policy, const struct run_result *result, bool verbose);
/* Something waits for `brig approve ID`. Both texts are fit to be shown. */
void verdict_held(const char *id, const char *what, const char *reason);
