/* Budgets of one run: connections at one time, bytes sent, requests per minute; in all and per
 * rule. Pure: the caller says what time it is.
 *
 * N-14  What was counted stays counted for as long as the run lasts: under the name of the rule
 * that the operator wrote, whichever rules were made of it, and whether it is in force just now. */
#pragma once

#include "network/decide.h"

struct budget_counts {
    uint64_t connections;
    uint64_t uploaded;
    uint64_t window_start_ms;
    uint64_t window_requests;
};

struct budget {
    char *name;   /* rule_budget() */
    bool limited; /* a rule of this name had a limit: then it is never forgotten */
    struct budget_counts counts;
};

struct budgets {
    const struct egress *egress;
    struct budget_counts total;
    struct budget *all;
    size_t count;
    size_t *of_rule; /* index into `all`, as many as egress->rule_count */
};
int budgets_init(struct budgets *b, const struct egress *e, struct err *err);
void budgets_done(struct budgets *b);
/* New rules: each counts on where its name was counted. b->egress becomes e. On failure nothing has
 * changed. */
int budgets_replace(struct budgets *b, const struct egress *e, struct err *err);

/* DENY_NONE, or which budget is used up; then nothing is counted. */
enum deny_reason budget_connect(struct budgets *b, size_t rule);
void budget_disconnect(struct budgets *b, size_t rule);
/* Of a rule that may not be in force any more. */
void budget_disconnect_named(struct budgets *b, const char *name);
/* Do these two rules count together? */
bool budget_is_shared(const struct budgets *b, size_t rule, size_t other);
enum deny_reason budget_request(struct budgets *b, size_t rule, uint64_t now_ms);
/* How many of `len` bytes may still be sent; they are counted. */
uint64_t budget_upload(struct budgets *b, size_t rule, uint64_t len);
/* May so many bytes be sent, and one at least? Nothing is counted. */
bool budget_may_upload(const struct budgets *b, size_t rule, uint64_t len);
