/* Rules and secrets as part of a policy: by option or out of a document. */
#include "policy/egress/internal.h"
#include "policy/values.h"

#include <stdlib.h>
#include <string.h>

/* A rule turns the network on, unless a mode was chosen explicitly: that one stays, and
 * policy_validate reports the contradiction. */
static void turn_on(struct policy *p, const struct origin *origin)
{
    struct origin *mode = &p->origin[FIELD_NETWORK_MODE];
    if (mode->kind > ORIGIN_LEVEL && (mode->kind >= origin->kind || p->network_mode))
        return;
    p->network_mode = NETWORK_ALLOWLIST;
    *mode = *origin;
}

/* Origins stand in the order of the blocked hosts, which are sorted: find the new one. */
static int note_blocked(struct policy *p, const char *host, const struct origin *origin,
                        struct err *err)
{
    size_t count = p->egress.blocked_count;
    struct host_pattern pattern;
    size_t at = 0;
    struct origin *from = realloc(p->blocked_from, count * sizeof *from);
    if (!from)
        return err_memory(err);
    p->blocked_from = from;
    int r = host_pattern_parse(host, strlen(host), &pattern, err);
    while (r == 0 && at + 1 < count && !pattern_equal(&p->egress.blocked[at], &pattern))
        at++;
    memmove(from + at + 1, from + at, (count - 1 - at) * sizeof *from);
    from[at] = *origin;
    return r;
}

static int add_blocked(struct policy *p, const char *host, const struct origin *origin,
                       struct err *err)
{
    size_t before = p->egress.blocked_count;
    int r = egress_block(&p->egress, host, err);
    if (r == 0 && p->egress.blocked_count > before)
        r = note_blocked(p, host, origin, err);
    return r;
}

int policy_allow(struct policy *p, const char *spec, const struct origin *origin, struct err *err)
{
    int r = egress_allow(&p->egress, spec, origin, err);
    if (r < 0)
        return origin_blame(origin, "network.allow", err);
    p->allow_given = true;
    turn_on(p, origin);
    return 0;
}

int policy_block(struct policy *p, const char *host, const struct origin *origin, struct err *err)
{
    int r = add_blocked(p, host, origin, err);
    return r < 0 ? origin_blame(origin, "network.block", err) : 0;
}

int policy_secret(struct policy *p, const char *spec, const struct origin *origin, struct err *err)
{
    int r = egress_secret(&p->egress, spec, origin, err);
    if (r < 0)
        return origin_blame(origin, "credentials.secrets", err);
    turn_on(p, origin);
    return 0;
}

int policy_ask(struct policy *p, const char *pattern, const struct origin *origin, struct err *err)
{
    int r = 0;
    if (p->ask_from.kind < origin->kind)
        egress_ask_forget(&p->egress);
    if (p->ask_from.kind > origin->kind)
        return 0;
    if (pattern)
        r = egress_ask(&p->egress, pattern, err);
    p->egress.asks = true;
    p->ask_from = *origin;
    if (r < 0)
        return origin_blame(origin, "network.ask", err);
    turn_on(p, origin);
    return 0;
}

int policy_read_ask(struct policy *p, struct item_reader *r, const struct json *j)
{
    if (p->ask_from.kind > ORIGIN_FILE)
        return 0;
    egress_ask_forget(&p->egress);
    int n = egress_ask_read(r, j);
    p->ask_from = r->origin;
    if (n == 0 && p->egress.asks)
        turn_on(p, &r->origin);
    return n;
}

int policy_read_rule(struct policy *p, struct item_reader *r, const struct json *item)
{
    int n = item_read_rule(r, item);
    if (n == 0)
        turn_on(p, &r->origin);
    return n;
}

int policy_read_secret(struct policy *p, struct item_reader *r, const struct json *item)
{
    int n = item_read_secret(r, item);
    if (n == 0)
        turn_on(p, &r->origin);
    return n;
}

int policy_read_blocked(struct policy *p, struct item_reader *r, const struct json *item)
{
    size_t before = p->egress.blocked_count;
    int n = item_read_blocked(r, item);
    if (n == 0 && p->egress.blocked_count > before)
        n = note_blocked(p, json_string(item), &r->origin, r->err);
    return n;
}
