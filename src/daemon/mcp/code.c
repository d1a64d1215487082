/* run_code: in the interpreter that a warm sandbox already has. */
#include "daemon/mcp/run.h"

#include "daemon/api/work.h"

#include <string.h>

/* ---- what the interpreter says ---- */

/* A result may be as long as a frame, most of it pictures: it is written down in pieces, and others
 * have their turn between them. */
#define PIECE (32u << 10)

static const char *mime_of(const char *key)
{
    return !strcmp(key, "png") ? "image/png" : !strcmp(key, "jpeg") ? "image/jpeg" : NULL;
}

static bool is_picture(const char *key)
{
    return mime_of(key) || !strcmp(key, "pdf");
}

static void begin_result(struct mcp_run *r, const struct interp_said *s)
{
    const struct json *text = json_get(s->data, "text");
    r->taking = (struct run_taking){.on = true, .images = r->images.len, .results = r->results.len};
    if (s->main && text && json_type(text) == JSON_STRING) {
        buf_reset(&r->result);
        buf_str(&r->result, json_string(text));
        if (r->result.failed) {
            buf_reset(&r->result);
            r->cut = true;
        }
    }
    buf_str(&r->results, r->results.len ? ",{" : "{");
}

static void begin_member(struct mcp_run *r, const char *key, const struct json *value)
{
    struct run_taking *t = &r->taking;
    const char *mime = mime_of(key);
    t->to = mime ? &r->images : &r->results;
    t->mime = mime;
    if (is_picture(key) && (!mime || json_type(value) != JSON_STRING))
        return;
    if (mime) {
        buf_str(t->to, ",{\"type\":\"image\",\"data\":");
    } else {
        struct json_writer w = {.out = t->to, .need_comma = t->more};
        jw_key(&w, key);
        t->more = true;
    }
    t->pieces = json_pieces_new(value);
    t->to->failed |= !t->pieces;
}

static void end_member(struct run_taking *t)
{
    json_pieces_free(t->pieces);
    t->pieces = NULL;
    if (t->mime)
        buf_fmt(t->to, ",\"mimeType\":\"%s\"}", t->mime);
}

/* Half a value is none: what does not fit, or was broken off, is left out as a whole. */
void run_drop_half(struct mcp_run *r)
{
    struct run_taking *t = &r->taking;
    if (!t->on)
        return;
    json_pieces_free(t->pieces);
    r->images.len = t->images;
    r->results.len = t->results;
    r->images.failed = r->results.failed = false;
    r->cut = true;
    *t = (struct run_taking){.on = false};
}

static size_t taken(const struct mcp_run *r)
{
    return r->images.len + r->results.len;
}

/* True: that was the last. */
static bool take_piece(struct mcp_run *r, const struct interp_said *s)
{
    struct run_taking *t = &r->taking;
    size_t before = taken(r);
    while (taken(r) - before < PIECE && !r->images.failed && !r->results.failed) {
        size_t at = t->member;
        if (t->pieces && json_pieces_next(t->pieces, t->to, PIECE))
            end_member(t);
        else if (!t->pieces && at == json_count(s->data))
            return true;
        else if (!t->pieces)
            begin_member(r, json_key_at(s->data, at), json_value_at(s->data, t->member++));
    }
    return false;
}

enum sink_took run_take_result(struct mcp_run *r, const struct interp_said *s)
{
    struct run_taking *t = &r->taking;
    if (!t->on)
        begin_result(r, s);
    bool done = take_piece(r, s);
    if (done)
        buf_str(&r->results, "}");
    if (r->images.failed || r->results.failed) {
        hold_refusal(&r->c->activity.hold, NULL);
        run_drop_half(r);
        return SINK_ALL;
    }
    t->on = !done;
    return done ? SINK_ALL : SINK_MORE;
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
        return run_take_result(r, s);
    if (s->word == INTERP_ERROR)
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
