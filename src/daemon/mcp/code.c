/* run_code: in the interpreter that a warm sandbox already has. */
#include "daemon/mcp/run.h"

#include "daemon/api/work.h"

#include <string.h>

/* ---- what the interpreter says ---- */

static void take_image(struct mcp_run *r, const struct json *data, const char *key,
                       const char *mime)
{
    const struct json *picture = json_get(data, key);
    struct json_writer w;
    if (!picture || json_type(picture) != JSON_STRING)
        return;
    buf_chr(&r->images, ',');
    jw_init(&w, &r->images, false);
    jw_object_begin(&w);
    jw_kv_string(&w, "type", "image");
    jw_kv_string(&w, "data", json_string(picture));
    jw_kv_string(&w, "mimeType", mime);
    jw_object_end(&w);
}

static bool is_picture(const char *key)
{
    return !strcmp(key, "png") || !strcmp(key, "jpeg") || !strcmp(key, "pdf");
}

static void take_result(struct mcp_run *r, const struct interp_said *s)
{
    const struct json *text = json_get(s->data, "text");
    size_t images = r->images.len, results = r->results.len;
    struct json_writer w;
    if (s->main && text && json_type(text) == JSON_STRING) {
        buf_reset(&r->result);
        buf_str(&r->result, json_string(text));
        if (r->result.failed) {
            buf_reset(&r->result);
            r->cut = true;
        }
    }
    take_image(r, s->data, "png", "image/png");
    take_image(r, s->data, "jpeg", "image/jpeg");
    if (r->results.len)
        buf_chr(&r->results, ',');
    jw_init(&w, &r->results, false);
    jw_object_begin(&w);
    for (size_t i = 0; i < json_count(s->data); i++) {
        if (is_picture(json_key_at(s->data, i)))
            continue;
        jw_key(&w, json_key_at(s->data, i));
        jw_json(&w, json_value_at(s->data, i));
    }
    jw_object_end(&w);
    /* Half a value is none: what does not fit is left out as a whole. */
    if (r->images.failed || r->results.failed) {
        hold_refusal(&r->c->activity.hold, NULL);
        r->images.len = images;
        r->results.len = results;
        r->images.failed = r->results.failed = false;
        r->cut = true;
    }
}

/* What there is no room for is left out, and it is said. */
static void take_word(struct mcp_run *r, struct buf *to, const char *word)
{
    buf_reset(to);
    r->cut |= !hold_fill(&r->c->activity.hold, to, word, strlen(word));
}

static void take_error(struct mcp_run *r, const struct interp_said *s)
{
    take_word(r, &r->name, s->name);
    take_word(r, &r->value, s->value);
    take_word(r, &r->traceback, s->traceback);
    r->raised = r->failed = true;
}

static enum sink_took on_said(void *ctx, const struct interp_said *s)
{
    struct mcp_run *r = ctx;
    if (s->word == INTERP_RESULT)
        take_result(r, s);
    else if (s->word == INTERP_ERROR)
        take_error(r, s);
    return SINK_ALL;
}

static bool on_output(void *ctx, int stream, const void *data, size_t len)
{
    return run_output(ctx, stream, data, len);
}

static void on_end(void *ctx, const struct err *err)
{
    struct mcp_run *r = ctx;
    r->execution = NULL;
    if (err) {
        r->failed = true;
        r->error = *err;
    }
    run_finish(r);
}

/* ---- the run ---- */

static void on_context(void *ctx, struct context *context, const struct err *err)
{
    struct mcp_run *r = ctx;
    struct err own = ERR_INIT;
    struct execution_sink sink = {.output = on_output, .said = on_said, .end = on_end, .ctx = r};
    if (!activity_back(&r->c->activity))
        return;
    if (!context) {
        run_fail(r, err);
        return;
    }
    loop_timer_set(r->c->activity.loop, &r->deadline, (uint64_t)r->timeout_ms);
    if (execution_start(context, r->code, strlen(r->code), r->env, &sink, &r->execution, &own) < 0)
        run_fail(r, &own);
}

static void start(struct mcp_run *r, struct box *b)
{
    activity_wait(&r->c->activity);
    context_default(b, r->language, on_context, r);
}

static void write_members(struct mcp_run *r, struct json_writer *w)
{
    if (r->result.len)
        result_string(r->c, w, "result", &r->result, LONG_TEXT);
    if (r->results.len)
        result_list(r->c, w, "results", &r->results);
    if (!r->raised)
        return;
    jw_kv_object(w, "exception");
    result_string(r->c, w, "name", &r->name, LONG_TEXT);
    result_string(r->c, w, "value", &r->value, LONG_TEXT);
    result_string(r->c, w, "traceback", &r->traceback, LONG_TEXT);
    jw_object_end(w);
}

static const char *default_template(const struct mcp_run *r)
{
    return r->language == INTERP_PYTHON       ? "python"
           : r->language == INTERP_JAVASCRIPT ? "node"
                                              : "base";
}

static int read_arguments(struct mcp_run *r, const char **ret_session, struct err *err)
{
    const char *language = "python", *session = NULL;
    const struct field fields[] = {
        {"language", FIELD_STRING, &language},
        {"code", FIELD_STRING, &r->code},
        RUN_FIELDS(r, session),
    };
    if (TOOL_FIELDS(r->c, fields, err) < 0)
        return err_number(err);
    if (!r->code)
        return err_set(err, ERR_USAGE, "\"code\" is missing");
    r->language = interp_language_parse(language);
    if (r->language == INTERP_NONE)
        return err_set(err, ERR_USAGE, "\"language\": expected " INTERP_LANGUAGES);
    *ret_session = session;
    return 0;
}

void mcp_run_code(struct mcp_call *c)
{
    static const struct run_kind kind = {read_arguments, default_template, start, write_members};
    run_tool(c, &kind);
}
