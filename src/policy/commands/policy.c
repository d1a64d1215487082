/* The `commands` section: out of a document, into a document, and laid over another one. */
#include "base/cleanup.h"
#include "base/quote.h"
#include "policy/commands/internal.h"
#include "policy/keys.h"

#include <string.h>

static int fail_at(struct item_reader *r, unsigned line, unsigned column, const char *key)
{
    r->at = (struct item_place){line, column};
    return *key ? err_wrap(r->err, "commands.%s", key) : err_wrap(r->err, "commands");
}

static int wrong_type(struct item_reader *r, const struct json *j, const char *key,
                      const char *expected)
{
    err_set(r->err, ERR_POLICY, "expected %s, found %s", expected, json_type_name(json_type(j)));
    return fail_at(r, json_line(j), json_column(j), key);
}

static int read_rule(struct item_reader *r, const struct json *j, const char *key,
                     enum command_rule *ret, struct origin *ret_from)
{
    struct quoted q;
    if (json_type(j) != JSON_STRING)
        return wrong_type(r, j, key, "allow, ask or deny");
    if (command_rule_parse(json_string(j), ret) < 0) {
        err_set(r->err, ERR_POLICY, "unknown value %s, expected allow, ask or deny",
                quote(&q, json_string(j)));
        return fail_at(r, json_line(j), json_column(j), key);
    }
    *ret_from = r->origin;
    ret_from->line = json_line(j);
    ret_from->column = json_column(j);
    return 0;
}

static int read_list(struct commands *c, struct item_reader *r, const struct json *j,
                     const char *key, enum command_rule rule)
{
    if (json_type(j) != JSON_ARRAY)
        return wrong_type(r, j, key, "a list of commands such as [\"git push **\"]");
    for (size_t i = 0; i < json_count(j); i++) {
        const struct json *item = json_at(j, i);
        struct origin origin = r->origin;
        origin.line = json_line(item);
        origin.column = json_column(item);
        if (json_type(item) != JSON_STRING)
            return wrong_type(r, item, key, "a command such as \"git push **\"");
        if (commands_add(c, rule, json_string(item), &origin, r->err) < 0)
            return fail_at(r, json_line(item), json_column(item), key);
    }
    return 0;
}

static int read_member(struct commands *c, struct item_reader *r, const struct json *section,
                       size_t i)
{
    const char *key = json_key_at(section, i);
    const struct json *value = json_value_at(section, i);
    enum command_rule rule;
    if (strcmp(key, "default") == 0)
        return read_rule(r, value, key, &c->by_default, &c->default_from);
    if (strcmp(key, "dangerous") == 0)
        return read_rule(r, value, key, &c->dangerous, &c->dangerous_from);
    if (command_rule_parse(key, &rule) == 0)
        return read_list(c, r, value, key, rule);
    key_unknown("commands", key, r->err);
    r->at = (struct item_place){json_key_line_at(section, i), json_key_column_at(section, i)};
    return -(int)ERR_POLICY;
}

static int read_section(struct commands *c, struct item_reader *r, const struct json *section)
{
    if (json_type(section) != JSON_OBJECT)
        return wrong_type(r, section, "", "keys and values such as dangerous: ask");
    c->given = true;
    for (size_t i = 0; i < json_count(section); i++) {
        int n = read_member(c, r, section, i);
        if (n < 0)
            return n;
    }
    return 0;
}

int policy_read_commands(struct policy *p, struct item_reader *r, const struct json *section)
{
    return read_section(&p->commands, r, section);
}

int commands_read(struct commands *c, const struct json *section, struct err *err)
{
    struct err ignored = ERR_INIT;
    struct item_reader r = {.origin = {.kind = ORIGIN_FILE}, .err = err ? err : &ignored};
    return read_section(c, &r, section);
}

int policy_dangerous(struct policy *p, const char *text, const struct origin *origin,
                     struct err *err)
{
    struct quoted q;
    enum command_rule rule;
    if (command_rule_parse(text, &rule) < 0)
        return err_set(err, ERR_USAGE, "%s: unknown value %s, expected allow, ask or deny",
                       origin->name, quote(&q, text));
    if (origin->kind < p->commands.dangerous_from.kind)
        return 0;
    p->commands.given = true;
    p->commands.dangerous = rule;
    p->commands.dangerous_from = *origin;
    return 0;
}

static void write_list(const struct commands *c, enum command_rule rule, struct json_writer *w)
{
    jw_key(w, command_rule_name(rule));
    jw_array_begin(w);
    for (size_t i = 0; i < c->count; i++)
        if (c->patterns[i].rule == rule)
            jw_string(w, c->patterns[i].text);
    jw_array_end(w);
}

void commands_write(const struct commands *c, struct json_writer *w)
{
    jw_object_begin(w);
    write_list(c, COMMAND_ALLOW, w);
    write_list(c, COMMAND_ASK, w);
    jw_kv_string(w, "dangerous", command_rule_name(c->dangerous));
    jw_kv_string(w, "default", command_rule_name(c->by_default));
    write_list(c, COMMAND_DENY, w);
    jw_object_end(w);
}

/* ---- tightening ---- */

static bool has_pattern(const struct commands *c, enum command_rule rule, const char *text)
{
    for (size_t i = 0; i < c->count; i++)
        if (c->patterns[i].rule == rule && strcmp(c->patterns[i].text, text) == 0)
            return true;
    return false;
}

static int refuse(struct err *err, const char *what, const char *value)
{
    struct quoted q;
    err_set(err, ERR_REFUSED, "a request may only tighten the policy: %s cannot be %s", what,
            quote(&q, value));
    return err_hint(err, "the operator can widen the rules on commands in the policy file");
}

static bool is_asked(const struct origin *o)
{
    return o->kind > ORIGIN_LEVEL;
}

int commands_tighten(const struct commands *have, const struct commands *want, struct err *err)
{
    /* The operator has no rules on commands, so any rules are stricter. */
    if (!have->given)
        return 0;
    if (is_asked(&want->default_from) && want->by_default < have->by_default)
        return refuse(err, "commands.default", command_rule_name(want->by_default));
    if (is_asked(&want->dangerous_from) && want->dangerous < have->dangerous)
        return refuse(err, "commands.dangerous", command_rule_name(want->dangerous));
    for (size_t i = 0; i < want->count; i++) {
        const struct command_pattern *p = &want->patterns[i];
        if (p->rule == COMMAND_ALLOW && !has_pattern(have, COMMAND_ALLOW, p->text))
            return refuse(err, "commands.allow", p->text);
    }
    return 0;
}

static bool has_rule(const struct commands *c, enum command_rule rule)
{
    for (size_t i = 0; i < c->count; i++)
        if (c->patterns[i].rule == rule)
            return true;
    return false;
}

/* What is allowed is what both allow; what is asked or denied adds up. */
static int join(struct commands *next, const struct commands *have, const struct commands *want,
                struct err *err)
{
    bool narrowed = have->given && has_rule(want, COMMAND_ALLOW);
    const struct commands *both[] = {have, want};
    for (size_t k = 0; k < 2; k++) {
        for (size_t i = 0; i < both[k]->count; i++) {
            const struct command_pattern *p = &both[k]->patterns[i];
            if (k == 0 && narrowed && p->rule == COMMAND_ALLOW)
                continue;
            int r = commands_add(next, p->rule, p->text, &p->origin, err);
            if (r < 0)
                return r;
        }
    }
    return 0;
}

int commands_take(struct commands *have, const struct commands *want, struct err *err)
{
    struct commands next = {.given = true,
                            .by_default = have->by_default,
                            .dangerous = have->dangerous,
                            .default_from = have->default_from,
                            .dangerous_from = have->dangerous_from};
    if (!want->given)
        return 0;
    if (is_asked(&want->default_from)) {
        next.by_default = want->by_default;
        next.default_from = want->default_from;
    }
    if (is_asked(&want->dangerous_from)) {
        next.dangerous = want->dangerous;
        next.dangerous_from = want->dangerous_from;
    }
    int r = join(&next, have, want, err);
    if (r < 0) {
        commands_done(&next);
        return r;
    }
    commands_done(have);
    *have = next;
    return 0;
}
