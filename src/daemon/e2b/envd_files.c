/* GET /files and the plain calls of filesystem.Filesystem. Uploads are in envd_upload.c, watching
 * in envd_watch.c. */
#include "daemon/e2b/envd.h"
#include "daemon/e2b/frames.h"

#include <stdlib.h>
#include <string.h>

#define READ_MIN   (4ull << 30)
#define LIST_PIECE (32u * 1024)

/* ---- GET /files ---- */

struct download {
    char path[QUERY_LEN];
    uint64_t left;
    bool begun;
};

static void download_gone(struct call *call)
{
    struct work *w = call->data;
    w->call = NULL;
    work_close(w);
    call_ended(call);
}

static void download_writable(struct call *call)
{
    struct work *w = call->data;
    if (!w->closing)
        file_pause(w->file, false);
}

static void download_head(void *ctx, int error, uint64_t size)
{
    struct work *w = ctx;
    struct download *d = w->data;
    if (!w->call || error)
        return; /* the end says it again */
    d->left = size;
    d->begun = true;
    exchange_add_header(w->call->x, "X-Content-Type-Options", "nosniff");
    exchange_add_header(w->call->x, "Content-Disposition", "attachment");
    exchange_begin(w->call->x, 200, "application/octet-stream", (int64_t)size);
}

static void download_data(void *ctx, const void *bytes, size_t len)
{
    struct work *w = ctx;
    struct download *d = w->data;
    if (!w->call || !d->begun)
        return;
    if (len > d->left)
        len = (size_t)d->left;
    d->left -= len;
    if (len && !exchange_write(w->call->x, bytes, len))
        file_pause(w->file, true);
}

static void download_end(void *ctx, int error)
{
    struct work *w = ctx;
    struct download *d = w->data;
    struct call *call = w->call;
    if (!call)
        return;
    if (!d->begun) {
        work_fail(w, error ? error : EIO, d->path);
        return;
    }
    w->call = NULL;
    if (error || d->left)
        exchange_abort(call->x);
    else
        exchange_end(call->x);
    call_ended(call);
    work_close(w);
}

static void download_started(struct work *w, int in_fd, const struct err *err)
{
    if (err) {
        work_refuse(w, err);
        return;
    }
    w->call->data = w;
    w->call->on_gone = download_gone;
    w->call->on_writable = download_writable;
}

static void download(struct call *call)
{
    static const struct files_sink sink = {
        .head = download_head, .data = download_data, .end = download_end};
    struct download *d = calloc(1, sizeof(*d));
    struct box *b;
    int r = d ? call_query(call, "path", d->path, sizeof(d->path)) : -1;
    if (!d)
        call_fail_memory(call);
    if (r <= 0 || !d->path[0]) {
        if (r >= 0)
            call_fail(call, 400, "path is missing");
        free(d);
        return;
    }
    b = call_sandbox(call);
    if (!b) {
        free(d);
        return;
    }
    /* No more than the sandbox could have written: a sparse file may claim any size. */
    uint64_t disk = box_info(b)->disk;
    struct work_request request = {
        .op = FILES_READ, .path = d->path, .limit = disk > READ_MIN ? disk : READ_MIN};
    call_watch(call);
    work_start(call, b, &request, &sink, download_started, d, free);
}

/* ---- Stat, MakeDir, Remove, Move, ListDir ---- */

struct rpc {
    enum files_op op;
    struct hold hold;
    struct buf out;
    struct json_writer w;
    char *path;     /* for messages */
    bool streaming; /* a long list: what is there goes out, and no more is read than is taken */
};

static void rpc_gone(struct call *call)
{
    struct work *w = call->data;
    w->call = NULL;
    work_close(w);
    call_ended(call);
}

static void rpc_writable(struct call *call)
{
    struct work *w = call->data;
    if (!w->closing)
        file_pause(w->file, false);
}

static void rpc_forget(void *data)
{
    struct rpc *rpc = data;
    buf_done(&rpc->out);
    hold_done(&rpc->hold);
    free(rpc->path);
    free(rpc);
}

static void rpc_started(struct work *w, int in_fd, const struct err *err)
{
    if (err) {
        work_refuse(w, err);
        return;
    }
    w->call->data = w;
    w->call->on_gone = rpc_gone;
    w->call->on_writable = rpc_writable;
}

/* What has come so far is sent, and forgotten. */
static void rpc_send(struct work *w, struct rpc *rpc)
{
    struct exchange *x = w->call->x;
    if (!rpc->streaming)
        exchange_begin(x, 200, CONNECT_UNARY, -1);
    rpc->streaming = true;
    if (!exchange_write(x, buf_text(&rpc->out), rpc->out.len))
        file_pause(w->file, true);
    buf_reset(&rpc->out);
}

static void rpc_entry(void *ctx, const struct files_entry *e)
{
    struct work *w = ctx;
    struct rpc *rpc = w->data;
    if (!w->call || rpc->out.failed)
        return;
    entry_write(&rpc->w, e);
    if (rpc->op == FILES_LIST && rpc->out.len >= LIST_PIECE && !rpc->out.failed)
        rpc_send(w, rpc);
}

/* An answer that has begun can only be cut off: its client sees that it is not complete. */
static void rpc_abort(struct work *w)
{
    struct call *call = w->call;
    w->call = NULL;
    exchange_abort(call->x);
    call_ended(call);
    work_close(w);
}

static void rpc_reply(struct work *w, struct rpc *rpc)
{
    struct call *call = w->call;
    if (rpc->op == FILES_LIST)
        jw_array_end(&rpc->w);
    jw_object_end(&rpc->w);
    if (rpc->streaming) {
        rpc_send(w, rpc);
        w->call = NULL;
        exchange_end(call->x);
        call_ended(call);
    } else {
        w->call = NULL;
        call_reply(call, 200, &rpc->out);
    }
    work_close(w);
}

static void rpc_end(void *ctx, int error)
{
    struct work *w = ctx;
    struct rpc *rpc = w->data;
    struct err err = ERR_INIT;
    if (!w->call)
        return;
    if (error == ENOENT && rpc->op == FILES_REMOVE)
        error = 0; /* it is not there, as was wanted */
    if (rpc->streaming && (error || rpc->out.failed)) {
        rpc_abort(w);
    } else if (rpc->out.failed && hold_refusal(&rpc->hold, &err) < 0) {
        work_refuse(w, &err);
    } else if (error == ENOSPC || error == EDQUOT) {
        struct call *call = w->call;
        w->call = NULL;
        call_fail(call, 429, "%.256s: %s", rpc->path, errno_text(error));
        work_close(w);
    } else if (error) {
        work_fail(w, error, rpc->path);
    } else {
        rpc_reply(w, rpc);
    }
}

static void rpc_head(void *ctx, int error, uint64_t size)
{
}

static struct rpc *rpc_new(const struct call *call, const struct work_request *r)
{
    struct rpc *rpc = calloc(1, sizeof(*rpc));
    char *path = strdup(r->path);
    if (!rpc || !path) {
        free(rpc);
        free(path);
        return NULL;
    }
    rpc->path = path;
    rpc->op = r->op;
    hold_init(&rpc->hold, call->hold.account);
    buf_init_metered(&rpc->out, 32 * LIST_PIECE, &rpc->hold.meter);
    jw_init(&rpc->w, &rpc->out, false);
    jw_object_begin(&rpc->w);
    if (r->op == FILES_LIST) {
        jw_key(&rpc->w, "entries");
        jw_array_begin(&rpc->w);
    } else if (r->op != FILES_REMOVE) {
        jw_key(&rpc->w, "entry");
    }
    return rpc;
}

static void rpc_start(struct call *call, const struct work_request *r)
{
    static const struct files_sink sink = {.head = rpc_head, .entry = rpc_entry, .end = rpc_end};
    struct rpc *rpc;
    struct box *b = call_sandbox(call);
    if (!b)
        return;
    rpc = rpc_new(call, r);
    if (rpc)
        work_start(call, b, r, &sink, rpc_started, rpc, rpc_forget);
    else
        call_fail_memory(call);
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
    struct err err = ERR_INIT;
    struct work_request r = {.op = rpc_op(call)};
    const char *source = NULL;
    int64_t depth = 1;
    const struct field fields[] = {
        {"path", FIELD_STRING, &r.path},
        {"source", FIELD_STRING, &source},
        {"destination", FIELD_STRING, &r.to},
        {"depth", FIELD_INT, &depth, 0, UINT32_MAX},
    };
    if (FIELDS_READ(body, FIELDS_PROTO, fields, &err) < 0) {
        call_fail_err(call, &err);
        return;
    }
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

static void rpc(struct call *call)
{
    call_json(call, rpc_body);
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
    {"POST", "/filesystem.Filesystem/Stat", ERRORS_CONNECT, false, rpc},
    {"POST", "/filesystem.Filesystem/MakeDir", ERRORS_CONNECT, false, rpc},
    {"POST", "/filesystem.Filesystem/Remove", ERRORS_CONNECT, false, rpc},
    {"POST", "/filesystem.Filesystem/Move", ERRORS_CONNECT, false, rpc},
    {"POST", "/filesystem.Filesystem/ListDir", ERRORS_CONNECT, false, rpc},
    {"POST", "/filesystem.Filesystem/WatchDir", ERRORS_CONNECT_STREAM, false, envd_watch_dir},
    {"POST", "/filesystem.Filesystem/CreateWatcher", ERRORS_CONNECT, false, envd_watcher_create},
    {"POST", "/filesystem.Filesystem/GetWatcherEvents", ERRORS_CONNECT, false, envd_watcher_events},
    {"POST", "/filesystem.Filesystem/RemoveWatcher", ERRORS_CONNECT, false, envd_watcher_remove},
    {0},
};
