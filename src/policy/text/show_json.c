/* A policy as a JSON document that brig reads back: every field, whether it was chosen or not. */
#include "base/cleanup.h"
#include "base/json.h"
#include "policy/commands/internal.h"
#include "policy/egress/internal.h"
#include "policy/fields.h"
#include "policy/grants.h"
#include "policy/tools/internal.h"

static void show_field(struct json_writer *w, const struct policy *p, enum policy_field id)
{
    enum field_type type = field_type(id);
    uint64_t number = field_number(p, id);
    jw_key(w, field_key(id));
    if (type == TYPE_BOOL) {
        jw_bool(w, number != 0);
    } else if ((type == TYPE_UINT || type == TYPE_COUNT) && number != POLICY_UNLIMITED) {
        jw_uint(w, number);
    } else if (type == TYPE_MILLI && number != POLICY_UNLIMITED) {
        if (number % 1000)
            jw_real(w, (double)number / 1000);
        else
            jw_uint(w, number / 1000);
    } else {
        cleanup_buf struct buf text;
        buf_init(&text, w->out->cap);
        policy_field_text(p, id, &text);
        jw_string(w, buf_text(&text));
    }
}

static void show_fields(struct json_writer *w, const struct policy *p, const char *section)
{
    for (enum policy_field id = 0; id < FIELD_COUNT; id++) {
        if (field_in_section(id, section))
            show_field(w, p, id);
    }
}

static void show_grants(struct json_writer *w, const struct policy *p, bool writable)
{
    jw_key(w, writable ? "rw" : "ro");
    jw_array_begin(w);
    for (size_t i = 0; i < p->grant_count; i++) {
        if (p->grants[i].writable != writable)
            continue;
        cleanup_buf struct buf text;
        buf_init(&text, w->out->cap);
        grant_text(&p->grants[i], &text);
        jw_string(w, buf_text(&text));
    }
    jw_array_end(w);
}

static void section_begin(struct json_writer *w, const char *section)
{
    jw_key(w, section);
    jw_object_begin(w);
}

static void show_env(struct json_writer *w, const struct policy *p)
{
    jw_key(w, "env");
    jw_object_begin(w);
    for (size_t i = 0; i < p->env_count; i++)
        jw_kv_string(w, p->env[i].name, p->env[i].value);
    jw_object_end(w);
}

/* What a secret implies comes back with the secret. */
static void show_rules(struct json_writer *w, const struct policy *p)
{
    jw_key(w, "allow");
    jw_array_begin(w);
    for (size_t i = 0; i < p->egress.rule_count; i++) {
        if (!p->egress.rules[i].implied)
            rule_show(&p->egress.rules[i], w);
    }
    jw_array_end(w);
}

static void show_blocked(struct json_writer *w, const struct policy *p)
{
    jw_key(w, "block");
    jw_array_begin(w);
    for (size_t i = 0; i < p->egress.blocked_count; i++) {
        cleanup_buf struct buf host;
        buf_init(&host, 512);
        pattern_text(&p->egress.blocked[i], &host);
        jw_string(w, buf_text(&host));
    }
    jw_array_end(w);
}

static void show_secrets(struct json_writer *w, const struct policy *p)
{
    jw_key(w, "secrets");
    jw_array_begin(w);
    for (size_t i = 0; i < p->egress.secret_count; i++)
        secret_show(&p->egress.secrets[i], w);
    jw_array_end(w);
}

static void show_tools(struct json_writer *w, const struct tools *t)
{
    section_begin(w, "tools");
    for (enum tool_verdict v = 0; v < TOOL_VERDICT_COUNT; v++) {
        jw_key(w, tool_verdict_name(v));
        jw_array_begin(w);
        for (size_t i = 0; i < t->count; i++) {
            if (t->rules[i].verdict == v)
                tool_rule_show(&t->rules[i], w);
        }
        jw_array_end(w);
    }
    jw_key(w, "callbacks");
    jw_array_begin(w);
    for (unsigned i = 0; i < CALLBACK_COUNT; i++) {
        if (t->callbacks & 1u << i)
            jw_string(w, tool_callback_name(i));
    }
    jw_array_end(w);
    jw_object_end(w);
}

void policy_show_json(const struct policy *p, struct buf *out)
{
    struct json_writer w;
    jw_init(&w, out, true);
    jw_object_begin(&w);
    jw_kv_uint(&w, "version", 1);
    show_fields(&w, p, "");
    section_begin(&w, "kernel");
    show_fields(&w, p, "kernel");
    jw_object_end(&w);
    section_begin(&w, "filesystem");
    show_fields(&w, p, "filesystem");
    show_grants(&w, p, false);
    show_grants(&w, p, true);
    jw_object_end(&w);
    section_begin(&w, "network");
    show_fields(&w, p, "network");
    show_rules(&w, p);
    show_blocked(&w, p);
    if (p->egress.asks) {
        jw_key(&w, "ask");
        egress_ask_write(&p->egress, &w);
    }
    jw_object_end(&w);
    section_begin(&w, "credentials");
    show_env(&w, p);
    show_secrets(&w, p);
    jw_object_end(&w);
    section_begin(&w, "lifecycle");
    show_fields(&w, p, "lifecycle");
    jw_object_end(&w);
    if (p->commands.given) {
        jw_key(&w, "commands");
        commands_write(&p->commands, &w);
    }
    if (p->tools.given)
        show_tools(&w, &p->tools);
    jw_object_end(&w);
    buf_chr(out, '\n');
}
