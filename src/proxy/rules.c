/* The rules in force, and what happens to connections when others take their place. */
#include "proxy/proxy.h"

#include <stdlib.h>
#include <string.h>

struct rules *rules_hold(struct rules *r)
{
    r->refs++;
    return r;
}

void rules_drop(struct rules *r)
{
    if (!r || --r->refs > 0)
        return;
    egress_done(&r->egress);
    free(r);
}

static void steal_secrets(struct egress *from, struct egress *to)
{
    struct egress_secret *secrets = to->secrets;
    size_t count = to->secret_count;
    to->secrets = from->secrets;
    to->secret_count = from->secret_count;
    from->secrets = secrets;
    from->secret_count = count;
}

int rules_replace(struct proxy *px, struct rules *r, struct err *err)
{
    struct rules *old = px->rules;
    if (budgets_replace(&px->budgets, &r->egress, err) < 0) {
        rules_drop(r);
        return err_number(err);
    }
    /* The secrets of a run stay: values, and what they are bound to, were fixed at the start. */
    steal_secrets(&old->egress, &r->egress);
    px->rules = r;
    px->injector.egress = &r->egress;
    unsigned ended = sessions_review(px) + sniffs_review(px) + tunnels_review(px);
    rules_drop(old);
    return (int)ended;
}

/* A connection leads where its rule led when it was dialled. */
static bool same_pin(const struct egress_rule *a, const struct egress_rule *b)
{
    return a->pinned == b->pinned && (!a->pinned || host_equal(&a->address, &b->address));
}

bool rules_follow(struct proxy *px, const struct rules *old, const struct target *t,
                  const struct stream *upstream, size_t *rule, enum deny_reason *reason)
{
    const struct egress *e = &px->rules->egress;
    const struct egress_rule *was =
        *rule < old->egress.rule_count ? &old->egress.rules[*rule] : NULL;
    struct verdict v;
    egress_decide(e, t, &v);
    if (v.allow && was && !same_pin(was, &e->rules[v.rule]))
        v = (struct verdict){.reason = DENY_ADDRESS, .rule = v.rule};
    if (v.allow && upstream && dial_leads_to_blocked(px, upstream->io.fd))
        v = (struct verdict){.reason = DENY_BLOCKED, .rule = v.rule};
    *rule = v.rule;
    if (v.allow && was && strcmp(rule_budget(was), rule_budget(&e->rules[v.rule])) == 0)
        return true;
    budget_disconnect_named(&px->budgets, was ? rule_budget(was) : NULL);
    *reason = v.allow ? budget_connect(&px->budgets, v.rule) : v.reason;
    return *reason == DENY_NONE;
}
