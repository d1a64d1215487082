/* A policy as a YAML document that brig reads back: every field, whether it was chosen or not. */
#include "policy/text/show_yaml.h"
#include "base/cleanup.h"
#include "base/utf8.h"
#include "policy/commands/internal.h"
#include "policy/egress/internal.h"
#include "policy/fields.h"
#include "policy/grants.h"
#include "policy/tools/internal.h"

#include <string.h>
#include <strings.h>

/* Words that some YAML reads as something else than a text. */
static bool is_yaml_word(const char *text)
{
    static const char *const words[] = {"true", "false", "null", "yes", "no",
                                        "on",   "off",   "y",    "n"};
    for (size_t i = 0; i < ARRAY_LEN(words); i++) {
        if (strcasecmp(words[i], text) == 0)
            return true;
    }
    return false;
}

/* Characters that the reader wants escaped, because YAMLs or terminals disagree about them. */
static bool needs_escape(uint32_t code)
{
    return code < 0x20 || (code >= 0x7F && code < 0xA0) || code == 0x2028 || code == 0x2029 ||
           code == 0xFEFF || code == 0xFFFE || code == 0xFFFF;
}

static void quoted_text(const char *text, struct buf *out)
{
    buf_chr(out, '"');
    while (*text) {
        uint32_t code = 0;
        size_t len = utf8_decode(text, strnlen(text, 4), &code);
        if (len == 0)
            len = 1; /* cannot be: everything in a policy is UTF-8 */
        if (code == '\n')
            buf_str(out, "\\n");
        else if (needs_escape(code))
            buf_fmt(out, "\\u%04x", (unsigned)code);
        else
            buf_fmt(out, "%s%.*s", code == '"' || code == '\\' ? "\\" : "", (int)len, text);
        text += len;
    }
    buf_chr(out, '"');
}

/* Plain only where no reader could take it for anything but this text. */
static void show_text(const char *text, struct buf *out)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_/";
    static const char safe[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_/.-";
    if (strspn(text, letters) > 0 && text[strspn(text, safe)] == '\0' && !is_yaml_word(text))
        buf_str(out, text);
    else
        quoted_text(text, out);
}

void show_yaml_text(const char *text, struct buf *out)
{
    show_text(text, out);
}

static void show_field(const struct policy *p, enum policy_field id, const char *indent,
                       struct buf *out)
{
    cleanup_buf struct buf text;
    buf_init(&text, out->cap);
    policy_field_text(p, id, &text);
    buf_fmt(out, "%s%s: ", indent, field_key(id));
    /* Numbers and sizes need no quotes; only words and paths can be mistaken. */
    if (field_type(id) == TYPE_NEED || field_type(id) == TYPE_NETWORK || field_is_text(id))
        show_text(buf_text(&text), out);
    else
        buf_str(out, buf_text(&text));
    buf_chr(out, '\n');
}

static void show_section(const struct policy *p, const char *section, struct buf *out)
{
    if (*section)
        buf_fmt(out, "%s:\n", section);
    for (enum policy_field id = 0; id < FIELD_COUNT; id++) {
        if (field_in_section(id, section))
            show_field(p, id, *section ? "  " : "", out);
    }
}

static void show_grants(const struct policy *p, bool writable, struct buf *out)
{
    bool any = false;
    buf_fmt(out, "  %s:", writable ? "rw" : "ro");
    for (size_t i = 0; i < p->grant_count; i++) {
        if (p->grants[i].writable != writable)
            continue;
        cleanup_buf struct buf text;
        buf_init(&text, out->cap);
        grant_text(&p->grants[i], &text);
        buf_str(out, "\n    - ");
        show_text(buf_text(&text), out);
        any = true;
    }
    buf_str(out, any ? "\n" : " []\n");
}

static void show_env(const struct policy *p, struct buf *out)
{
    buf_str(out, p->env_count ? "  env:\n" : "  env: {}\n");
    for (size_t i = 0; i < p->env_count; i++) {
        buf_str(out, "    ");
        show_text(p->env[i].name, out);
        buf_str(out, ": ");
        show_text(p->env[i].value, out);
        buf_chr(out, '\n');
    }
}

static void show_value(const struct json *j, struct buf *out);

static void show_flow(const struct json *list, struct buf *out)
{
    buf_chr(out, '[');
    for (size_t i = 0; i < json_count(list); i++) {
        buf_str(out, i ? ", " : "");
        show_value(json_at(list, i), out);
    }
    buf_chr(out, ']');
}

static void show_flow_mapping(const struct json *object, struct buf *out)
{
    buf_chr(out, '{');
    for (size_t i = 0; i < json_count(object); i++) {
        buf_str(out, i ? ", " : "");
        show_text(json_key_at(object, i), out);
        buf_str(out, ": ");
        show_value(json_value_at(object, i), out);
    }
    buf_chr(out, '}');
}

static void show_value(const struct json *j, struct buf *out)
{
    if (json_type(j) == JSON_STRING)
        show_text(json_string(j), out);
    else if (json_type(j) == JSON_ARRAY)
        show_flow(j, out);
    else if (json_type(j) == JSON_OBJECT)
        show_flow_mapping(j, out);
    else
        buf_fmt(out, "%lld", (long long)json_int(j));
}

/* One item of a list: a text, or a mapping of texts, numbers and lists of texts. Made from its
 * JSON, so that the two languages cannot say different things. */
static void show_item(const struct buf *text, struct buf *out)
{
    struct json *item = NULL;
    if (text->failed || json_parse(buf_text(text), text->len, NULL, &item, NULL) < 0) {
        out->failed = true;
        return;
    }
    buf_str(out, "\n    - ");
    if (json_type(item) != JSON_OBJECT)
        show_value(item, out);
    for (size_t i = 0; json_type(item) == JSON_OBJECT && i < json_count(item); i++) {
        buf_fmt(out, "%s%s: ", i ? "\n      " : "", json_key_at(item, i));
        show_value(json_value_at(item, i), out);
    }
    json_free(item);
}

static void show_rules(const struct policy *p, struct buf *out)
{
    bool any = false;
    buf_str(out, "  allow:");
    for (size_t i = 0; i < p->egress.rule_count; i++) {
        if (p->egress.rules[i].implied)
            continue;
        cleanup_buf struct buf text;
        struct json_writer w;
        buf_init(&text, out->cap);
        jw_init(&w, &text, false);
        rule_show(&p->egress.rules[i], &w);
        show_item(&text, out);
        any = true;
    }
    buf_str(out, any ? "\n" : " []\n");
}

static void show_blocked(const struct policy *p, struct buf *out)
{
    buf_str(out, "  block:");
    for (size_t i = 0; i < p->egress.blocked_count; i++) {
        cleanup_buf struct buf host;
        buf_init(&host, 512);
        pattern_text(&p->egress.blocked[i], &host);
        buf_str(out, "\n    - ");
        show_text(buf_text(&host), out);
    }
    buf_str(out, p->egress.blocked_count ? "\n" : " []\n");
}

static void show_secrets(const struct policy *p, struct buf *out)
{
    buf_str(out, "  secrets:");
    for (size_t i = 0; i < p->egress.secret_count; i++) {
        cleanup_buf struct buf text;
        struct json_writer w;
        buf_init(&text, out->cap);
        jw_init(&w, &text, false);
        secret_show(&p->egress.secrets[i], &w);
        show_item(&text, out);
    }
    buf_str(out, p->egress.secret_count ? "\n" : " []\n");
}

static void show_ask(const struct policy *p, struct buf *out)
{
    if (!p->egress.asks)
        return;
    buf_str(out, p->egress.ask_count ? "  ask:" : "  ask: true");
    for (size_t i = 0; i < p->egress.ask_count; i++) {
        cleanup_buf struct buf host;
        buf_init(&host, 512);
        pattern_text(&p->egress.ask[i], &host);
        buf_str(out, "\n    - ");
        show_text(buf_text(&host), out);
    }
    buf_chr(out, '\n');
}

static void show_commands(const struct commands *c, struct buf *out)
{
    buf_fmt(out, "commands:\n  default: %s\n  dangerous: %s\n", command_rule_name(c->by_default),
            command_rule_name(c->dangerous));
    for (enum command_rule rule = 0; rule < COMMAND_RULE_COUNT; rule++) {
        bool any = false;
        buf_fmt(out, "  %s:", command_rule_name(rule));
        for (size_t i = 0; i < c->count; i++) {
            if (c->patterns[i].rule != rule)
                continue;
            buf_str(out, "\n    - ");
            show_text(c->patterns[i].text, out);
            any = true;
        }
        buf_str(out, any ? "\n" : " []\n");
    }
}

static void show_tool_rules(const struct tools *t, enum tool_verdict verdict, struct buf *out)
{
    bool any = false;
    buf_fmt(out, "  %s:", tool_verdict_name(verdict));
    for (size_t i = 0; i < t->count; i++) {
        if (t->rules[i].verdict != verdict)
            continue;
        cleanup_buf struct buf text;
        struct json_writer w;
        buf_init(&text, out->cap);
        jw_init(&w, &text, false);
        tool_rule_show(&t->rules[i], &w);
        show_item(&text, out);
        any = true;
    }
    buf_str(out, any ? "\n" : " []\n");
}

static void show_tools(const struct tools *t, struct buf *out)
{
    buf_str(out, "tools:\n");
    for (enum tool_verdict v = 0; v < TOOL_VERDICT_COUNT; v++)
        show_tool_rules(t, v, out);
    buf_str(out, "  callbacks:");
    for (unsigned i = 0; i < CALLBACK_COUNT; i++) {
        if (t->callbacks & 1u << i)
            buf_fmt(out, "\n    - %s", tool_callback_name(i));
    }
    buf_str(out, t->callbacks ? "\n" : " []\n");
}

void policy_show_yaml(const struct policy *p, struct buf *out)
{
    buf_str(out, "version: 1\n");
    show_section(p, "", out);
    show_section(p, "kernel", out);
    show_section(p, "filesystem", out);
    show_grants(p, false, out);
    show_grants(p, true, out);
    show_section(p, "network", out);
    show_rules(p, out);
    show_blocked(p, out);
    show_ask(p, out);
    buf_str(out, "credentials:\n");
    show_env(p, out);
    show_secrets(p, out);
    show_section(p, "lifecycle", out);
    if (p->commands.given)
        show_commands(&p->commands, out);
    if (p->tools.given)
        show_tools(&p->tools, out);
}
