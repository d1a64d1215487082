/* read_file, write_file, list_files. */
#include "daemon/mcp/files.h"

#include "base/base64.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* What went wrong, so that a model can go on. */
static void fail(struct mcp_file *f)
{
    struct err err = ERR_INIT;
    enum err_code code = f->error == ENOENT                        ? ERR_NOT_FOUND
                         : f->error == EACCES || f->error == EPERM ? ERR_REFUSED
                         : f->error == EROFS                       ? ERR_REFUSED
                         : f->error == EFBIG || f->error == ENOSPC ? ERR_LIMIT
                         : f->error == EDQUOT                      ? ERR_LIMIT
                                                                   : ERR_USAGE;
    err_set(&err, code, "%.300s: %s", f->path, errno_text(f->error));
    if (f->why.code != ERR_NONE)
        err = f->why;
    else if (code == ERR_REFUSED) {
        err_at(&err, BOUNDARY_FILESYSTEM);
        err_hint(&err, "files below /home/user and /tmp can be written; the rest only where the "
                       "policy of the template says filesystem: {writable_root: true}");
    } else if (f->error == EFBIG) {
        err_hint(&err, "at most %u bytes; take a part of it with run_command", MCP_FILE_MAX);
    } else if (code == ERR_LIMIT) {
        err_at(&err, BOUNDARY_LIFECYCLE);
        err_hint(&err, "the sandbox's disk is full; remove something");
    }
    tool_fail(f->c, &err);
}

static bool encoding_good(const char *encoding)
{
    return !strcmp(encoding, "utf-8") || !strcmp(encoding, "base64");
}

/* Path and session of all three. False: answered. */
static bool begin(struct mcp_file *f, const char *session, const char *path, const struct err *err,
                  uint32_t depth, uint64_t limit)
{
    struct err own = ERR_INIT;
    struct box *b;
    if (err->code != ERR_NONE) {
        tool_fail(f->c, err);
        return false;
    }
    if (!session)
        return tool_box(f->c, NULL) != NULL;
    if (!path || !*path || strlen(path) > FILES_PATH_MAX - sizeof(HOME_PATH)) {
        err_set(&own, ERR_USAGE, "\"path\" is missing or too long");
        tool_fail(f->c, &own);
        return false;
    }
    b = tool_box(f->c, session);
    if (!b)
        return false;
    if (tool_user(b, f->user, &f->as_root, &own) < 0) {
        tool_fail(f->c, &own);
        return false;
    }
    path_absolute(b, f->as_root, path, f->path);
    file_begin(f, b, depth, limit);
    return true;
}

/* ---- read_file ---- */

static void have_read(struct mcp_file *f)
{
    struct mcp_result r;
    struct buf text cleanup_buf = {0};
    bool is_text = !strcmp(f->encoding, "utf-8") && file_is_text(&f->data);
    if (f->error) {
        fail(f);
        return;
    }
    activity_buf(&f->c->activity, &text, 2 * MCP_FILE_MAX);
    if (is_text)
        buf_add(&text, buf_text(&f->data), f->data.len);
    else
        base64_encode(buf_text(&f->data), f->data.len, &text);
    if (text.failed) {
        f->error = EFBIG;
        hold_refusal(&f->c->activity.hold, &f->why);
        fail(f);
        return;
    }
    tool_result_begin(f->c, &r, &text, NULL, false);
    path_write(&r.w, "path", f->path);
    jw_kv_uint(&r.w, "size", f->data.len);
    jw_kv_string(&r.w, "encoding", is_text ? "utf-8" : "base64");
    jw_kv_bytes(&r.w, "content", buf_text(&text), text.len);
    tool_result_send(f->c, &r);
}

void mcp_read_file(struct mcp_call *c)
{
    struct err err = ERR_INIT;
    const char *session = NULL, *path = NULL, *user = NULL, *encoding = "utf-8";
    const struct field fields[] = {
        {"session_id", FIELD_STRING, &session},
        {"path", FIELD_STRING, &path},
        {"encoding", FIELD_STRING, &encoding},
        {"user", FIELD_STRING, &user},
    };
    struct mcp_file *f = file_new(c, FILES_READ);
    if (!f)
        return;
    TOOL_FIELDS(c, fields, &err);
    if (!encoding_good(encoding))
        err_set(&err, ERR_USAGE, "\"encoding\": expected utf-8 or base64");
    f->encoding = encoding;
    f->user = user;
    f->done = have_read;
    begin(f, session, path, &err, 0, MCP_FILE_MAX);
}

/* ---- write_file ---- */

static void have_written(struct mcp_file *f)
{
    struct mcp_result r;
    struct buf text cleanup_buf = {0};
    if (f->error) {
        fail(f);
        return;
    }
    buf_init(&text, 8192);
    buf_fmt(&text, "wrote %zu bytes to %s", f->data.len, f->path);
    tool_result_begin(f->c, &r, &text, NULL, false);
    path_write(&r.w, "path", f->path);
    jw_kv_uint(&r.w, "size", f->data.len);
    tool_result_send(f->c, &r);
}

static void take_content(struct mcp_file *f, const char *content, const char *encoding,
                         struct err *err)
{
    if (!content)
        err_set(err, ERR_USAGE, "\"content\" is missing");
    else if (!encoding_good(encoding))
        err_set(err, ERR_USAGE, "\"encoding\": expected utf-8 or base64");
    else if (!strcmp(encoding, "utf-8"))
        buf_str(&f->data, content);
    else if (base64_decode(content, strlen(content), &f->data, err) < 0)
        err_wrap(err, "\"content\"");
    if (f->data.failed && hold_refusal(&f->c->activity.hold, err) == 0)
        err_set(err, ERR_LIMIT, "\"content\": more than %zu bytes", f->data.cap);
}

void mcp_write_file(struct mcp_call *c)
{
    struct err err = ERR_INIT;
    const char *session = NULL, *path = NULL, *content = NULL, *user = NULL, *encoding = "utf-8";
    const struct field fields[] = {
        {"session_id", FIELD_STRING, &session}, {"path", FIELD_STRING, &path},
        {"content", FIELD_STRING, &content},    {"encoding", FIELD_STRING, &encoding},
        {"user", FIELD_STRING, &user},
    };
    struct mcp_file *f = file_new(c, FILES_WRITE);
    if (!f)
        return;
    f->data.cap = RPC_BYTES_MAX;
    f->done = have_written;
    if (TOOL_FIELDS(c, fields, &err) >= 0)
        take_content(f, content, encoding, &err);
    f->user = user;
    begin(f, session, path, &err, 0, 0);
}

/* ---- list_files ---- */

static void have_listed(struct mcp_file *f)
{
    struct mcp_result r;
    if (f->error) {
        fail(f);
        return;
    }
    if (!f->text.len)
        buf_str(&f->text, "[empty]");
    tool_result_begin(f->c, &r, &f->text, NULL, false);
    result_list(&r.w, "entries", &f->data);
    jw_kv_bool(&r.w, "truncated", f->cut);
    tool_result_send(f->c, &r);
}

void mcp_list_files(struct mcp_call *c)
{
    struct err err = ERR_INIT;
    const char *session = NULL, *path = HOME_PATH, *user = NULL;
    int64_t depth = 1;
    const struct field fields[] = {
        {"session_id", FIELD_STRING, &session},
        {"path", FIELD_STRING, &path},
        {"depth", FIELD_INT, &depth, 1, MCP_DEPTH_MAX},
        {"user", FIELD_STRING, &user},
    };
    struct mcp_file *f = file_new(c, FILES_LIST);
    if (!f)
        return;
    TOOL_FIELDS(c, fields, &err);
    f->done = have_listed;
    f->user = user;
    begin(f, session, path, &err, (uint32_t)depth, MCP_ENTRIES_MAX);
}
