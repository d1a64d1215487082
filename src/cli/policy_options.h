/* The options that shape a policy, the same for every verb that takes them, and the order in which
 * they count: level < policy file < options. */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "cli/options.h"
#include "policy/policy.h"

enum policy_option_id {
    OPT_LEVEL = 100,
    OPT_POLICY,
    OPT_RO,
    OPT_RW,
    OPT_ENV,
    OPT_ALLOW,
    OPT_BLOCK,
    OPT_SECRET,
    OPT_TOOL, /* + enum tool_verdict */
    OPT_TOOL_LAST = OPT_TOOL + TOOL_VERDICT_COUNT - 1,
    OPT_ASK_EGRESS,
    OPT_DANGEROUS,
    OPT_IMAGE,
    OPT_FIELD, /* + enum policy_field; the last */
};

extern const struct opt_table policy_option_table; /* all of them */
extern const struct opt_table tool_option_table;   /* tools, then all of them */
extern const struct opt_table rule_option_table;   /* rules, --policy */
extern const struct opt_table build_option_table;  /* --policy, rules, secrets, limits */
extern const struct opt_table secret_option_table; /* secrets, --policy */
extern const struct opt_table egress_option_table; /* rules, resolver, secrets, --policy */

struct policy_use {
    const struct opt *opt;
    const char *value; /* in argv */
};

/* What was typed, in order: nothing can be applied before the level and the file are known. */
struct policy_options {
    const char *level;
    const char *file;
    struct policy_use *uses;
    size_t count;
    size_t room;
};

/* `argc` bounds how many can come. */
int policy_options_init(struct policy_options *o, int argc, struct err *err);
void policy_options_done(struct policy_options *o);
/* 1 if the option was one of ours, else 0. */
int policy_options_take(struct policy_options *o, const struct opt *opt, const char *value,
                        struct err *err);
/* The policy in force, validated. policy_done() it also on failure. */
int policy_options_build(const struct policy_options *o, struct policy *ret, struct err *err);
/* What is allowed but should be known, on stderr. `project`: as --project named it, NULL
 * for the current folder, "" for none. */
void policy_options_notes(const struct policy_options *o, const struct policy *p,
                          const char *project);
