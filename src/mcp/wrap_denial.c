/* What a model is told when a call is denied: what, by which rule, and what would help. */
#include "base/cleanup.h"
#include "base/quote.h"
#include "mcp/wrap_internal.h"

#include <stdio.h>
#include <string.h>

void wrap_rule_text(const struct tool_rule *rule, struct buf *out)
{
    struct quoted q;
    const struct origin *o = &rule->origin;
    buf_fmt(out, "tools.%s %s", tool_verdict_name(rule->verdict), quote(&q, rule->text));
    if (o->kind == ORIGIN_FILE)
        buf_fmt(out, " (%s:%u:%u)", o->name, o->line, o->column);
    else if (o->kind == ORIGIN_OPTION)
        buf_fmt(out, " (option %s)", o->name);
}

struct denied {
    char what[96];
    char rule[96 + QUOTE_MAX];
    char hint[192];
};

static void fill_rule(struct denied *d, const struct tool_decision *decision)
{
    cleanup_buf struct buf text;
    buf_init(&text, sizeof d->rule - 1);
    if (decision->rule)
        wrap_rule_text(decision->rule, &text);
    else if (decision->near)
        buf_str(&text, "no rule allows it with these arguments");
    else
        buf_str(&text, "no rule of tools.allow or tools.ask names it");
    snprintf(d->rule, sizeof d->rule, "%s", buf_text(&text));
}

static void fill_hint(struct denied *d, const struct tool_decision *decision, enum wrap_why why)
{
    struct quoted q;
    static const char *const hints[] = {
        [WRAP_BY_RULE] = "use another tool, or ask the person to change the policy",
        [WRAP_BY_PERSON] = "a person was asked and said no: do not try it again unchanged",
        [WRAP_BY_TIME] = "a person was asked and did not answer in time: tell them, then try again",
        [WRAP_BY_NOBODY] = "there is nobody to ask: the person must allow it in the policy",
    };
    if (why == WRAP_BY_RULE && !decision->rule && decision->near)
        snprintf(d->hint, sizeof d->hint, "it is allowed as %s", quote(&q, decision->near->text));
    else
        snprintf(d->hint, sizeof d->hint, "%s", hints[why]);
}

static void write_denial(struct json_writer *w, const struct denied *d, const char *by)
{
    jw_key(w, "_meta");
    jw_object_begin(w);
    jw_key(w, "brig/denial");
    jw_object_begin(w);
    jw_kv_string(w, "what", d->what);
    jw_kv_string(w, "rule", d->rule);
    jw_kv_string(w, "hint", d->hint);
    jw_kv_string(w, "by", by);
    jw_object_end(w);
    jw_object_end(w);
}

static void answer(struct wrap *wrap, const struct json *id, bool modern, const struct denied *d,
                   const char *by)
{
    struct json_writer w;
    cleanup_buf struct buf text;
    buf_init(&text, 1024);
    buf_fmt(&text, "denied by brig: %s: %s. Hint: %s.", d->what, d->rule, d->hint);
    jw_init(&w, &wrap->to_client, false);
    rpc_result_begin(&w, id);
    jw_object_begin(&w);
    if (modern)
        jw_kv_string(&w, "resultType", "complete");
    jw_key(&w, "content");
    jw_array_begin(&w);
    jw_object_begin(&w);
    jw_kv_string(&w, "type", "text");
    jw_kv_string(&w, "text", buf_text(&text));
    jw_object_end(&w);
    jw_array_end(&w);
    jw_kv_bool(&w, "isError", true);
    write_denial(&w, d, by);
    jw_object_end(&w);
    rpc_end(&w);
    wrap_line_end(&wrap->to_client);
    denial_add(&wrap->denials, BOUNDARY_NONE, d->what, d->rule, d->hint);
}

void wrap_deny(struct wrap *w, const struct json *id, bool modern, const char *name,
               const struct tool_decision *decision, enum wrap_why why)
{
    static const char *const by[] = {"rule", "person", "time", "nobody"};
    struct denied d;
    struct quoted q;
    snprintf(d.what, sizeof d.what, "tool %s", quote(&q, name));
    fill_rule(&d, decision);
    fill_hint(&d, decision, why);
    answer(w, id, modern, &d, by[why]);
}

void wrap_deny_callback(struct wrap *w, const struct json *id, const struct wrap_call *call,
                        const char *method)
{
    struct denied d;
    struct quoted q;
    snprintf(d.what, sizeof d.what, "the server's question %s", quote(&q, method));
    snprintf(d.rule, sizeof d.rule, "tools.callbacks does not name it");
    snprintf(d.hint, sizeof d.hint, "the person can add it to tools.callbacks in the policy");
    if (call->method == WRAP_TOOLS_CALL) {
        answer(w, id, call->modern, &d, "rule");
        return;
    }
    denial_add(&w->denials, BOUNDARY_NONE, d.what, d.rule, d.hint);
    wrap_error(&w->to_client, id, RPC_INVALID_REQUEST, "denied by brig: %s: %s", d.what, d.rule);
}
