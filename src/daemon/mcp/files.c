/* read_file, write_file, list_files. */
#include "daemon/mcp/files.h"

#include "base/base64.h"
#include "base/clock.h"
#include "base/container.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define DECODED (32u << 10) /* digits, in one piece */
#define TURN_US 1000u       /* then others have theirs */

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
    bool is_text = !strcmp(f->encoding, "utf-8") && file_is_text(f);
    enum long_form form = is_text ? LONG_TEXT : LONG_BASE64;
    if (f->error) {
        fail(f);
        return;
    }
    tool_result_begin(f->c, &r, &f->data, form, NULL, false);
    path_write(&r.w, "path", f->path);
    jw_kv_uint(&r.w, "size", f->data.len);
    jw_kv_string(&r.w, "encoding", is_text ? "utf-8" : "base64");
    result_string(f->c, &r.w, "content", &f->data, form);
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

static void check_content(struct mcp_file *f, struct err *err)
{
    if (f->data.failed && hold_refusal(&f->c->activity.hold, err) == 0)
        err_set(err, ERR_LIMIT, "\"content\": more than %zu bytes", f->data.cap);
}

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
    tool_result_begin(f->c, &r, &text, LONG_NOW, NULL, false);
    path_write(&r.w, "path", f->path);
    jw_kv_uint(&r.w, "size", f->data.len);
    tool_result_send(f->c, &r);
}

/* Four digits at a time stand for themselves, and what fills up the last of them is the end. */
static void decode_piece(struct mcp_file *f, struct err *err)
{
    size_t n = f->encoded_left < DECODED ? f->encoded_left : DECODED;
    if (n < f->encoded_left && f->encoded[n - 1] == '=')
        err_set(err, ERR_USAGE, "malformed base64");
    else
        base64_decode(f->encoded, n, &f->data, err);
    f->encoded += n;
    f->encoded_left -= n;
}

/* Nothing of it is written before all of it is known to be good. */
static void decode_some(struct mcp_file *f)
{
    struct err err = ERR_INIT;
    uint64_t began = clock_us();
    while (f->encoded_left && err.code == ERR_NONE && clock_us() - began < TURN_US)
        decode_piece(f, &err);
    if (f->encoded_left && err.code == ERR_NONE) {
        loop_timer_set(f->c->activity.loop, &f->turn, 1);
        return;
    }
    if (err.code != ERR_NONE)
        err_wrap(&err, "\"content\"");
    check_content(f, &err);
    begin(f, f->session, f->asked, &err, 0, 0);
}

static void on_turn(struct loop_timer *t)
{
    decode_some(container_of(t, struct mcp_file, turn));
}

/* True: it is to be decoded first. */
static bool take_content(struct mcp_file *f, const char *content, const char *encoding,
                         struct err *err)
{
    if (!content)
        err_set(err, ERR_USAGE, "\"content\" is missing");
    else if (!encoding_good(encoding))
        err_set(err, ERR_USAGE, "\"encoding\": expected utf-8 or base64");
    else if (!strcmp(encoding, "utf-8"))
        buf_str(&f->data, content);
    else {
        f->encoded = content;
        f->encoded_left = strlen(content);
        buf_room(&f->data, f->encoded_left / 4 * 3 + 3);
    }
    check_content(f, err);
    return f->encoded && err->code == ERR_NONE;
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
    f->turn.fn = on_turn;
    f->turn.share = account_share(c->activity.hold.account);
    bool good = TOOL_FIELDS(c, fields, &err) >= 0;
    f->user = user;
    f->session = session;
    f->asked = path;
    if (good && take_content(f, content, encoding, &err))
        decode_some(f);
    else
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
    tool_result_begin(f->c, &r, &f->text, LONG_TEXT, NULL, false);
    result_list(f->c, &r.w, "entries", &f->data);
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
