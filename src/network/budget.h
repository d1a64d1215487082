/* Budgets of one run: connections at one time, bytes sent, requests per minute; in all and per
 * rule. Pure: the caller says what time it is. */
#pragma once

#include "network/decide.h"

struct budget_counts {
    uint64_t connections;
    uint64_t uploaded;
    uint64_t window_start_ms;
    uint64_t window_requests;
};

struct budgets {
    const struct egress *egress;
    struct budget_counts total;
    struct budget_counts *rules; /* as many as egress->rule_count */
};
int budgets_init(struct budgets *b, const struct egress *e, struct err *err);
void budgets_done(struct budgets *b);
/* New rules: counts move to the rule with the same text. b->egress becomes e. */
int budgets_replace(struct budgets *b, const struct egress *e, struct err *err);

/* DENY_NONE, or which budget is used up; then nothing is counted. */
enum deny_reason budget_connect(struct budgets *b, size_t rule);
void budget_disconnect(struct budgets *b, size_t rule);
enum deny_reason budget_request(struct budgets *b, size_t rule, uint64_t now_ms);
/* How many of `len` bytes may still be sent; they are counted. */
uint64_t budget_upload(struct budgets *b, size_t rule, uint64_t len);
