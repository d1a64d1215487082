/* One call against the rules. */
#include "policy/tools/internal.h"

#include <stdlib.h>
#include <string.h>

typedef bool (*pattern_fn)(const char *pattern, const char *value);

static bool some_pattern(const struct text_list *patterns, const char *value, pattern_fn matches)
{
    for (size_t i = 0; i < patterns->count; i++) {
        if (matches(patterns->items[i], value))
            return true;
    }
    return false;
}

/* Numbers, true, false and null are compared as they are written. */
static bool scalar_matches(const struct text_list *patterns, const struct json *j,
                           pattern_fn matches)
{
    if (json_type(j) == JSON_STRING)
        return some_pattern(patterns, json_string(j), matches);
    cleanup_buf struct buf text;
    struct json_writer w;
    buf_init(&text, 64);
    jw_init(&w, &text, false);
    jw_json(&w, j);
    return !text.failed && some_pattern(patterns, buf_text(&text), matches);
}

/* TR-3. What an object means is the server's business: only `**` grants one. */
static bool grants_value(const struct text_list *patterns, const struct json *j)
{
    if (list_has(patterns, "**"))
        return true;
    if (json_type(j) == JSON_OBJECT)
        return false;
    if (json_type(j) != JSON_ARRAY)
        return scalar_matches(patterns, j, tool_value_grants);
    for (size_t i = 0; i < json_count(j); i++) {
        if (!grants_value(patterns, json_at(j, i)))
            return false;
    }
    return json_count(j) > 0;
}

static bool touches_value(const struct text_list *patterns, const struct json *j)
{
    bool found = false;
    if (json_type(j) == JSON_ARRAY) {
        for (size_t i = 0; !found && i < json_count(j); i++)
            found = touches_value(patterns, json_at(j, i));
    } else if (json_type(j) == JSON_OBJECT) {
        for (size_t i = 0; !found && i < json_count(j); i++)
            found = some_pattern(patterns, json_key_at(j, i), tool_value_touches) ||
                    touches_value(patterns, json_value_at(j, i));
    } else {
        found = scalar_matches(patterns, j, tool_value_touches);
    }
    return found;
}

/* Every argument of this name must match, and there must be one. */
static bool grants_argument(const struct tool_argument *a, const struct json *arguments)
{
    bool seen = false;
    for (size_t i = 0; i < json_count(arguments); i++) {
        if (!tool_name_match(a->name, json_key_at(arguments, i)))
            continue;
        if (!grants_value(&a->values, json_value_at(arguments, i)))
            return false;
        seen = true;
    }
    return seen;
}

static bool touches_argument(const struct tool_argument *a, const struct json *arguments)
{
    for (size_t i = 0; i < json_count(arguments); i++) {
        if (tool_name_match(a->name, json_key_at(arguments, i)) &&
            touches_value(&a->values, json_value_at(arguments, i)))
            return true;
    }
    return false;
}

static bool all_arguments(const struct tool_rule *r, const struct json *arguments,
                          bool (*matches)(const struct tool_argument *, const struct json *))
{
    for (size_t i = 0; i < r->argument_count; i++) {
        if (!arguments || !matches(&r->arguments[i], arguments))
            return false;
    }
    return true;
}

static const struct tool_rule *find_touching(const struct tools *t, enum tool_verdict verdict,
                                             const char *name, const struct json *arguments)
{
    for (size_t i = 0; i < t->count; i++) {
        const struct tool_rule *r = &t->rules[i];
        if (r->verdict == verdict && tool_name_match(r->name, name) &&
            all_arguments(r, arguments, touches_argument))
            return r;
    }
    return NULL;
}

/* An ask rule grants as well: what it grants is asked about. */
static const struct tool_rule *find_grant(const struct tools *t, const char *name,
                                          const struct json *arguments,
                                          const struct tool_rule **ret_near)
{
    for (size_t i = 0; i < t->count; i++) {
        const struct tool_rule *r = &t->rules[i];
        if (r->verdict == TOOL_DENY || !tool_name_match(r->name, name))
            continue;
        if (all_arguments(r, arguments, grants_argument))
            return r;
        *ret_near = r;
    }
    return NULL;
}

struct tool_decision tools_decide(const struct tools *t, const char *name,
                                  const struct json *arguments)
{
    struct tool_decision d = {.verdict = TOOL_ALLOW};
    if (!t->given)
        return d;
    d.verdict = TOOL_DENY;
    if ((d.rule = find_touching(t, TOOL_DENY, name, arguments)))
        return d;
    const struct tool_rule *grant = find_grant(t, name, arguments, &d.near);
    if (!grant)
        return d;
    d.near = NULL;
    d.rule = find_touching(t, TOOL_ASK, name, arguments);
    d.verdict = d.rule ? TOOL_ASK : TOOL_ALLOW;
    if (!d.rule)
        d.rule = grant;
    return d;
}

bool tools_shows(const struct tools *t, const char *name)
{
    bool granted = !t->given;
    for (size_t i = 0; i < t->count; i++) {
        const struct tool_rule *r = &t->rules[i];
        if (!tool_name_match(r->name, name))
            continue;
        if (r->verdict != TOOL_DENY)
            granted = true;
        else if (r->argument_count == 0)
            return false;
    }
    return granted;
}
