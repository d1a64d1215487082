/* The decision. Rules add up: what any rule allows is allowed; of several that allow it the most
 * specific one counts (an exact host before a pattern, a pin before none, then the order of the
 * rules), since its budgets and its pin apply. */
#include "network/decide.h"

#include "base/cleanup.h"
#include "network/doubt.h"
#include "os/weaken.h"

#include <string.h>

static bool list_has(const struct text_list *list, const char *text)
{
    for (size_t i = 0; i < list->count; i++)
        if (strcmp(list->items[i], text) == 0)
            return true;
    return false;
}

static bool any_path_matches(const struct text_list *paths, const char *path)
{
    for (size_t i = 0; path && i < paths->count; i++)
        if (path_pattern_match(paths->items[i], path))
            return true;
    return false;
}

static bool looks_inside(const struct egress_rule *r)
{
    return r->methods.count || r->paths.count;
}

/* C-10: what a secret is bound to speaks HTTP. */
static bool is_of_secret(const struct egress *e, const struct target *t)
{
    for (size_t i = 0; i < e->secret_count; i++)
        if (e->secrets[i].port == t->port && host_equal(&e->secrets[i].host, &t->host))
            return true;
    return false;
}

/* A rule on methods or paths is about requests: it never stands for a bare stream of bytes, in
 * which nobody would look for them. Nor does one without a scheme at the origin of a secret: a
 * credential of the client's own would pass there, after a moment of silence or behind an empty
 * line. */
static bool scheme_matches(const struct egress *e, const struct egress_rule *r,
                           const struct target *t)
{
    enum scheme asked = t->scheme;
    if (asked == SCHEME_TCP && (looks_inside(r) || (r->scheme == SCHEME_ANY && is_of_secret(e, t))))
        return false;
    return asked == SCHEME_ANY || r->scheme == SCHEME_ANY || r->scheme == asked;
}

/* How far a target gets with one rule. The order of the checks is the order of the reasons: the
 * furthest is the most useful one to tell. */
static enum deny_reason rule_judge(const struct egress *e, const struct egress_rule *r,
                                   const struct target *t)
{
    bool unknown = t->method[0] == '\0' && !t->path;
    if (!host_pattern_match(&r->host, &t->host))
        return DENY_NO_RULE;
    if (r->port != t->port)
        return DENY_PORT;
    if (!scheme_matches(e, r, t))
        return DENY_SCHEME;
    if (unknown)
        return DENY_NONE;
    if (r->methods.count && !list_has(&r->methods, t->method))
        return DENY_METHOD;
    if (r->paths.count && !any_path_matches(&r->paths, t->path))
        return DENY_PATH;
    if (looks_inside(r) && t->doubts && doubts_open(t->doubts, r)) /* N-16 */
        return DENY_AMBIGUOUS;
    return DENY_NONE;
}

static int progress(enum deny_reason reason)
{
    static const enum deny_reason order[] = {DENY_NO_RULE, DENY_PORT,      DENY_SCHEME, DENY_METHOD,
                                             DENY_PATH,    DENY_AMBIGUOUS, DENY_NONE};
    for (size_t i = 0; i < ARRAY_LEN(order); i++)
        if (order[i] == reason)
            return (int)i;
    return 0;
}

static bool more_specific(const struct egress_rule *a, const struct egress_rule *b)
{
    if (a->host.stars != b->host.stars)
        return a->host.stars < b->host.stars;
    if (a->host.bits != b->host.bits)
        return a->host.bits > b->host.bits;
    size_t len_a = strlen(a->host.host.text), len_b = strlen(b->host.host.text);
    if (len_a != len_b)
        return len_a > len_b;
    return a->pinned && !b->pinned;
}

static void judge(const struct egress *e, const struct target *t, struct verdict *ret)
{
    for (size_t i = 0; i < e->rule_count; i++) {
        enum deny_reason reason = rule_judge(e, &e->rules[i], t);
        int gain = progress(reason) - progress(ret->reason);
        bool better = gain > 0 || (gain == 0 && reason == DENY_NONE &&
                                   more_specific(&e->rules[i], &e->rules[ret->rule]));
        if (!better)
            continue;
        ret->reason = reason;
        ret->rule = i;
    }
}

void egress_decide(const struct egress *e, const struct target *t, struct verdict *ret)
{
    *ret = (struct verdict){.reason = DENY_NO_RULE, .rule = SIZE_MAX}; /* N-3 */
    if (egress_blocks(e, &t->host)) {
        ret->reason = DENY_BLOCKED;
        return;
    }
    judge(e, t, ret);
    if (ret->reason == DENY_NO_RULE && t->host.kind != HOST_NAME)
        ret->reason = DENY_LITERAL; /* N-4 */
    if (guard_left_out(GUARD_RULES) && ret->reason != DENY_NONE)
        *ret = (struct verdict){.reason = DENY_NONE, .rule = 0};
    ret->allow = ret->reason == DENY_NONE;
    if (ret->reason == DENY_AMBIGUOUS)
        deny_doubt_hint(doubts_open(t->doubts, &e->rules[ret->rule]), ret->hint);
    else if (!ret->allow)
        deny_hint(ret->reason, t, e->live, ret->hint);
}

/* On the other ports of a host that has a secret, too, no credential of the client's own passes
 * (C-10): where a rule says that HTTP is spoken there, it is looked at. */
static bool means_https(const struct egress *e, const struct host *host, uint16_t port)
{
    for (size_t i = 0; i < e->rule_count; i++) {
        const struct egress_rule *r = &e->rules[i];
        if (r->scheme == SCHEME_HTTPS && r->port == port && host_pattern_match(&r->host, host))
            return true;
    }
    return false;
}

bool egress_looks_inside(const struct egress *e, const struct host *host, uint16_t port)
{
    for (size_t i = 0; i < e->rule_count; i++) {
        const struct egress_rule *r = &e->rules[i];
        bool tls = r->scheme == SCHEME_HTTPS || r->scheme == SCHEME_ANY;
        if (tls && looks_inside(r) && r->port == port && host_pattern_match(&r->host, host))
            return true;
    }
    for (size_t i = 0; i < e->secret_count; i++) {
        const struct egress_secret *s = &e->secrets[i];
        if (host_equal(&s->host, host) &&
            ((s->scheme == SCHEME_HTTPS && s->port == port) || means_https(e, host, port)))
            return true;
    }
    return false;
}

bool egress_knows_name(const struct egress *e, const struct host *host)
{
    if (host->kind != HOST_NAME || egress_blocks(e, host))
        return false;
    for (size_t i = 0; i < e->rule_count; i++)
        if (host_pattern_match(&e->rules[i].host, host))
            return true;
    return egress_asks(e, host);
}
