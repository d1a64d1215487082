/* A request may name fewer tools than the operator allows, and may be stricter about them. */
#include "base/quote.h"
#include "policy/tools/internal.h"

#include <string.h>

static bool covers_values(const struct text_list *have, const struct text_list *want)
{
    for (size_t i = 0; i < want->count; i++) {
        bool found = false;
        for (size_t k = 0; !found && k < have->count; k++)
            found = tool_value_covers(have->items[k], want->items[i]);
        if (!found)
            return false;
    }
    return true;
}

/* What the operator says about an argument, the request must say at least as strictly. */
static bool covers_argument(const struct tool_argument *have, const struct tool_rule *want)
{
    for (size_t i = 0; i < want->argument_count; i++) {
        const struct tool_argument *a = &want->arguments[i];
        if (strcmp(a->name, have->name) == 0)
            return covers_values(&have->values, &a->values);
    }
    return false;
}

static bool covers(const struct tool_rule *have, const struct tool_rule *want)
{
    if (have->verdict == TOOL_DENY || !tool_name_covers(have->name, want->name))
        return false;
    for (size_t i = 0; i < have->argument_count; i++) {
        if (!covers_argument(&have->arguments[i], want))
            return false;
    }
    return true;
}

static int check_rule(const struct tools *have, const struct tool_rule *want, struct err *err)
{
    struct quoted q;
    for (size_t i = 0; i < have->count; i++) {
        if (covers(&have->rules[i], want))
            return 0;
    }
    err_set(err, ERR_REFUSED,
            "a request may only tighten the policy: no rule of tools.allow or tools.ask covers %s",
            quote(&q, want->text));
    return err_hint(err, "the operator can allow the tool in the policy file");
}

static int check_callbacks(const struct tools *have, const struct tools *want, struct err *err)
{
    for (unsigned i = 0; i < CALLBACK_COUNT; i++) {
        if (!(want->callbacks & ~have->callbacks & 1u << i))
            continue;
        err_set(err, ERR_REFUSED,
                "a request may only tighten the policy: %s is not among tools.callbacks",
                tool_callback_name(i));
        return err_hint(err, "the operator can add it in the policy file");
    }
    return 0;
}

/* Denials come on top; what the operator asks about stays. */
static bool stays(const struct tools *have, const struct tool_rule *r)
{
    return !have->given || r->verdict != TOOL_ALLOW;
}

int tools_tighten(const struct tools *have, const struct tools *want, struct err *err)
{
    if (!want->given)
        return 0;
    size_t count = want->count;
    int n = check_callbacks(have, want, err);
    for (size_t i = 0; n == 0 && i < have->count; i++)
        count += stays(have, &have->rules[i]);
    if (n == 0 && count > TOOLS_RULES_MAX)
        n = err_set(err, ERR_LIMIT, "too many rules about tools, expected at most %d",
                    TOOLS_RULES_MAX);
    for (size_t i = 0; n == 0 && have->given && i < want->count; i++) {
        if (want->rules[i].verdict != TOOL_DENY)
            n = check_rule(have, &want->rules[i], err);
    }
    return n;
}

static int add_copy(struct tools *to, const struct tool_rule *from, struct err *err)
{
    struct tool_rule copy;
    int n = tool_rule_copy(&copy, from, err);
    return n < 0 ? n : tools_insert(to, &copy, err);
}

int tools_take(struct tools *have, const struct tools *want, struct err *err)
{
    struct tools next = {.given = true, .callbacks = want->callbacks};
    int n = 0;
    if (!want->given)
        return 0;
    next.callbacks_from = want->callbacks_from;
    for (size_t i = 0; n == 0 && i < want->count; i++)
        n = add_copy(&next, &want->rules[i], err);
    for (size_t i = 0; n == 0 && i < have->count; i++) {
        if (stays(have, &have->rules[i]))
            n = add_copy(&next, &have->rules[i], err);
    }
    if (n < 0) {
        tools_done(&next);
        return n;
    }
    tools_done(have);
    *have = next;
    return 0;
}
