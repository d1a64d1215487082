#include "network/budget.h"

#include <stdlib.h>
#include <string.h>

#define WINDOW_MS 60000u

static struct budget_counts *counts_new(size_t rules, struct err *err)
{
    struct budget_counts *counts = calloc(rules ? rules : 1, sizeof *counts);
    if (!counts)
        err_set(err, ERR_SYSTEM, "no memory for the budgets");
    return counts;
}

int budgets_init(struct budgets *b, const struct egress *e, struct err *err)
{
    *b = (struct budgets){.egress = e};
    b->rules = counts_new(e->rule_count, err);
    return b->rules ? 0 : -ERR_SYSTEM;
}

void budgets_done(struct budgets *b)
{
    free(b->rules);
    *b = (struct budgets){0};
}

static bool same_text(const struct egress_rule *a, const struct egress_rule *b)
{
    return a->text && b->text && strcmp(a->text, b->text) == 0;
}

/* How many of the rules before `i` read the same: two rules may differ in what their text leaves
 * out (methods, budgets), so the first goes on as the first and the second as the second. */
static size_t ordinal(const struct egress *e, size_t i)
{
    size_t n = 0;
    for (size_t j = 0; j < i; j++)
        n += same_text(&e->rules[j], &e->rules[i]);
    return n;
}

static const struct budget_counts *counts_of(const struct budgets *b, const struct egress *next,
                                             size_t i)
{
    size_t skip = ordinal(next, i);
    for (size_t j = 0; j < b->egress->rule_count; j++)
        if (same_text(&b->egress->rules[j], &next->rules[i]) && skip-- == 0)
            return &b->rules[j];
    return NULL;
}

int budgets_replace(struct budgets *b, const struct egress *e, struct err *err)
{
    struct budget_counts *counts = counts_new(e->rule_count, err);
    if (!counts)
        return -ERR_SYSTEM;
    for (size_t i = 0; i < e->rule_count; i++) {
        const struct budget_counts *old = counts_of(b, e, i);
        if (old)
            counts[i] = *old;
    }
    free(b->rules);
    b->rules = counts;
    b->egress = e;
    return 0;
}

/* A rule's own counts, or NULL where no rule matched (SIZE_MAX): then the totals count alone. */
static struct budget_counts *of_rule(struct budgets *b, size_t rule)
{
    return rule < b->egress->rule_count ? &b->rules[rule] : NULL;
}

enum deny_reason budget_connect(struct budgets *b, size_t rule)
{
    struct budget_counts *own = of_rule(b, rule);
    if (b->total.connections >= b->egress->max_connections)
        return DENY_CONNECTIONS;
    if (own && own->connections >= b->egress->rules[rule].max_connections)
        return DENY_CONNECTIONS;
    b->total.connections++;
    if (own)
        own->connections++;
    return DENY_NONE;
}

void budget_disconnect(struct budgets *b, size_t rule)
{
    struct budget_counts *own = of_rule(b, rule);
    if (b->total.connections)
        b->total.connections--;
    if (own && own->connections)
        own->connections--;
}

/* Windows of one minute that begin with their first request. */
static void roll(struct budget_counts *c, uint64_t now_ms)
{
    if (c->window_requests && now_ms - c->window_start_ms < WINDOW_MS)
        return;
    c->window_start_ms = now_ms;
    c->window_requests = 0;
}

enum deny_reason budget_request(struct budgets *b, size_t rule, uint64_t now_ms)
{
    struct budget_counts *own = of_rule(b, rule);
    roll(&b->total, now_ms);
    if (own)
        roll(own, now_ms);
    if (b->total.window_requests >= b->egress->requests)
        return DENY_REQUESTS;
    if (own && own->window_requests >= b->egress->rules[rule].requests)
        return DENY_REQUESTS;
    b->total.window_requests++;
    if (own)
        own->window_requests++;
    return DENY_NONE;
}

static uint64_t left(const struct budget_counts *c, uint64_t limit)
{
    return c->uploaded < limit ? limit - c->uploaded : 0;
}

uint64_t budget_upload(struct budgets *b, size_t rule, uint64_t len)
{
    struct budget_counts *own = of_rule(b, rule);
    uint64_t most = left(&b->total, b->egress->upload);
    if (own && left(own, b->egress->rules[rule].upload) < most)
        most = left(own, b->egress->rules[rule].upload);
    if (len > most)
        len = most;
    b->total.uploaded += len;
    if (own)
        own->uploaded += len;
    return len;
}
