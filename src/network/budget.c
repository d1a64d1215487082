/* Counts connections, bytes and requests against the limits of the run and of each rule. */
#include "network/budget.h"

#include "base/cleanup.h"

#include <stdlib.h>
#include <string.h>

#define WINDOW_MS 60000u

/* Counters of rules without a limit are dropped when they are idle. Those with a limit stay; there
 * are at most as many as the operator had rules at the start. */
static void forget_idle(struct budgets *b)
{
    size_t kept = 0;
    for (size_t i = 0; i < b->count; i++) {
        bool used = b->all[i].limited || b->all[i].counts.connections > 0;
        for (size_t r = 0; !used && r < b->egress->rule_count; r++)
            used = b->of_rule[r] == i;
        for (size_t r = 0; used && r < b->egress->rule_count; r++)
            if (b->of_rule[r] == i)
                b->of_rule[r] = kept;
        if (used)
            b->all[kept++] = b->all[i];
        else
            free(b->all[i].name);
    }
    b->count = kept;
}

static struct budget *find(const struct budgets *b, const char *name)
{
    for (size_t i = 0; i < b->count; i++)
        if (strcmp(b->all[i].name, name) == 0)
            return &b->all[i];
    return NULL;
}

/* There is room for it. */
static struct budget *find_or_add(struct budgets *b, const char *name)
{
    struct budget *found = find(b, name);
    if (found)
        return found;
    b->all[b->count] = (struct budget){.name = strdup(name)};
    return b->all[b->count].name ? &b->all[b->count++] : NULL;
}

static int no_memory(struct err *err)
{
    return err_memory(err);
}

int budgets_init(struct budgets *b, const struct egress *e, struct err *err)
{
    static const struct egress none;
    *b = (struct budgets){.egress = &none};
    return budgets_replace(b, e, err);
}

void budgets_done(struct budgets *b)
{
    for (size_t i = 0; i < b->count; i++)
        free(b->all[i].name);
    free(b->all);
    free(b->of_rule);
    *b = (struct budgets){0};
}

int budgets_replace(struct budgets *b, const struct egress *e, struct err *err)
{
    forget_idle(b);
    cleanup_free size_t *of_rule = calloc(e->rule_count + 1, sizeof *of_rule);
    struct budget *all = reallocarray(b->all, b->count + e->rule_count + 1, sizeof *all);
    if (all)
        b->all = all;
    if (!of_rule || !all)
        return no_memory(err);
    for (size_t i = 0; i < e->rule_count; i++) {
        struct budget *own = find_or_add(b, rule_budget(&e->rules[i]));
        if (!own)
            return no_memory(err);
        own->limited |= rule_is_counted(&e->rules[i]);
        of_rule[i] = (size_t)(own - b->all);
    }
    free(b->of_rule);
    b->of_rule = of_rule;
    of_rule = NULL;
    b->egress = e;
    return 0;
}

/* A rule's own counts, or NULL where no rule matched (SIZE_MAX): then the totals count alone. */
static struct budget_counts *of_rule(const struct budgets *b, size_t rule)
{
    return rule < b->egress->rule_count ? &b->all[b->of_rule[rule]].counts : NULL;
}

bool budget_is_shared(const struct budgets *b, size_t rule, size_t other)
{
    return rule < b->egress->rule_count && other < b->egress->rule_count &&
           b->of_rule[rule] == b->of_rule[other];
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

static void disconnect(struct budgets *b, struct budget_counts *own)
{
    if (b->total.connections)
        b->total.connections--;
    if (own && own->connections)
        own->connections--;
}

void budget_disconnect(struct budgets *b, size_t rule)
{
    disconnect(b, of_rule(b, rule));
}

void budget_disconnect_named(struct budgets *b, const char *name)
{
    struct budget *own = name ? find(b, name) : NULL;
    disconnect(b, own ? &own->counts : NULL);
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

static uint64_t upload_left(const struct budgets *b, size_t rule)
{
    const struct budget_counts *own = of_rule(b, rule);
    uint64_t most = left(&b->total, b->egress->upload);
    uint64_t of_own = own ? left(own, b->egress->rules[rule].upload) : most;
    return of_own < most ? of_own : most;
}

bool budget_may_upload(const struct budgets *b, size_t rule, uint64_t len)
{
    uint64_t most = upload_left(b, rule);
    return most > 0 && len <= most;
}

uint64_t budget_upload(struct budgets *b, size_t rule, uint64_t len)
{
    struct budget_counts *own = of_rule(b, rule);
    uint64_t most = upload_left(b, rule);
    if (len > most)
        len = most;
    b->total.uploaded += len;
    if (own)
        own->uploaded += len;
    return len;
}
