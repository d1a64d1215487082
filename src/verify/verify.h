/* `brig verify`: attacks sandboxes of this host and policy, and says which walls held.
 *
 * Three parties. The supervisor runs each sandbox as `brig run` would. The attack runs inside and
 * reports; in principle its word is worth nothing. The judge, a process beside both, owns the
 * canaries, looks at the sandbox from the host's /proc, kills the supervisor where that is the
 * attack, and decides. */
#pragma once

#include "base/err.h"
#include "policy/policy.h"
#include "verify/judge.h"

#include <stdbool.h>
#include <stddef.h>

#define CELLS_MAX 8

struct verify_options {
    /* The policy of a cell; tier TIER_AUTO: as the level or the file says. */
    int (*build)(void *ctx, enum level level, enum tier tier, struct policy *ret, struct err *err);
    void *ctx;
    bool one_level; /* only this one */
    enum level level;
    enum tier tier;       /* TIER_AUTO: each level's own, and the other one for level high */
    const bool *left_out; /* of each row: it is not to be tried; NULL: all are */
    /* After each sandbox: how many of how many are over; may be NULL. */
    void (*progress)(void *ctx, unsigned done, unsigned all);
};

struct verify_result {
    struct verify_cell cells[CELLS_MAX];
    unsigned cell_count;
    const bool *left_out; /* as the options have it; NULL: none */
    double duration_ms;
    unsigned sandboxes;
};

/* Negative: it could not be run. Otherwise the result is complete. */
int verify_run(const struct verify_options *options, struct verify_result *ret, struct err *err);
