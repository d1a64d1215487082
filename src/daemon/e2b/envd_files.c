/* GET /files and the plain calls of filesystem.Filesystem. Uploads are in envd_upload.c, watching
 * in envd_watch.c. */
#include "base/container.h"
#include "daemon/e2b/envd.h"
#include "daemon/e2b/frames.h"

#include <ctype.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define READ_MIN   (4ull << 30)
#define LIST_PIECE (32u * 1024)

/* ---- GET /files ---- */

struct download {
    struct activity activity;
    struct work work;
    char path[QUERY_LEN];
    uint64_t left;
    bool begun;
};

static void download_stop(struct activity *a)
{
    work_stop(&container_of(a, struct download, activity)->work);
}

static void download_writable(struct activity *a)
{
    work_pause(&container_of(a, struct download, activity)->work, false);
}

static const struct activity_ops download_ops = {.stop = download_stop,
                                                 .writable = download_writable};

/* The name under which a browser keeps it: by a signed link it would be "files". The path is the
 * client's: each byte that could mean something in the header is written as its number. */
static void add_disposition(struct exchange *x, const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    char value[sizeof("attachment; filename*=UTF-8''") + (size_t)3 * NAME_MAX] = "attachment";
    size_t len = strlen(value);
    if (*name && strlen(name) <= NAME_MAX)
        len += (size_t)snprintf(value + len, sizeof(value) - len, "; filename*=UTF-8''");
    else
        name = "";
    for (; *name; name++) {
        unsigned char byte = (unsigned char)*name;
        bool plain = isascii(byte) && (isalnum(byte) || strchr("-._~", byte));
        len += (size_t)snprintf(value + len, sizeof(value) - len, plain ? "%c" : "%%%02X", byte);
    }
    exchange_add_header(x, "Content-Disposition", value);
}

static void download_head(void *ctx, int error, uint64_t size)
{
    struct download *d = ctx;
    struct exchange *x = d->activity.call->x;
    if (error)
        return; /* the end says it again */
    d->left = size;
    d->begun = true;
    exchange_add_header(x, "X-Content-Type-Options", "nosniff");
    add_disposition(x, d->path);
    exchange_begin(x, 200, "application/octet-stream", (int64_t)size);
}

static void download_data(void *ctx, const void *bytes, size_t len)
{
    struct download *d = ctx;
    if (!d->begun)
        return;
    if (len > d->left)
        len = (size_t)d->left;
    d->left -= len;
    if (len && !exchange_write(d->activity.call->x, bytes, len))
        work_pause(&d->work, true);
}

static void download_end(void *ctx, int error)
{
    struct download *d = ctx;
    if (!d->begun)
        work_fail(&d->activity, error ? error : EIO, d->path);
    else if (error || d->left)
        call_abort(activity_end(&d->activity));
    else
        call_end(activity_end(&d->activity));
}

static void download(struct call *call)
{
    struct err err = ERR_INIT;
    char path[QUERY_LEN] = "";
    struct box *b;
    int r = call_query(call, "path", path, sizeof(path));
    if (r < 0)
        return;
    if (!path[0]) {
        call_fail(call, 400, "path is missing");
        return;
    }
    b = call_sandbox(call);
    if (!b)
        return;
    struct download *d =
        activity_new(sizeof(*d), &download_ops, call->core, call->hold.account, &err);
    if (!d) {
        call_fail_err(call, &err);
        return;
    }
    const struct files_sink sink = {
        .head = download_head, .data = download_data, .end = download_end, .ctx = d};
    /* No more than the sandbox could have written: a sparse file may claim any size. */
    uint64_t disk = box_info(b)->disk;
    struct work_request request = {.op = FILES_READ,
                                   .path = d->path,
                                   .limit = disk > READ_MIN ? disk : READ_MIN,
                                   .as_root = call->as_root};
    memcpy(d->path, path, sizeof(path));
    activity_serve(&d->activity, call);
    call_watch(call);
    work_start(&d->work, &d->activity, b, &request, &sink, NULL);
}

/* ---- Stat, MakeDir, Remove, Move, ListDir ---- */

struct rpc {
    struct activity activity;
    struct work work;
    enum files_op op;
    struct buf out;
    struct json_writer w;
    char *path;     /* for messages */
    bool streaming; /* a long list: what is there goes out, and no more is read than is taken */
};

static void rpc_stop(struct activity *a)
{
    work_stop(&container_of(a, struct rpc, activity)->work);
}

static void rpc_done(struct activity *a)
{
    struct rpc *rpc = container_of(a, struct rpc, activity);
    buf_done(&rpc->out);
    free(rpc->path);
}

static void rpc_writable(struct activity *a)
{
    work_pause(&container_of(a, struct rpc, activity)->work, false);
}

static const struct activity_ops rpc_ops = {
    .stop = rpc_stop, .done = rpc_done, .writable = rpc_writable};

/* What has come so far is sent, and forgotten. */
static void rpc_send(struct rpc *rpc)
{
    struct exchange *x = rpc->activity.call->x;
    if (!rpc->streaming)
        exchange_begin(x, 200, CONNECT_UNARY, -1);
    rpc->streaming = true;
    if (!exchange_write(x, buf_text(&rpc->out), rpc->out.len))
        work_pause(&rpc->work, true);
    buf_reset(&rpc->out);
}

static void rpc_entry(void *ctx, const struct files_entry *e)
{
    struct rpc *rpc = ctx;
    if (rpc->out.failed)
        return;
    entry_write(&rpc->w, e);
    if (rpc->op == FILES_LIST && rpc->out.len >= LIST_PIECE && !rpc->out.failed)
        rpc_send(rpc);
}

static void rpc_reply(struct rpc *rpc)
{
    if (rpc->op == FILES_LIST)
        jw_array_end(&rpc->w);
    jw_object_end(&rpc->w);
    if (rpc->streaming) {
        rpc_send(rpc);
        call_end(activity_end(&rpc->activity));
    } else {
        call_reply(activity_end(&rpc->activity), 200, &rpc->out);
    }
}

static void rpc_end(void *ctx, int error)
{
    struct rpc *rpc = ctx;
    struct err err = ERR_INIT;
    if (error == ENOENT && rpc->op == FILES_REMOVE)
        error = 0; /* it is not there, as was wanted */
    if (rpc->streaming && (error || rpc->out.failed))
        /* An answer that has begun can only be cut off: its client sees that it is not complete. */
        call_abort(activity_end(&rpc->activity));
    else if (rpc->out.failed && hold_refusal(&rpc->activity.hold, &err) < 0)
        call_fail_err(activity_end(&rpc->activity), &err);
    else if (error == ENOSPC || error == EDQUOT)
        call_fail(activity_end(&rpc->activity), 429, "%.256s: %s", rpc->path, errno_text(error));
    else if (error)
        work_fail(&rpc->activity, error, rpc->path);
    else
        rpc_reply(rpc);
}

/* NULL: no memory, or *err says whose account has none. */
static struct rpc *rpc_new(const struct call *call, const struct work_request *r, struct err *err)
{
    struct rpc *rpc = activity_new(sizeof(*rpc), &rpc_ops, call->core, call->hold.account, err);
    if (!rpc)
        return NULL;
    rpc->path = strdup(r->path);
    if (!rpc->path) {
        err_memory(err);
        activity_end(&rpc->activity);
        return NULL;
    }
    rpc->op = r->op;
    activity_buf(&rpc->activity, &rpc->out, 32 * LIST_PIECE);
    jw_init(&rpc->w, &rpc->out, false);
    jw_object_begin(&rpc->w);
    if (r->op == FILES_LIST) {
        jw_kv_array(&rpc->w, "entries");
    } else if (r->op != FILES_REMOVE) {
        jw_key(&rpc->w, "entry");
    }
    return rpc;
}

static void rpc_start(struct call *call, const struct work_request *r)
{
    struct err err = ERR_INIT;
    struct box *b = call_sandbox(call);
    if (!b)
        return;
    struct rpc *rpc = rpc_new(call, r, &err);
    if (!rpc) {
        call_fail_err(call, &err);
        return;
    }
    const struct files_sink sink = {.entry = rpc_entry, .end = rpc_end, .ctx = rpc};
    activity_serve(&rpc->activity, call);
    work_start(&rpc->work, &rpc->activity, b, r, &sink, NULL);
}

static enum files_op rpc_op(const struct call *call)
{
    static const struct {
        const char *path;
        enum files_op op;
    } ops[] = {
        {"/filesystem.Filesystem/Stat", FILES_STAT},
        {"/filesystem.Filesystem/MakeDir", FILES_MKDIR},
        {"/filesystem.Filesystem/Remove", FILES_REMOVE},
        {"/filesystem.Filesystem/Move", FILES_MOVE},
        {"/filesystem.Filesystem/ListDir", FILES_LIST},
    };
    for (size_t i = 0; i < ARRAY_LEN(ops); i++)
        if (!strcmp(call->route->path, ops[i].path))
            return ops[i].op;
    return FILES_NONE;
}

static void rpc_body(struct call *call, const struct json *body)
{
    struct work_request r = {.op = rpc_op(call), .as_root = call->as_root};
    const char *source = NULL;
    int64_t depth = 1;
    const struct field fields[] = {
        {"path", FIELD_STRING, &r.path},
        {"source", FIELD_STRING, &source},
        {"destination", FIELD_STRING, &r.to},
        {"depth", FIELD_INT, &depth, 0, UINT32_MAX},
    };
    if (!CALL_FIELDS(call, body, FIELDS_PROTO, fields))
        return;
    if (r.op == FILES_MOVE)
        r.path = source;
    else
        r.to = NULL;
    if (!r.path || !*r.path || (r.op == FILES_MOVE && (!r.to || !*r.to))) {
        call_fail(call, 400, "a path is missing");
        return;
    }
    if (r.op == FILES_LIST)
        r.depth = depth < 1 ? 1 : depth > FILES_DEPTH_MAX ? FILES_DEPTH_MAX : (uint32_t)depth;
    rpc_start(call, &r);
}

/* ---- the rest of envd's plain HTTP ---- */

static void health(struct call *call)
{
    if (call_sandbox(call))
        call_empty(call, 204);
}

static void no_envs(struct call *call)
{
    if (call_sandbox(call))
        call_text(call, 200, "application/json", "{}", 2);
}

const struct route files_routes[] = {
    {"GET", "/health", ERRORS_API, false, health},
    {"GET", "/envs", ERRORS_API, false, no_envs},
    {"GET", "/files", ERRORS_API, false, download},
    {"POST", "/files", ERRORS_API, false, envd_upload},
    {"POST", "/filesystem.Filesystem/Stat", ERRORS_CONNECT, false, .body = rpc_body},
    {"POST", "/filesystem.Filesystem/MakeDir", ERRORS_CONNECT, false, .body = rpc_body},
    {"POST", "/filesystem.Filesystem/Remove", ERRORS_CONNECT, false, .body = rpc_body},
    {"POST", "/filesystem.Filesystem/Move", ERRORS_CONNECT, false, .body = rpc_body},
    {"POST", "/filesystem.Filesystem/ListDir", ERRORS_CONNECT, false, .body = rpc_body},
    {"POST", "/filesystem.Filesystem/WatchDir", ERRORS_CONNECT_STREAM, false,
     .body = envd_watch_dir},
    {"POST", "/filesystem.Filesystem/CreateWatcher", ERRORS_CONNECT, false,
     .body = envd_watcher_create},
    {"POST", "/filesystem.Filesystem/GetWatcherEvents", ERRORS_CONNECT, false,
     .body = envd_watcher_events},
    {"POST", "/filesystem.Filesystem/RemoveWatcher", ERRORS_CONNECT, false,
     .body = envd_watcher_remove},
    {0},
};
