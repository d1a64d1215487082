/* Rules about tools as text again, and the words in it. */
#include "policy/tools/internal.h"

#include <string.h>

static const char *const verdict_names[] = {"allow", "ask", "deny"};
static const char *const callback_names[CALLBACK_COUNT] = {"roots", "sampling", "elicitation"};

const char *tool_verdict_name(enum tool_verdict verdict)
{
    return verdict < TOOL_VERDICT_COUNT ? verdict_names[verdict] : "unknown";
}

const char *tool_callback_name(unsigned i)
{
    return i < CALLBACK_COUNT ? callback_names[i] : "unknown";
}

/* The short text must read back as the same rule. */
static bool is_short(const struct tool_rule *r)
{
    if (strchr(r->name, ':') || r->name[0] == '{')
        return false;
    return r->argument_count == 0 || (r->argument_count == 1 && r->arguments[0].values.count == 1 &&
                                      !strchr(r->arguments[0].name, '='));
}

static void write_values(const struct text_list *values, struct json_writer *w, bool canonical)
{
    if (values->count == 1 && !canonical) {
        jw_string(w, values->items[0]);
        return;
    }
    jw_array_begin(w);
    for (size_t i = 0; i < values->count; i++)
        jw_string(w, values->items[i]);
    jw_array_end(w);
}

static void write_mapping(const struct tool_rule *r, struct json_writer *w, bool canonical)
{
    jw_object_begin(w);
    jw_kv_string(w, "name", r->name);
    if (r->argument_count) {
        jw_key(w, "arguments");
        jw_object_begin(w);
        for (size_t i = 0; i < r->argument_count; i++) {
            jw_key(w, r->arguments[i].name);
            write_values(&r->arguments[i].values, w, canonical);
        }
        jw_object_end(w);
    }
    jw_object_end(w);
}

void tool_rule_show(const struct tool_rule *r, struct json_writer *w)
{
    if (!is_short(r)) {
        write_mapping(r, w, false);
        return;
    }
    cleanup_buf struct buf text;
    buf_init(&text, 4 * TOOLS_PATTERN_MAX);
    buf_str(&text, r->name);
    if (r->argument_count)
        buf_fmt(&text, ":%s=%s", r->arguments[0].name, r->arguments[0].values.items[0]);
    jw_string(w, buf_text(&text));
}

void tools_write(const struct tools *t, struct json_writer *w, bool canonical)
{
    jw_object_begin(w);
    for (enum tool_verdict v = 0; v < TOOL_VERDICT_COUNT; v++) {
        jw_key(w, tool_verdict_name(v));
        jw_array_begin(w);
        for (size_t i = 0; i < t->count; i++) {
            const struct tool_rule *r = &t->rules[i];
            if (r->verdict == v && canonical)
                write_mapping(r, w, true);
            else if (r->verdict == v)
                tool_rule_show(r, w);
        }
        jw_array_end(w);
    }
    jw_key(w, "callbacks");
    jw_array_begin(w);
    for (unsigned i = 0; i < CALLBACK_COUNT; i++)
        if (t->callbacks & 1u << i)
            jw_string(w, tool_callback_name(i));
    jw_array_end(w);
    jw_object_end(w);
}
