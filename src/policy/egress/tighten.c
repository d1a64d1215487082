/* What a request may do about the network: leave rules out, narrow them, block hosts, turn it off.
 * A rule of the request stands for as much of it as the policy allows; what it names beyond that is
 * refused. A secret is the operator's alone. */
#include "policy/egress/tighten.h"

#include "base/cleanup.h"
#include "base/quote.h"
#include "policy/egress/internal.h"

#include <string.h>

static int refuse(const char *text, const char *why, struct err *err)
{
    struct quoted q;
    err_set(err, ERR_REFUSED, "a request may only tighten the policy: network.allow: %s %s",
            quote(&q, text), why);
    return err_hint(err, "the operator can allow it in the policy file or by an option");
}

bool rule_reaches(const struct egress_rule *have, const struct egress_rule *want)
{
    return have->port == want->port &&
           (have->scheme == want->scheme || have->scheme == SCHEME_ANY) &&
           pattern_covers(&have->host, &want->host);
}

static bool may_ask(const struct text_list *have, const char *path)
{
    if (list_has(have, path))
        return true;
    for (size_t i = 0; i < have->count && !strchr(path, '*'); i++) {
        if (path_pattern_match(have->items[i], path))
            return true;
    }
    return false;
}

/* What is in both; no list is all. Negative for no memory, 1 where nothing is in both. */
static int intersect(struct text_list *out, const struct text_list *have,
                     const struct text_list *want, bool paths, struct err *err)
{
    if (!have->count || !want->count)
        return list_copy(out, have->count ? have : want, err);
    for (size_t i = 0; i < want->count; i++) {
        bool in = paths ? may_ask(have, want->items[i]) : list_has(have, want->items[i]);
        int r = in ? list_add(out, want->items[i], err) : 0;
        if (r < 0)
            return r;
    }
    return out->count == 0;
}

static uint64_t lower(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static bool has_text(const struct egress *e, const char *text)
{
    for (size_t i = 0; i < e->rule_count; i++) {
        if (strcmp(e->rules[i].text, text) == 0)
            return true;
    }
    return false;
}

/* None is none here: a rule that does not say has what it was made of. */
static int derive_pass(struct text_list *out, const struct egress_rule *have,
                       const struct egress_rule *want, struct err *err)
{
    if (!want->pass.count)
        return list_copy(out, &have->pass, err);
    int r = 0;
    for (size_t i = 0; r == 0 && i < want->pass.count; i++)
        if (list_has(&have->pass, want->pass.items[i]))
            r = list_add(out, want->pass.items[i], err);
    return r;
}

int rule_derive(struct egress *next, const struct egress_rule *have, const struct egress_rule *want,
                struct err *err)
{
    __attribute__((cleanup(rule_done))) struct egress_rule rule = {
        .host = want->host,
        .scheme = want->scheme,
        .port = want->port,
        .pinned = have->pinned,
        .address = have->address,
        .upload = lower(have->upload, want->upload),
        .max_connections = lower(have->max_connections, want->max_connections),
        .requests = lower(have->requests, want->requests),
        .origin = want->origin,
    };
    int r = intersect(&rule.methods, &have->methods, &want->methods, false, err);
    if (r == 0)
        r = intersect(&rule.paths, &have->paths, &want->paths, true, err);
    if (r == 0)
        r = derive_pass(&rule.pass, have, want, err);
    if (r == 0)
        r = rule_make_text(&rule, err);
    if (r == 0)
        r = rule_share_budget(&rule, have, err);
    if (r != 0)
        return r;
    return has_text(next, rule.text) ? 0 : rule_insert(next, &rule, err);
}

/* Is everything that the request lists somewhere among the rules that lead there? */
static const char *beyond(const struct policy *p, const struct egress_rule *want)
{
    const struct text_list *lists[] = {&want->methods, &want->paths};
    for (size_t l = 0; l < ARRAY_LEN(lists); l++) {
        for (size_t i = 0; i < lists[l]->count; i++) {
            bool found = false;
            for (size_t k = 0; k < p->egress.rule_count && !found; k++) {
                const struct egress_rule *have = &p->egress.rules[k];
                const char *item = lists[l]->items[i];
                found = rule_reaches(have, want) &&
                        (l == 0 ? !have->methods.count || list_has(&have->methods, item)
                                : !have->paths.count || may_ask(&have->paths, item));
            }
            if (!found)
                return lists[l]->items[i];
        }
    }
    return NULL;
}

static bool wants_more(const struct egress_rule *have, const struct egress_rule *want)
{
    for (size_t i = 0; i < want->pass.count; i++)
        if (!list_has(&have->pass, want->pass.items[i]))
            return true;
    /* Unlimited is what stands there when nothing was said. */
    return (want->upload != POLICY_UNLIMITED && want->upload > have->upload) ||
           (want->max_connections != POLICY_UNLIMITED &&
            want->max_connections > have->max_connections) ||
           (want->requests != POLICY_UNLIMITED && want->requests > have->requests);
}

bool rule_other_address(const struct egress_rule *have, const struct egress_rule *want)
{
    return want->pinned && (!have->pinned || !host_equal(&have->address, &want->address));
}

static int narrow(const struct policy *p, const struct egress_rule *want, struct egress *next,
                  struct err *err)
{
    bool any = false;
    const char *item = beyond(p, want);
    if (item)
        return refuse(item, "is not allowed there", err);
    for (size_t i = 0; i < p->egress.rule_count; i++) {
        const struct egress_rule *have = &p->egress.rules[i];
        if (!rule_reaches(have, want))
            continue;
        if (rule_other_address(have, want))
            return refuse(want->text, "leads to another address", err);
        if (wants_more(have, want))
            return refuse(want->text, "has a higher limit or lets more pass", err);
        int r = rule_derive(next, have, want, err);
        if (r < 0)
            return r;
        any |= r == 0;
    }
    return any ? 0 : refuse(want->text, "is not among its rules", err);
}

static int check_secrets(const struct policy *p, const struct policy *request, struct err *err)
{
    for (size_t i = 0; i < request->egress.secret_count; i++) {
        const struct egress_secret *want = &request->egress.secrets[i];
        bool found = false;
        for (size_t k = 0; k < p->egress.secret_count; k++)
            found |= secret_equal(&p->egress.secrets[k], want);
        if (found)
            continue;
        err_set(err, ERR_REFUSED,
                "a request may only tighten the policy: the secret %s is not among its secrets",
                want->name);
        return err_hint(err, "only the operator gives secrets, in the policy file or by an option");
    }
    return 0;
}

static int check_blocked(const struct policy *p, const struct policy *request, struct err *err)
{
    size_t count = p->egress.blocked_count;
    for (size_t i = 0; i < request->egress.blocked_count; i++)
        count += !blocked_find(&p->egress, &request->egress.blocked[i]);
    if (count <= EGRESS_BLOCKED_MAX)
        return 0;
    return err_set(err, ERR_LIMIT, "too many blocked hosts, expected at most %d",
                   EGRESS_BLOCKED_MAX);
}

int egress_tighten(const struct policy *p, const struct policy *request, struct egress *next,
                   struct err *err)
{
    int r = check_secrets(p, request, err);
    if (r == 0)
        r = egress_ask_tighten(&p->egress, &request->egress, err);
    if (r == 0)
        r = check_blocked(p, request, err);
    for (size_t i = 0; r == 0 && request->allow_given && i < request->egress.rule_count; i++) {
        if (!request->egress.rules[i].implied)
            r = narrow(p, &request->egress.rules[i], next, err);
    }
    return r;
}

static bool turned_off(const struct policy *request)
{
    return request->network_mode == NETWORK_OFF &&
           request->origin[FIELD_NETWORK_MODE].kind > ORIGIN_LEVEL;
}

static void swap_rules(struct egress *a, struct egress *b)
{
    struct egress_rule *rules = a->rules;
    size_t count = a->rule_count;
    a->rules = b->rules;
    a->rule_count = b->rule_count;
    b->rules = rules;
    b->rule_count = count;
}

static int take_blocked(struct policy *p, const struct policy *request, struct err *err)
{
    for (size_t i = 0; i < request->egress.blocked_count; i++) {
        cleanup_buf struct buf host;
        buf_init(&host, 512);
        pattern_text(&request->egress.blocked[i], &host);
        int r = policy_block(p, buf_text(&host), &request->blocked_from[i], err);
        if (r < 0)
            return r;
    }
    return 0;
}

int egress_take(struct policy *p, const struct policy *request, struct egress *next,
                struct err *err)
{
    if (turned_off(request)) {
        while (p->egress.rule_count)
            rule_done(&p->egress.rules[--p->egress.rule_count]);
        while (p->egress.secret_count)
            secret_done(&p->egress.secrets[--p->egress.secret_count]);
        egress_ask_forget(&p->egress);
    } else if (request->allow_given) {
        swap_rules(&p->egress, next);
    }
    if (!turned_off(request) && request->ask_from.kind > ORIGIN_LEVEL) {
        int r = egress_ask_copy(&p->egress, &request->egress, err);
        if (r < 0)
            return r;
        p->ask_from = request->ask_from;
    }
    return take_blocked(p, request, err);
}
