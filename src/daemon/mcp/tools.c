/* What all tools share: their arguments, their session, and the form of their results.
 *
 * What a model got wrong, and what was refused, is a result that it can read (isError, and "error"
 * in structuredContent); only a tool that does not exist is an error of the protocol. */
#include "daemon/mcp/mcp.h"

#include <string.h>

/* Tools of other servers have it, and a model that wants to be root asks for it by that name. */
static int refuse_user(struct err *err)
{
    err_set(err, ERR_UNSUPPORTED,
            "\"user\": here everything runs as one user, that of the template");
    return err_hint(err, "leave it out; for root take a template whose policy says "
                         "kernel: {uid: 0}, or one with kernel: {root: true} and run_command");
}

static bool takes_user(const struct field *fields, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(fields[i].name, "user") == 0)
            return true;
    return false;
}

int tool_user(const struct box *b, const char *user, bool *ret_as_root, struct err *err)
{
    const struct box_info *info = box_info(b);
    bool root = user && strcmp(user, "root") == 0;
    *ret_as_root = root && info->root_beside;
    if (!user || !*user || strcmp(user, "user") == 0 || (root && (info->root_beside || info->root)))
        return 0;
    if (!root)
        return err_set(err, ERR_USAGE, "\"user\": expected user or root");
    err_set(err, ERR_REFUSED,
            "\"user\": template %.100s gives no root: its sandboxes have one user, and it is not "
            "root",
            info->template_name);
    return err_hint(err, "leave it out; or take a template whose policy says kernel: {root: true}, "
                         "or kernel: {uid: 0} for root alone");
}

int tool_fields(const struct mcp_call *c, const struct field *fields, size_t count, struct err *err)
{
    const struct json *arguments = json_get(c->msg.params, "arguments");
    if (arguments && json_type(arguments) == JSON_OBJECT && json_get(arguments, "user") &&
        !takes_user(fields, count))
        return refuse_user(err);
    return arguments ? fields_read(arguments, FIELDS_STRICT, fields, count, err) : 0;
}

int tool_has_template(const struct mcp_call *c, const char *name, struct err *err)
{
    if (core_has_template(c->activity.core, name))
        return 0;
    err_set(err, ERR_NOT_FOUND, "there is no template \"%.100s\"", name);
    return err_hint(err, "leave template out, or take base, python or node");
}

const char *tool_project(const struct mcp_call *c)
{
    return exchange_header(c->activity.call->x, "X-Brig-Project")
               ? core_project_of(c->activity.core, c->key)
               : NULL;
}

void tool_result_begin(struct mcp_call *c, struct mcp_result *r, const struct buf *text,
                       enum long_form form, const struct buf *more, bool failed)
{
    result_begin(c, r);
    jw_kv_array(&r->w, "content");
    jw_object_begin(&r->w);
    jw_kv_string(&r->w, "type", "text");
    result_string(c, &r->w, "text", text, form);
    jw_object_end(&r->w);
    if (more && more->len)
        long_json(&c->answer, &r->w, more);
    jw_array_end(&r->w);
    jw_kv_bool(&r->w, "isError", failed);
    jw_kv_object(&r->w, "structuredContent");
    jw_kv_bool(&r->w, "ok", !failed);
}

void tool_result_send(struct mcp_call *c, struct mcp_result *r)
{
    jw_object_end(&r->w);
    result_send(c, r);
}

void tool_write_error(struct json_writer *w, const struct err *err)
{
    jw_kv_object(w, "error");
    jw_kv_string(w, "code", err_code_name((enum err_code)err->code));
    jw_kv_bytes(w, "message", err->message, strlen(err->message));
    if (err->hint[0])
        jw_kv_string(w, "hint", err->hint);
    if (err->boundary != BOUNDARY_NONE)
        jw_kv_string(w, "boundary", boundary_name((enum boundary_id)err->boundary));
    jw_object_end(w);
}

void tool_fail(struct mcp_call *c, const struct err *err)
{
    struct mcp_result r;
    struct buf text cleanup_buf = {0};
    buf_init(&text, 4096);
    buf_fmt(&text, "%s: %s%s%s", err_code_name((enum err_code)err->code), err->message,
            err->hint[0] ? "\nhint: " : "", err->hint);
    tool_result_begin(c, &r, &text, LONG_NOW, NULL, true);
    tool_write_error(&r.w, err);
    tool_result_send(c, &r);
}

struct box *tool_box(struct mcp_call *c, const char *session_id)
{
    struct err err = ERR_INIT;
    struct box *b = NULL;
    if (!session_id) {
        err_set(&err, ERR_USAGE, "session_id is missing: files live in a session");
        err_hint(&err, "make one with create_session and pass the session_id that it returns");
    } else if (!box_id_valid(session_id) || !(b = box_find(c->activity.core, c->key, session_id))) {
        err_set(&err, ERR_NOT_FOUND, "there is no session %.40s", session_id);
        err_hint(&err, "it may have ended; make a new one with create_session");
    } else if (box_info(b)->state != BOX_RUNNING) {
        err_set(&err, ERR_REFUSED, "session %s is paused", session_id);
        err_hint(&err, "a person can go on with it: brig resume %s", session_id);
        b = NULL;
    } else {
        mcp_boxes_touch(c->state, b);
        return b;
    }
    tool_fail(c, &err);
    return NULL;
}
