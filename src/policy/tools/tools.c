/* The list of rules about tools: how it is made, kept in order and given away. */
#include "base/cleanup.h"
#include "base/quote.h"
#include "policy/tools/internal.h"
#include "policy/values.h"

#include <stdlib.h>
#include <string.h>

void tool_rule_done(struct tool_rule *r)
{
    for (size_t i = 0; i < r->argument_count; i++) {
        free(r->arguments[i].name);
        list_done(&r->arguments[i].values);
    }
    free(r->arguments);
    free(r->name);
    free(r->text);
    *r = (struct tool_rule){0};
}

void tools_done(struct tools *t)
{
    for (size_t i = 0; i < t->count; i++)
        tool_rule_done(&t->rules[i]);
    free(t->rules);
    *t = (struct tools){0};
}

int tool_rule_argument(struct tool_rule *r, const char *name, struct tool_argument **ret,
                       struct err *err)
{
    if (!*name)
        return err_set(err, ERR_POLICY, "the name of an argument is empty");
    if (r->argument_count == TOOLS_ARGUMENTS_MAX)
        return err_set(err, ERR_LIMIT, "too many arguments in one rule, expected at most %d",
                       TOOLS_ARGUMENTS_MAX);
    int n = tool_pattern_check(name, err);
    if (n < 0)
        return n;
    struct tool_argument *more =
        realloc(r->arguments, (r->argument_count + 1) * sizeof *r->arguments);
    if (!more)
        return err_sys(err, "policy");
    r->arguments = more;
    /* Sorted by name, so that the same rule has one text. */
    size_t at = 0;
    while (at < r->argument_count && strcmp(more[at].name, name) < 0)
        at++;
    char *copy = strdup(name);
    if (!copy)
        return err_memory(err);
    memmove(more + at + 1, more + at, (r->argument_count - at) * sizeof *more);
    more[at] = (struct tool_argument){.name = copy};
    r->argument_count++;
    *ret = &more[at];
    return 0;
}

int tool_argument_value(struct tool_argument *a, const char *pattern, struct err *err)
{
    int n = tool_pattern_check(pattern, err);
    if (n < 0 || list_has(&a->values, pattern))
        return n;
    if (a->values.count == TOOLS_VALUES_MAX)
        return err_set(err, ERR_LIMIT, "too many patterns for one argument, expected at most %d",
                       TOOLS_VALUES_MAX);
    char **items = realloc(a->values.items, (a->values.count + 1) * sizeof *items);
    char *copy = items ? strdup(pattern) : NULL;
    if (items)
        a->values.items = items;
    if (!copy)
        return err_sys(err, "policy");
    size_t at = 0;
    while (at < a->values.count && strcmp(items[at], pattern) < 0)
        at++;
    memmove(items + at + 1, items + at, (a->values.count - at) * sizeof *items);
    items[at] = copy;
    a->values.count++;
    return 0;
}

int tool_rule_parse(struct tool_rule *r, const char *spec, struct err *err)
{
    struct quoted q;
    size_t name_len = strcspn(spec, ":");
    const char *argument = spec[name_len] ? spec + name_len + 1 : NULL;
    const char *equals = argument ? strchr(argument, '=') : NULL;
    if (name_len == 0 || (argument && (!equals || equals == argument))) {
        err_set(err, ERR_POLICY, "%s: expected NAME or NAME:ARGUMENT=PATTERN", quote(&q, spec));
        return err_hint(err, "a rule with more than that is a mapping in a policy file");
    }
    r->name = strndup(spec, name_len);
    if (!r->name)
        return err_memory(err);
    int n = tool_pattern_check(r->name, err);
    if (n < 0 || !argument)
        return n;
    cleanup_free char *name = strndup(argument, (size_t)(equals - argument));
    struct tool_argument *a = NULL;
    if (!name)
        return err_memory(err);
    n = tool_rule_argument(r, name, &a, err);
    return n < 0 ? n : tool_argument_value(a, equals + 1, err);
}

int tool_rule_copy(struct tool_rule *to, const struct tool_rule *from, struct err *err)
{
    *to = (struct tool_rule){.verdict = from->verdict, .origin = from->origin};
    to->name = strdup(from->name);
    int n = to->name ? 0 : err_memory(err);
    for (size_t i = 0; n == 0 && i < from->argument_count; i++) {
        const struct tool_argument *a = &from->arguments[i];
        struct tool_argument *copy = NULL;
        n = tool_rule_argument(to, a->name, &copy, err);
        for (size_t k = 0; n == 0 && k < a->values.count; k++)
            n = tool_argument_value(copy, a->values.items[k], err);
    }
    if (n < 0)
        tool_rule_done(to);
    return n;
}

static int make_text(struct tool_rule *r, struct err *err)
{
    cleanup_buf struct buf text;
    struct json_writer w;
    struct json *parsed = NULL;
    buf_init(&text, (size_t)32 << 20);
    jw_init(&w, &text, false);
    tool_rule_show(r, &w);
    if (text.failed)
        return err_set(err, ERR_LIMIT, "a rule about tools is too long");
    /* A text loses its quotes again, a mapping stays what it is. */
    if (buf_text(&text)[0] == '"' && json_parse(buf_text(&text), text.len, NULL, &parsed, err) < 0)
        return -ERR_INTERNAL;
    r->text = strdup(parsed ? json_string(parsed) : buf_text(&text));
    json_free(parsed);
    return r->text ? 0 : err_sys(err, "policy");
}

static int compare(const struct tool_rule *a, const struct tool_rule *b)
{
    return a->verdict != b->verdict ? (int)a->verdict - (int)b->verdict : strcmp(a->text, b->text);
}

static int place(struct tools *t, struct tool_rule *r, struct err *err)
{
    size_t at = 0;
    while (at < t->count && compare(&t->rules[at], r) < 0)
        at++;
    if (at < t->count && compare(&t->rules[at], r) == 0) {
        if (r->origin.kind > t->rules[at].origin.kind)
            t->rules[at].origin = r->origin;
        tool_rule_done(r);
        return 0;
    }
    if (t->count == TOOLS_RULES_MAX)
        return err_set(err, ERR_LIMIT, "too many rules about tools, expected at most %d",
                       TOOLS_RULES_MAX);
    struct tool_rule *more = realloc(t->rules, (t->count + 1) * sizeof *more);
    if (!more)
        return err_memory(err);
    t->rules = more;
    memmove(more + at + 1, more + at, (t->count - at) * sizeof *more);
    more[at] = *r;
    t->count++;
    *r = (struct tool_rule){0};
    return 0;
}

int tools_insert(struct tools *t, struct tool_rule *r, struct err *err)
{
    int n = make_text(r, err);
    if (n == 0)
        n = place(t, r, err);
    tool_rule_done(r);
    if (n == 0)
        t->given = true;
    return n;
}

/* "NAME" or "NAME:ARGUMENT=PATTERN". */
static int tools_add(struct tools *t, enum tool_verdict verdict, const char *spec,
                     const struct origin *origin, struct err *err)
{
    struct tool_rule r = {.verdict = verdict, .origin = *origin};
    int n = tool_rule_parse(&r, spec, err);
    if (n == 0)
        return tools_insert(t, &r, err);
    tool_rule_done(&r);
    return n;
}

int policy_tool(struct policy *p, enum tool_verdict verdict, const char *spec,
                const struct origin *origin, struct err *err)
{
    static const char *const fields[] = {"tools.allow", "tools.ask", "tools.deny"};
    int r = tools_add(&p->tools, verdict, spec, origin, err);
    return r < 0 ? origin_blame(origin, fields[verdict], err) : 0;
}
