/* Where each value came from: the answer to "why is my program allowed, or not allowed, to do
 * this?" */
#include "base/cleanup.h"
#include "base/json.h"
#include "base/num.h"
#include "base/quote.h"
#include "policy/commands/internal.h"
#include "policy/egress/internal.h"
#include "policy/fields.h"
#include "policy/grants.h"

#include <string.h>

struct row {
    const char *field;
    const char *value;
    const char *help;
    const struct origin *origin;
};

typedef void (*row_fn)(const struct row *row, void *arg);

static const struct origin by_default = {.kind = ORIGIN_DEFAULT};

static void each_field(const struct policy *p, const char *section, row_fn fn, void *arg)
{
    for (enum policy_field id = 0; id < FIELD_COUNT; id++) {
        if (!field_in_section(id, section))
            continue;
        cleanup_buf struct buf value;
        buf_init(&value, 8192);
        policy_field_text(p, id, &value);
        fn(&(struct row){policy_field_path(id), buf_text(&value), policy_field_help(id),
                         &p->origin[id]},
           arg);
    }
}

static void each_grant(const struct policy *p, bool writable, row_fn fn, void *arg)
{
    const char *help =
        writable ? "host folders that the code may change" : "host folders that the code may read";
    size_t seen = 0;
    for (size_t i = 0; i < p->grant_count; i++) {
        const struct grant *g = &p->grants[i];
        if (g->writable != writable)
            continue;
        cleanup_buf struct buf value;
        buf_init(&value, 16384);
        grant_text(g, &value);
        fn(&(struct row){grant_field(writable), buf_text(&value), help, &g->origin}, arg);
        seen++;
    }
    if (seen == 0)
        fn(&(struct row){grant_field(writable), "none", help, &by_default}, arg);
}

static void each_env(const struct policy *p, row_fn fn, void *arg)
{
    static const char help[] = "environment variables besides the few that brig sets";
    for (size_t i = 0; i < p->env_count; i++) {
        cleanup_buf struct buf value;
        struct quoted q;
        buf_init(&value, 1024);
        buf_fmt(&value, "%s=%s", p->env[i].name, quote(&q, p->env[i].value));
        fn(&(struct row){"credentials.env", buf_text(&value), help, &p->env[i].origin}, arg);
    }
    if (p->env_count == 0)
        fn(&(struct row){"credentials.env", "none", help, &by_default}, arg);
}

static void add_limit(struct buf *out, const char *name, uint64_t value,
                      void (*format)(uint64_t, char[static NUM_TEXT_SIZE]))
{
    char text[NUM_TEXT_SIZE];
    if (value == POLICY_UNLIMITED)
        return;
    format(value, text);
    buf_fmt(out, ", %s %s", name, text);
}

static void each_rule(const struct policy *p, row_fn fn, void *arg)
{
    static const char help[] = "where the code may go";
    for (size_t i = 0; i < p->egress.rule_count; i++) {
        const struct egress_rule *r = &p->egress.rules[i];
        cleanup_buf struct buf value;
        buf_init(&value, 1024);
        buf_str(&value, r->text);
        for (size_t k = 0; k < r->pass.count; k++)
            buf_fmt(&value, "%s%s", k ? " " : ", pass ", r->pass.items[k]);
        add_limit(&value, "upload", r->upload, num_format_size);
        add_limit(&value, "max_connections", r->max_connections, num_format_count);
        add_limit(&value, "requests", r->requests, num_format_count);
        if (r->implied)
            buf_str(&value, " (for a secret)");
        if (r->preset)
            buf_fmt(&value, " (of %s)", r->preset);
        fn(&(struct row){"network.allow", buf_text(&value), help, &r->origin}, arg);
    }
    if (p->egress.rule_count == 0)
        fn(&(struct row){"network.allow", "none", help, &by_default}, arg);
}

static void each_blocked(const struct policy *p, row_fn fn, void *arg)
{
    static const char help[] = "where it may not go, whatever the rules say";
    for (size_t i = 0; i < p->egress.blocked_count; i++) {
        cleanup_buf struct buf value;
        buf_init(&value, 512);
        pattern_text(&p->egress.blocked[i], &value);
        fn(&(struct row){"network.block", buf_text(&value), help, &p->blocked_from[i]}, arg);
    }
    if (p->egress.blocked_count == 0)
        fn(&(struct row){"network.block", "none", help, &by_default}, arg);
}

static void each_secret(const struct policy *p, row_fn fn, void *arg)
{
    static const char help[] = "what brig-proxy adds to requests; inside stands a placeholder";
    for (size_t i = 0; i < p->egress.secret_count; i++) {
        const struct egress_secret *s = &p->egress.secrets[i];
        cleanup_buf struct buf value;
        struct quoted q;
        buf_init(&value, 1024);
        buf_fmt(&value, "%s from %s for ", s->name, quote(&q, s->source));
        origin_text(s->scheme, &s->host, s->port, &value);
        if (egress_secret_in_clear(&p->egress, s))
            buf_str(&value, ", sent unencrypted");
        fn(&(struct row){"credentials.secrets", buf_text(&value), help, &s->origin}, arg);
    }
    if (p->egress.secret_count == 0)
        fn(&(struct row){"credentials.secrets", "none", help, &by_default}, arg);
}

static void each_ask(const struct policy *p, row_fn fn, void *arg)
{
    static const char help[] = "hosts outside of the rules that a person is asked about";
    const struct egress *e = &p->egress;
    for (size_t i = 0; i < e->ask_count; i++) {
        cleanup_buf struct buf value;
        buf_init(&value, 512);
        pattern_text(&e->ask[i], &value);
        fn(&(struct row){"network.ask", buf_text(&value), help, &p->ask_from}, arg);
    }
    if (e->asks && e->ask_count == 0)
        fn(&(struct row){"network.ask", "true", help, &p->ask_from}, arg);
}

/* Only where there are rules: a policy without them says nothing about commands. */
static void each_command(const struct policy *p, row_fn fn, void *arg)
{
    static const char *const fields[] = {"commands.allow", "commands.ask", "commands.deny"};
    static const char *const helps[] = {"commands that may be started",
                                        "commands that a person is asked about",
                                        "commands that are not started"};
    const struct commands *c = &p->commands;
    if (!c->given)
        return;
    fn(&(struct row){"commands.default", command_rule_name(c->by_default),
                     "commands that no list names", &c->default_from},
       arg);
    fn(&(struct row){"commands.dangerous", command_rule_name(c->dangerous),
                     "commands of a dangerous shape; a guide on top of the walls, no wall",
                     &c->dangerous_from},
       arg);
    for (size_t i = 0; i < c->count; i++)
        fn(&(struct row){fields[c->patterns[i].rule], c->patterns[i].text,
                         helps[c->patterns[i].rule], &c->patterns[i].origin},
           arg);
}

static void each_tool_rule(const struct policy *p, enum tool_verdict verdict, row_fn fn, void *arg)
{
    static const char *const fields[] = {"tools.allow", "tools.ask", "tools.deny"};
    static const char *const helps[] = {"tools that may be called",
                                        "tools that a person is asked about",
                                        "tools that may not be called, whatever else is said"};
    size_t seen = 0;
    for (size_t i = 0; i < p->tools.count; i++) {
        const struct tool_rule *r = &p->tools.rules[i];
        if (r->verdict != verdict)
            continue;
        fn(&(struct row){fields[verdict], r->text, helps[verdict], &r->origin}, arg);
        seen++;
    }
    if (seen == 0)
        fn(&(struct row){fields[verdict], "none", helps[verdict], &by_default}, arg);
}

/* Only where there are rules: a policy without them says nothing about tools. */
static void each_tool(const struct policy *p, row_fn fn, void *arg)
{
    static const char help[] = "what the server may ask of its client";
    const struct tools *t = &p->tools;
    cleanup_buf struct buf words;
    buf_init(&words, 100);
    if (!t->given)
        return;
    for (enum tool_verdict v = 0; v < TOOL_VERDICT_COUNT; v++)
        each_tool_rule(p, v, fn, arg);
    for (unsigned i = 0; i < CALLBACK_COUNT; i++) {
        if (t->callbacks & 1u << i)
            buf_fmt(&words, "%s%s", words.len ? ", " : "", tool_callback_name(i));
    }
    fn(&(struct row){"tools.callbacks", words.len ? buf_text(&words) : "none", help,
                     &t->callbacks_from},
       arg);
}

static void each_row(const struct policy *p, row_fn fn, void *arg)
{
    each_field(p, "", fn, arg);
    each_field(p, "kernel", fn, arg);
    each_field(p, "filesystem", fn, arg);
    each_grant(p, false, fn, arg);
    each_grant(p, true, fn, arg);
    each_field(p, "network", fn, arg);
    each_rule(p, fn, arg);
    each_blocked(p, fn, arg);
    each_ask(p, fn, arg);
    each_env(p, fn, arg);
    each_secret(p, fn, arg);
    each_field(p, "lifecycle", fn, arg);
    each_command(p, fn, arg);
    each_tool(p, fn, arg);
}

static void from_text(const struct origin *o, struct buf *out)
{
    switch (o->kind) {
    case ORIGIN_DEFAULT:
        buf_str(out, "default");
        break;
    case ORIGIN_LEVEL:
        buf_fmt(out, "level %s", o->name);
        break;
    case ORIGIN_FILE:
        buf_fmt(out, "%s:%u:%u", o->name, o->line, o->column);
        break;
    case ORIGIN_OPTION:
        buf_fmt(out, "option %s", o->name);
        break;
    }
}

#define VALUE_WIDTH_MAX 40 /* one long path must not push every other line off the screen */

struct columns {
    int field;
    int value;
    struct buf *out;
};

static int widest(int width, const char *text, int max)
{
    size_t len = strlen(text);
    return len > (size_t)max ? width : len > (size_t)width ? (int)len : width;
}

static void measure(const struct row *row, void *arg)
{
    struct columns *c = arg;
    c->field = widest(c->field, row->field, VALUE_WIDTH_MAX);
    c->value = widest(c->value, row->value, VALUE_WIDTH_MAX);
}

static void print(const struct row *row, void *arg)
{
    struct columns *c = arg;
    buf_fmt(c->out, "%-*s  %-*s  ", c->field, row->field, c->value, row->value);
    from_text(row->origin, c->out);
    buf_chr(c->out, '\n');
}

void policy_explain(const struct policy *p, struct buf *out)
{
    struct columns c = {.out = out};
    each_row(p, measure, &c);
    each_row(p, print, &c);
}

static void origin_json(struct json_writer *w, const struct origin *o)
{
    static const char *const kinds[] = {"default", "level", "file", "option"};
    jw_key(w, "from");
    jw_object_begin(w);
    jw_kv_string(w, "kind", kinds[o->kind]);
    if (o->kind != ORIGIN_DEFAULT)
        jw_kv_string(w, "name", o->name);
    if (o->kind == ORIGIN_FILE) {
        jw_kv_uint(w, "line", o->line);
        jw_kv_uint(w, "column", o->column);
    }
    jw_object_end(w);
}

static void print_json(const struct row *row, void *arg)
{
    struct json_writer *w = arg;
    jw_object_begin(w);
    jw_kv_string(w, "field", row->field);
    jw_kv_string(w, "value", row->value);
    origin_json(w, row->origin);
    jw_kv_string(w, "help", row->help);
    jw_object_end(w);
}

void policy_explain_json(const struct policy *p, struct buf *out)
{
    struct json_writer w;
    jw_init(&w, out, true);
    jw_object_begin(&w);
    jw_key(&w, "fields");
    jw_array_begin(&w);
    each_row(p, print_json, &w);
    jw_array_end(&w);
    jw_object_end(&w);
    buf_chr(out, '\n');
}
