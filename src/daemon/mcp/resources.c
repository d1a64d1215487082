/* Files of a model's sessions as resources: brig://SESSION/path. */
#include "daemon/mcp/files.h"

#include "mcp/uri.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define LIST_MAX 1000u /* resources in all */

static const char *mime_of(const char *path, bool is_text)
{
    static const struct {
        const char *end, *type;
    } types[] = {
        {".json", "application/json"}, {".html", "text/html"},   {".md", "text/markdown"},
        {".csv", "text/csv"},          {".py", "text/x-python"}, {".js", "text/javascript"},
        {".svg", "image/svg+xml"},     {".png", "image/png"},    {".jpg", "image/jpeg"},
        {".jpeg", "image/jpeg"},       {".gif", "image/gif"},    {".pdf", "application/pdf"},
    };
    size_t len = strlen(path);
    for (size_t i = 0; i < ARRAY_LEN(types); i++) {
        size_t end = strlen(types[i].end);
        if (len > end && !strcasecmp(path + len - end, types[i].end))
            return types[i].type;
    }
    return is_text ? "text/plain" : "application/octet-stream";
}

/* ---- resources/templates/list ---- */

void mcp_resources_templates(struct mcp_call *c)
{
    struct mcp_result r;
    result_begin(c, &r);
    jw_kv_array(&r.w, "resourceTemplates");
    jw_object_begin(&r.w);
    jw_kv_string(&r.w, "uriTemplate", "brig://{session_id}/{+path}");
    jw_kv_string(&r.w, "name", "file");
    jw_kv_string(&r.w, "title", "A file of a session");
    jw_kv_string(&r.w, "description",
                 "A file, or the list of a folder, in the sandbox of a session that create_session "
                 "made. The path is absolute: brig://SESSION/home/user/notes.txt");
    jw_object_end(&r.w);
    jw_array_end(&r.w);
    result_cacheable(c, &r, 3600000, true);
    result_send(c, &r);
}

/* ---- resources/list ---- */

/* The sessions are looked at one after the other. */
struct listing {
    struct mcp_call *c;
    char ids[MCP_BOXES_MAX][BOX_ID_LEN + 1];
    size_t count, at;
    struct work work;
    struct buf out; /* JSON, with a comma before each but the first */
    unsigned found;
};

static void listing_next(struct listing *l);

static void listing_stop(struct mcp_call *c)
{
    work_stop(&((struct listing *)c->data)->work);
}

static void listing_forget(struct mcp_call *c)
{
    buf_done(&((struct listing *)c->data)->out);
}

static void listing_add(struct listing *l, const struct files_entry *e)
{
    struct buf uri cleanup_buf = {0};
    struct json_writer w;
    const char *slash = strrchr(e->path, '/');
    size_t before = l->out.len;
    buf_init(&uri, MCP_URI_MAX);
    uri_write(&uri, l->ids[l->at], e->path);
    if (l->found)
        buf_chr(&l->out, ',');
    jw_init(&w, &l->out, false);
    jw_object_begin(&w);
    jw_kv_string(&w, "uri", buf_text(&uri));
    jw_kv_bytes(&w, "name", slash && slash[1] ? slash + 1 : e->path,
                strlen(slash && slash[1] ? slash + 1 : e->path));
    jw_kv_string(&w, "mimeType", mime_of(e->path, true));
    jw_kv_uint(&w, "size", e->size);
    jw_object_end(&w);
    if (uri.failed || l->out.failed) {
        l->out.len = before;
        l->out.failed = false;
        return;
    }
    l->found++;
}

static void on_entry(void *ctx, const struct files_entry *e)
{
    struct listing *l = ctx;
    if (e->kind == FILES_REGULAR && l->found < LIST_MAX)
        listing_add(l, e);
}

/* A folder that cannot be listed has nothing to offer. */
static void on_end(void *ctx, int error)
{
    struct listing *l = ctx;
    (void)error;
    l->at++;
    listing_next(l);
}

static void on_started(void *ctx, int in_fd, const struct err *err)
{
    (void)in_fd;
    if (err)
        on_end(ctx, EIO);
}

static void listing_send(struct listing *l)
{
    struct mcp_result r;
    result_begin(l->c, &r);
    result_list(l->c, &r.w, "resources", &l->out);
    result_cacheable(l->c, &r, 0, false);
    result_send(l->c, &r);
}

static void listing_next(struct listing *l)
{
    static const struct work_request request = {
        .op = FILES_LIST, .path = HOME_PATH, .depth = 4, .limit = LIST_MAX};
    const struct files_sink sink = {.entry = on_entry, .end = on_end, .ctx = l};
    struct box *b = NULL;
    for (; l->at < l->count && l->found < LIST_MAX; l->at++) {
        b = box_find(l->c->activity.core, l->c->key, l->ids[l->at]);
        if (b && box_info(b)->state == BOX_RUNNING)
            break;
        b = NULL;
    }
    if (!b) {
        listing_send(l);
        return;
    }
    work_start(&l->work, &l->c->activity, b, &request, &sink, on_started);
}

void mcp_resources_list(struct mcp_call *c)
{
    const char *ids[MCP_BOXES_MAX];
    struct listing *l;
    if (c->msg.params && json_get(c->msg.params, "cursor")) {
        mcp_fail(c, 200, RPC_INVALID_PARAMS, "there is no such page", NULL);
        return;
    }
    l = mcp_data_new(c, sizeof(*l));
    if (!l)
        return;
    l->c = c;
    l->count = mcp_boxes_of(c->state, c->key, ids, MCP_BOXES_MAX);
    for (size_t i = 0; i < l->count; i++)
        memcpy(l->ids[i], ids[i], sizeof(l->ids[i]));
    activity_buf(&c->activity, &l->out, 8u << 20);
    c->stop = listing_stop;
    c->forget = listing_forget;
    listing_next(l);
}

/* ---- resources/read ---- */

/* In the legacy era a resource that is not there has a code of its own. */
static void not_found(struct mcp_call *c, const char *uri, const char *why)
{
    struct buf text cleanup_buf = {0};
    struct json_writer w;
    struct json *data = NULL;
    jw_begin(&w, &text, 2 * MCP_URI_MAX + 64);
    jw_kv_bytes(&w, "uri", uri, strnlen(uri, MCP_URI_MAX));
    jw_object_end(&w);
    json_parse(buf_text(&text), text.len, NULL, &data, NULL);
    mcp_fail(c, 200, c->modern ? RPC_INVALID_PARAMS : RPC_RESOURCE_NOT_FOUND, why, data);
    json_free(data);
}

static const char *uri_of(const struct mcp_call *c)
{
    return json_text(c->msg.params, "uri");
}

static void write_contents(struct mcp_file *f, const struct buf *data, const char *type,
                           enum long_form form)
{
    struct mcp_result r;
    result_begin(f->c, &r);
    jw_kv_array(&r.w, "contents");
    jw_object_begin(&r.w);
    jw_kv_string(&r.w, "uri", uri_of(f->c));
    jw_kv_string(&r.w, "mimeType", type);
    result_string(f->c, &r.w, form == LONG_TEXT ? "text" : "blob", data, form);
    jw_object_end(&r.w);
    jw_array_end(&r.w);
    result_cacheable(f->c, &r, 0, false);
    result_send(f->c, &r);
}

static void have_listed(struct mcp_file *f)
{
    if (f->error)
        not_found(f->c, uri_of(f->c), errno_text(f->error));
    else
        write_contents(f, &f->text, "inode/directory", LONG_TEXT);
}

static void have_read(struct mcp_file *f)
{
    struct box *b;
    struct mcp_uri uri;
    bool is_text;
    /* A folder is read as the list of what is in it. */
    if (f->error == EISDIR && uri_parse(uri_of(f->c), &uri, NULL) == 0 &&
        (b = box_find(f->c->activity.core, f->c->key, uri.session))) {
        f->op = FILES_LIST;
        f->error = 0;
        f->done = have_listed;
        file_begin(f, b, 1, MCP_ENTRIES_MAX);
        return;
    }
    if (f->error) {
        not_found(f->c, uri_of(f->c), errno_text(f->error));
        return;
    }
    is_text = file_is_text(f);
    write_contents(f, &f->data, mime_of(f->path, is_text), is_text ? LONG_TEXT : LONG_BASE64);
}

void mcp_resources_read(struct mcp_call *c)
{
    struct err err = ERR_INIT;
    struct mcp_uri uri;
    struct mcp_file *f;
    struct box *b;
    const struct json *asked = c->msg.params ? json_get(c->msg.params, "uri") : NULL;
    if (!asked || json_type(asked) != JSON_STRING) {
        mcp_fail(c, 200, RPC_INVALID_PARAMS, "uri is missing", NULL);
        return;
    }
    if (uri_parse(json_string(asked), &uri, &err) < 0) {
        not_found(c, json_string(asked), err.message);
        return;
    }
    b = box_id_valid(uri.session) ? box_find(c->activity.core, c->key, uri.session) : NULL;
    if (!b || box_info(b)->state != BOX_RUNNING) {
        not_found(c, json_string(asked), "there is no such session");
        return;
    }
    f = file_new(c, FILES_READ);
    if (!f)
        return;
    mcp_boxes_touch(c->state, b);
    memcpy(f->path, uri.path, sizeof(f->path));
    f->done = have_read;
    file_begin(f, b, 0, MCP_FILE_MAX);
}
