/* create_session, destroy_session, diff. */
#include "daemon/box/review.h"
#include "daemon/mcp/mcp.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- create_session ---- */

static void write_time(struct json_writer *w, const char *key, int64_t ms)
{
    char text[40];
    time_t seconds = (time_t)(ms / 1000);
    struct tm tm;
    if (gmtime_r(&seconds, &tm) && strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &tm))
        jw_kv_string(w, key, text);
}

static void on_created(void *ctx, struct box *b, const struct err *err)
{
    struct mcp_call *c = ctx;
    struct mcp_result r;
    struct buf text cleanup_buf = {0};
    mcp_box_made(c->state, c->place, b && !c->activity.ended ? box_info(b)->id : NULL);
    if (b && c->activity.ended)
        box_end(b, "the call was cancelled", NULL, NULL);
    if (!activity_back(&c->activity))
        return;
    if (!b) {
        tool_fail(c, err);
        return;
    }
    buf_init(&text, 8192);
    buf_fmt(&text, "session_id: %s", box_info(b)->id);
    if (box_info(b)->project)
        buf_fmt(&text,
                "\nworks on a view of %s; the tool diff shows changes, which a person applies",
                box_info(b)->project);
    tool_result_begin(c, &r, &text, LONG_NOW, NULL, false);
    jw_kv_string(&r.w, "session_id", box_info(b)->id);
    jw_kv_string(&r.w, "template", box_info(b)->template_name);
    write_time(&r.w, "expires_at", box_info(b)->end_ms);
    if (box_info(b)->project)
        jw_kv_string(&r.w, "project", box_info(b)->project);
    tool_result_send(c, &r);
}

static int read_wanted(struct mcp_call *c, struct box_request *ret, struct err *err)
{
    int64_t seconds = MCP_SESSION_DEFAULT_S;
    const struct field fields[] = {
        {"template", FIELD_STRING, &ret->template_name},
        {"timeout_seconds", FIELD_INT, &seconds, 1, MCP_SESSION_MAX_S},
        {"env", FIELD_MAP, &ret->env},
        {"metadata", FIELD_MAP, &ret->metadata},
        {"project", FIELD_STRING, &ret->project},
        {"policy", FIELD_OBJECT, &ret->policy},
    };
    if (TOOL_FIELDS(c, fields, err) < 0)
        return err_number(err);
    ret->timeout_ms = seconds * 1000;
    if (ret->metadata && json_count(ret->metadata) > 256)
        return err_set(err, ERR_LIMIT, "\"metadata\": more than 256 entries");
    if (fields_check_env(ret->env, "env", err) < 0)
        return err_number(err);
    return tool_has_template(c, ret->template_name, err);
}

void mcp_create_session(struct mcp_call *c)
{
    struct err err = ERR_INIT;
    struct box_request request = {.template_name = "python",
                                  .owner = c->key,
                                  .project = core_project_of(c->activity.core, c->key)};
    if (read_wanted(c, &request, &err) < 0 ||
        !(c->place = mcp_box_reserve(c->state, c->key, request.timeout_ms, &err))) {
        tool_fail(c, &err);
        return;
    }
    activity_wait(&c->activity);
    box_create(c->activity.core, &request, on_created, c);
}

/* ---- what names a session and nothing else ---- */

static struct box *named(struct mcp_call *c, const struct field *fields, size_t count,
                         const char **session)
{
    struct err err = ERR_INIT;
    if (tool_fields(c, fields, count, &err) < 0) {
        tool_fail(c, &err);
        return NULL;
    }
    return tool_box(c, *session);
}

static void on_ended(void *ctx, const struct err *err)
{
    struct mcp_call *c = ctx;
    struct mcp_result r;
    struct buf text cleanup_buf = {0};
    if (!activity_back(&c->activity))
        return;
    if (err) {
        tool_fail(c, err);
        return;
    }
    buf_init(&text, 64);
    buf_str(&text, "the session has ended");
    tool_result_begin(c, &r, &text, LONG_NOW, NULL, false);
    jw_kv_string(&r.w, "session_id", c->data);
    tool_result_send(c, &r);
}

void mcp_destroy_session(struct mcp_call *c)
{
    const char *session = NULL;
    const struct field fields[] = {{"session_id", FIELD_STRING, &session}};
    struct box *b = named(c, fields, ARRAY_LEN(fields), &session);
    if (!b)
        return;
    c->data = strdup(session);
    activity_wait(&c->activity);
    box_end(b, "destroy_session", on_ended, c);
}

/* ---- diff ---- */

/* What it is about is the warden's until the callback returns. */
static void diff_forget(struct mcp_call *c)
{
    buf_done(c->data);
}

static void write_stat(struct json_writer *w, const struct buf *text)
{
    struct json *tree = NULL;
    if (json_parse(buf_text(text), text->len, NULL, &tree, NULL) == 0)
        jw_kv_json(w, "review", tree);
    json_free(tree);
}

static void on_diff(struct mcp_call *c, bool as_stat, const char *text, size_t len,
                    const struct err *err)
{
    struct mcp_result r;
    struct buf *shown, nothing cleanup_buf = {0};
    struct err own = ERR_INIT;
    if (!activity_back(&c->activity) || !(shown = mcp_data_new(c, sizeof(*shown))))
        return;
    c->forget = diff_forget;
    activity_buf(&c->activity, shown, 16u << 20);
    if (text)
        buf_add(shown, text, len);
    if (shown->failed) {
        err_set(&own, ERR_LIMIT, "the difference is too long to be shown here");
        err_hint(&own, "format \"stat\" names the files");
        err = &own;
    }
    if (!text || shown->failed) {
        tool_fail(c, err);
        return;
    }
    buf_init(&nothing, 64);
    buf_str(&nothing, "[nothing has changed]");
    tool_result_begin(c, &r, len ? shown : &nothing, len ? LONG_TEXT : LONG_NOW, NULL, false);
    if (as_stat)
        write_stat(&r.w, shown);
    else
        result_string(c, &r.w, "diff", shown, LONG_TEXT);
    tool_result_send(c, &r);
}

static void on_text(void *ctx, const char *text, size_t len, const struct err *err)
{
    on_diff(ctx, false, text, len, err);
}

static void on_stat(void *ctx, const char *text, size_t len, const struct err *err)
{
    on_diff(ctx, true, text, len, err);
}

void mcp_diff(struct mcp_call *c)
{
    struct err err = ERR_INIT;
    const char *session = NULL, *format = "text";
    const struct field fields[] = {
        {"session_id", FIELD_STRING, &session},
        {"format", FIELD_STRING, &format},
    };
    struct box *b = named(c, fields, ARRAY_LEN(fields), &session);
    bool as_stat = !strcmp(format, "stat");
    if (!b)
        return;
    if (!as_stat && strcmp(format, "text") != 0) {
        err_set(&err, ERR_USAGE, "\"format\": expected text or stat");
        tool_fail(c, &err);
        return;
    }
    activity_wait(&c->activity);
    review_diff(b, as_stat ? REVIEW_STAT : REVIEW_TEXT, as_stat ? on_stat : on_text, c);
}
