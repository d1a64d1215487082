/* The section `tools` of a policy document. */
#include "base/cleanup.h"
#include "base/quote.h"
#include "policy/keys.h"
#include "policy/tools/internal.h"

#include <string.h>

static int fail_at(struct item_reader *r, const struct json *j, const char *key)
{
    r->at = (struct item_place){json_line(j), json_column(j)};
    return err_wrap(r->err, "%s", key);
}

static int wrong_type(struct item_reader *r, const struct json *j, const char *key,
                      const char *expected)
{
    err_set(r->err, ERR_POLICY, "expected %s, found %s", expected, json_type_name(json_type(j)));
    return fail_at(r, j, key);
}

static int unknown_key(struct item_reader *r, const struct json *object, size_t i,
                       const char *section)
{
    key_unknown(section, json_key_at(object, i), r->err);
    r->at = (struct item_place){json_key_line_at(object, i), json_key_column_at(object, i)};
    return err_number(r->err);
}

static int read_value(struct item_reader *r, struct tool_argument *a, const struct json *j,
                      const char *what)
{
    if (json_type(j) != JSON_STRING)
        return wrong_type(r, j, what, "a pattern in quotes, or a list of them");
    return tool_argument_value(a, json_string(j), r->err) < 0 ? fail_at(r, j, what) : 0;
}

static int read_values(struct item_reader *r, struct tool_argument *a, const struct json *j,
                       const char *what)
{
    if (json_type(j) != JSON_ARRAY)
        return read_value(r, a, j, what);
    if (json_count(j) == 0) {
        err_set(r->err, ERR_POLICY, "the list is empty, expected at least one pattern");
        err_hint(r->err, "\"**\" stands for every value");
        return fail_at(r, j, what);
    }
    int n = 0;
    for (size_t i = 0; n == 0 && i < json_count(j); i++)
        n = read_value(r, a, json_at(j, i), what);
    return n;
}

static int read_arguments(struct item_reader *r, struct tool_rule *rule, const struct json *j,
                          const char *what)
{
    if (json_type(j) != JSON_OBJECT)
        return wrong_type(r, j, what, "names and patterns such as {path: \"/data/**\"}");
    if (json_count(j) == 0) {
        err_set(r->err, ERR_POLICY, "arguments is empty, expected at least one");
        err_hint(r->err, "leave the key out where all are meant");
        return fail_at(r, j, what);
    }
    for (size_t i = 0; i < json_count(j); i++) {
        struct tool_argument *a = NULL;
        const struct json *value = json_value_at(j, i);
        if (tool_rule_argument(rule, json_key_at(j, i), &a, r->err) < 0)
            return fail_at(r, value, what);
        int n = read_values(r, a, value, what);
        if (n < 0)
            return n;
    }
    return 0;
}

static int read_name(struct item_reader *r, struct tool_rule *rule, const struct json *j,
                     const char *what)
{
    if (json_type(j) != JSON_STRING)
        return wrong_type(r, j, what, "the name of a tool such as read_*");
    const char *name = json_string(j);
    if (!*name)
        err_set(r->err, ERR_POLICY, "the name of a tool is empty");
    else if (tool_pattern_check(name, r->err) == 0) {
        rule->name = strdup(name);
        return rule->name ? 0 : err_memory(r->err);
    }
    return fail_at(r, j, what);
}

static int read_mapping(struct item_reader *r, struct tool_rule *rule, const struct json *j,
                        const char *what)
{
    int n = 0;
    for (size_t i = 0; n == 0 && i < json_count(j); i++) {
        const char *key = json_key_at(j, i);
        const struct json *value = json_value_at(j, i);
        if (strcmp(key, "name") == 0)
            n = read_name(r, rule, value, what);
        else if (strcmp(key, "arguments") == 0)
            n = read_arguments(r, rule, value, what);
        else
            n = unknown_key(r, j, i, what);
    }
    if (n == 0 && !rule->name) {
        err_set(r->err, ERR_POLICY, "name is missing");
        n = fail_at(r, j, what);
    }
    return n;
}

static int read_rule(struct item_reader *r, struct tools *t, enum tool_verdict verdict,
                     const struct json *j, const char *what)
{
    r->origin.line = json_line(j);
    r->origin.column = json_column(j);
    struct tool_rule rule = {.verdict = verdict, .origin = r->origin};
    int n;
    if (json_type(j) == JSON_STRING)
        n = tool_rule_parse(&rule, json_string(j), r->err) < 0 ? fail_at(r, j, what) : 0;
    else if (json_type(j) == JSON_OBJECT)
        n = read_mapping(r, &rule, j, what);
    else
        n = wrong_type(r, j, what, "the name of a tool such as read_*, or a mapping");
    if (n == 0)
        return tools_insert(t, &rule, r->err) < 0 ? fail_at(r, j, what) : 0;
    tool_rule_done(&rule);
    return n;
}

static int read_rules(struct item_reader *r, struct tools *t, enum tool_verdict verdict,
                      const struct json *j)
{
    static const char *const names[] = {"tools.allow", "tools.ask", "tools.deny"};
    if (json_type(j) != JSON_ARRAY)
        return wrong_type(r, j, names[verdict], "a list of tools such as [read_*]");
    int n = 0;
    for (size_t i = 0; n == 0 && i < json_count(j); i++)
        n = read_rule(r, t, verdict, json_at(j, i), names[verdict]);
    return n;
}

static int read_callback(struct item_reader *r, struct tools *t, const struct json *j)
{
    static const char what[] = "tools.callbacks";
    struct quoted q;
    if (json_type(j) != JSON_STRING)
        return wrong_type(r, j, what, "roots, sampling or elicitation");
    for (unsigned i = 0; i < CALLBACK_COUNT; i++) {
        if (strcmp(json_string(j), tool_callback_name(i)) == 0) {
            t->callbacks |= 1u << i;
            return 0;
        }
    }
    err_set(r->err, ERR_POLICY, "unknown value %s, expected roots, sampling or elicitation",
            quote(&q, json_string(j)));
    return fail_at(r, j, what);
}

static int read_callbacks(struct item_reader *r, struct tools *t, const struct json *j)
{
    if (json_type(j) != JSON_ARRAY)
        return wrong_type(r, j, "tools.callbacks", "a list such as [roots]");
    r->origin.line = json_line(j);
    r->origin.column = json_column(j);
    t->callbacks_from = r->origin;
    int n = 0;
    for (size_t i = 0; n == 0 && i < json_count(j); i++)
        n = read_callback(r, t, json_at(j, i));
    return n;
}

static int read_member(struct item_reader *r, struct tools *t, const struct json *section, size_t i)
{
    const char *key = json_key_at(section, i);
    const struct json *value = json_value_at(section, i);
    for (enum tool_verdict v = 0; v < TOOL_VERDICT_COUNT; v++) {
        if (strcmp(key, tool_verdict_name(v)) == 0)
            return read_rules(r, t, v, value);
    }
    if (strcmp(key, "callbacks") == 0)
        return read_callbacks(r, t, value);
    return unknown_key(r, section, i, "tools");
}

int policy_read_tools(struct policy *p, struct item_reader *r, const struct json *section)
{
    if (json_type(section) != JSON_OBJECT)
        return wrong_type(r, section, "tools", "keys and values");
    int n = 0;
    p->tools.given = true;
    for (size_t i = 0; n == 0 && i < json_count(section); i++)
        n = read_member(r, &p->tools, section, i);
    return n;
}
