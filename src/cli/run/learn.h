/* brig run --learn: where the policy goes that was learned. */
#pragma once

#include "base/err.h"
#include "policy/learn/learn.h"
#include "policy/policy.h"

#define LEARN_FILE "brig-policy.yaml"

struct learn_options {
    bool on;
    bool force;
    const char *file;       /* NULL: LEARN_FILE, or nowhere with --json; "-": stdout */
    enum network_mode mode; /* as the policy has it */
    char *cwd;              /* of the caller; learn_check finds it */
};

/* Before the run: may the file be written? */
int learn_check(struct learn_options *o, bool json, struct err *err);
/* Nothing is allowed that was not before; but what is asked for can be seen. */
void learn_open_network(struct learn_options *o, struct policy *p);
int learn_save(const struct learn_options *o, bool json, struct learn *l,
               const struct policy *policy, struct err *err);
/* What came of it, on stderr. */
void learn_say(const struct learn *l);
