/* Checks rules that are to replace others in a running sandbox against what the operator allows. */
#include "policy/egress/live.h"

#include "base/cleanup.h"
#include "policy/egress/internal.h"
#include "policy/egress/tighten.h"

#include <string.h>

static int refuse_address(const struct egress_rule *want, struct err *err)
{
    err_set(err, ERR_REFUSED, "%s: only the operator may say which address a name has", want->text);
    return err_hint(err, "leave =ADDRESS out, or put the rule into the template");
}

static int refuse_local(const struct egress_rule *want, struct err *err)
{
    err_set(err, ERR_REFUSED, "%s: an address that is %s, which without a pin is not opened",
            want->text, pattern_is_local(&want->host));
    return err_hint(err, "pin it in network.allow of the template");
}

/* Positive: no rule of the operator allows it, and the caller may not go beyond those (`beyond` is
 * false). */
static int allow_one(const struct egress *base, const struct egress_rule *want, bool beyond,
                     struct egress *ret, struct err *err)
{
    bool any = false;
    for (size_t i = 0; i < base->rule_count; i++) {
        if (!rule_reaches(&base->rules[i], want))
            continue;
        if (rule_other_address(&base->rules[i], want))
            return refuse_address(want, err);
        int r = rule_derive(ret, &base->rules[i], want, err);
        if (r < 0)
            return r;
        any |= r == 0;
    }
    if (any || !beyond)
        return any ? 0 : 1;
    if (want->pinned)
        return refuse_address(want, err);
    if (rule_opens_nothing(want))
        return refuse_local(want, err);
    int r = rule_derive(ret, want, want, err);
    return r > 0 ? err_set(err, ERR_INTERNAL, "%s allows nothing", want->text) : r;
}

static int refuse_beyond(const char *text, struct err *err)
{
    err_set(err, ERR_REFUSED, "%s: the template allows no such host", text);
    return err_hint(err, "hosts beyond the template's need an operator key");
}

static int allow_text(const struct egress *base, const char *text, bool beyond, struct egress *ret,
                      struct err *err)
{
    size_t allowed = 0;
    struct origin origin = {.kind = ORIGIN_OPTION, .name = "network.allow"};
    struct egress wanted;
    egress_init(&wanted);
    int r = egress_allow(&wanted, text, &origin, err);
    for (size_t i = 0; r >= 0 && i < wanted.rule_count; i++) {
        r = allow_one(base, &wanted.rules[i], beyond, ret, err);
        allowed += r == 0;
    }
    egress_done(&wanted);
    if (r >= 0 && !allowed)
        return refuse_beyond(text, err);
    return r < 0 ? r : 0;
}

static int keep_blocked(const struct egress *base, struct egress *ret, struct err *err)
{
    for (size_t i = 0; i < base->blocked_count; i++) {
        cleanup_buf struct buf host;
        buf_init(&host, 512);
        pattern_text(&base->blocked[i], &host);
        if (egress_block(ret, buf_text(&host), err) < 0)
            return err_number(err);
    }
    return 0;
}

static int keep_rules(const struct egress *base, struct egress *ret, struct err *err)
{
    int r = 0;
    for (size_t i = 0; r >= 0 && i < base->rule_count; i++)
        r = rule_derive(ret, &base->rules[i], &base->rules[i], err);
    return r < 0 ? r : 0;
}

static int each_text(const struct json *list, const char *what, struct err *err)
{
    if (!list || json_type(list) == JSON_NULL)
        return 0;
    bool good = json_type(list) == JSON_ARRAY;
    for (size_t i = 0; good && i < json_count(list); i++)
        good = json_string(json_at(list, i)) != NULL;
    return good ? 0 : err_set(err, ERR_USAGE, "network.%s: expected a list of hosts", what);
}

int egress_live(const struct egress *base, const struct json *rules, struct egress *ret,
                struct err *err)
{
    const struct json *allow = json_get(rules, "allow"), *block = json_get(rules, "block");
    const struct json *beyond = json_get(rules, "beyond");
    bool may = beyond && json_type(beyond) == JSON_BOOL && json_bool(beyond);
    if (json_type(rules) != JSON_OBJECT)
        return err_set(err, ERR_USAGE, "network: expected allow and block");
    ret->live = true;
    ret->upload = base->upload;
    ret->max_connections = base->max_connections;
    ret->requests = base->requests;
    int r = each_text(allow, "allow", err);
    if (r == 0)
        r = each_text(block, "block", err);
    if (r == 0)
        r = keep_blocked(base, ret, err);
    if (r == 0 && !allow)
        r = keep_rules(base, ret, err);
    for (size_t i = 0; r == 0 && allow && i < json_count(allow); i++)
        r = allow_text(base, json_string(json_at(allow, i)), may, ret, err);
    for (size_t i = 0; r == 0 && block && i < json_count(block); i++)
        r = egress_block(ret, json_string(json_at(block, i)), err);
    return r;
}
