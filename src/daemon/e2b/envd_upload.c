/* POST /files: one file as it is, or several in a form. Each goes through a pipe to a worker inside
 * and is not seen there before it is complete; what the client sends waits in its socket while the
 * pipe is full. */
#include "daemon/e2b/envd.h"

#include "base/container.h"
#include "daemon/e2b/gunzip.h"
#include "http/multipart.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#define FILES_PER_REQUEST 1000
#define REST_MAX          (1u << 20)
#define GUNZIP_BYTES      (48u * 1024) /* what inflate keeps */
#define UNPACK_PIECE      (32u * 1024)
#define UNPACK_PIECES     32 /* then others have their turn */

enum upload_state {
    UPLOAD_BETWEEN,  /* no file is open */
    UPLOAD_STARTING, /* its worker is on the way */
    UPLOAD_WRITING,
    UPLOAD_CLOSING, /* all is written; the worker has the last word */
};

struct upload {
    struct activity activity;
    struct work work;
    enum upload_state state;
    bool is_form, body_done, reading;
    bool skipping; /* a part of the form that is no file */
    struct multipart form;
    struct gunzip *gunzip; /* NULL: the body is the file as it is */
    char fixed[QUERY_LEN]; /* path from the query, or empty */
    char path[FILES_PATH_MAX + 1];
    struct loop_io pipe;
    struct buf rest; /* what the pipe did not take */
    unsigned count;
    struct buf out;
    struct json_writer w;
    struct loop_task again;
};

/* The worker first, then its input: the end of the input alone would complete the file. */
static void upload_stop(struct activity *a)
{
    struct upload *u = container_of(a, struct upload, activity);
    work_stop(&u->work);
    loop_close(a->loop, &u->pipe);
    loop_undefer(a->loop, &u->again);
}

static void upload_free(struct activity *a)
{
    struct upload *u = container_of(a, struct upload, activity);
    gunzip_free(u->gunzip);
    buf_done(&u->rest);
    buf_done(&u->out);
}

static const struct activity_ops upload_ops = {.stop = upload_stop, .done = upload_free};

static void upload_fail(struct upload *u, int status, const char *text)
{
    call_fail(activity_end(&u->activity), status, "%s", text);
}

static void upload_reply(struct upload *u)
{
    struct err err = ERR_INIT;
    if (!u->count) {
        upload_fail(u, 400, "there is no file in the request");
        return;
    }
    jw_array_end(&u->w);
    struct call *call = activity_end(&u->activity);
    if (u->out.failed && hold_refusal(&u->activity.hold, &err) < 0)
        call_fail_err(call, &err);
    else
        call_reply(call, 200, &u->out);
}

/* ---- into the pipe ---- */

static void flush_rest(struct upload *u)
{
    while (u->rest.len) {
        ssize_t n = write(u->pipe.fd, u->rest.data, u->rest.len);
        if (n < 0 && errno == EAGAIN)
            break;
        if (n < 0) {
            /* The worker gave up and says why on its own pipe. */
            buf_reset(&u->rest);
            break;
        }
        buf_drop(&u->rest, (size_t)n);
    }
    if (!u->rest.len)
        buf_release(&u->rest);
    loop_watch(u->activity.loop, &u->pipe, u->rest.len ? EPOLLOUT : 0);
}

static void file_close(struct upload *u)
{
    loop_close(u->activity.loop, &u->pipe);
    u->state = UPLOAD_CLOSING;
}

static bool unpack(struct upload *u, const char *data, size_t len, size_t *taken);

static bool is_unpacking(const struct upload *u)
{
    return u->gunzip && gunzip_has_more(u->gunzip);
}

/* The pipe takes more. */
static void advance(struct upload *u)
{
    size_t taken;
    if (is_unpacking(u) && (!unpack(u, NULL, 0, &taken) || is_unpacking(u) || u->rest.len))
        return;
    if (!u->body_done)
        exchange_body_resume(u->activity.call->x);
    else if (u->gunzip && !gunzip_complete(u->gunzip))
        upload_fail(u, 400, "gzip: the body is cut off");
    else
        file_close(u);
}

static void upload_again(struct loop_task *t)
{
    advance(container_of(t, struct upload, again));
}

static void on_pipe(struct loop_io *io, uint32_t events)
{
    struct upload *u = container_of(io, struct upload, pipe);
    /* A reader that is gone is an error that epoll reports whether asked or not. */
    if (events & EPOLLERR) {
        buf_reset(&u->rest);
        loop_forget(u->activity.loop, &u->pipe);
    } else {
        flush_rest(u);
    }
    if (!u->rest.len)
        advance(u);
}

/* False: there is no room for what the pipe did not take, and the upload is gone. */
static bool feed(struct upload *u, const char *data, size_t len)
{
    struct err err = ERR_INIT;
    ssize_t n = write(u->pipe.fd, data, len);
    if (n < 0)
        n = errno == EAGAIN ? 0 : (ssize_t)len;
    if ((size_t)n == len)
        return true;
    buf_add(&u->rest, data + n, len - (size_t)n);
    if (!u->rest.failed) {
        loop_watch(u->activity.loop, &u->pipe, EPOLLOUT);
        return true;
    }
    bool refused = hold_refusal(&u->activity.hold, &err) < 0;
    upload_fail(u, refused ? 429 : 503, refused ? err.message : ERR_MEMORY_TEXT);
    return false;
}

/* Until the pipe is full, there is nothing left to unpack, or others have waited long enough.
 * False: the upload is gone. */
static bool unpack(struct upload *u, const char *data, size_t len, size_t *taken)
{
    char piece[UNPACK_PIECE];
    bool more = true;
    *taken = 0;
    for (unsigned i = 0; more && !u->rest.len && i < UNPACK_PIECES; i++) {
        struct err err = ERR_INIT;
        size_t used, made;
        if (gunzip_step(u->gunzip, data ? data + *taken : NULL, len - *taken, &used, piece,
                        sizeof(piece), &made, &err) < 0) {
            upload_fail(u, 400, err.message);
            return false;
        }
        *taken += used;
        if (!feed(u, piece, made))
            return false;
        more = *taken < len || is_unpacking(u);
    }
    if (more && !u->rest.len)
        loop_defer(u->activity.loop, &u->again);
    return true;
}

/* ---- one file ---- */

static void write_result(struct upload *u)
{
    const char *slash;
    const struct http_headers *h = &exchange_request(u->activity.call->x)->headers;
    slash = strrchr(u->path, '/');
    jw_object_begin(&u->w);
    path_write(&u->w, "name", slash + 1);
    jw_kv_string(&u->w, "type", "file");
    path_write(&u->w, "path", u->path);
    if (work_has_metadata(h))
        work_write_metadata(&u->w, h);
    jw_object_end(&u->w);
    u->count++;
}

static void file_end(void *ctx, int error)
{
    struct upload *u = ctx;
    if (error) {
        work_fail(&u->activity, error, u->path);
        return;
    }
    write_result(u);
    work_stop(&u->work);
    u->state = UPLOAD_BETWEEN;
    if (u->body_done)
        upload_reply(u);
    else
        exchange_body_resume(u->activity.call->x);
}

static void start_reading(struct upload *u);

static void file_started(void *ctx, int in_fd, const struct err *err)
{
    struct upload *u = ctx;
    if (err) {
        call_fail_err(activity_end(&u->activity), err);
        return;
    }
    u->state = UPLOAD_WRITING;
    u->pipe = (struct loop_io){
        .fd = in_fd, .fn = on_pipe, .share = account_share(u->activity.hold.account)};
    if (u->reading)
        exchange_body_resume(u->activity.call->x);
    else
        start_reading(u);
}

/* False: the call is answered and the upload gone. */
static bool file_open(struct upload *u, const char *path)
{
    const struct files_sink sink = {.end = file_end, .ctx = u};
    struct call *call = u->activity.call;
    struct box *b = box_find_any(call->core, call->id);
    if (!b || strlen(path) > FILES_PATH_MAX - sizeof(HOME_PATH) || !*path) {
        upload_fail(u, b ? 400 : 502, b ? "a file without a good path" : "the sandbox is gone");
        return false;
    }
    path_absolute(b, call->as_root, path, u->path);
    u->state = UPLOAD_STARTING;
    struct work_request r = {
        .op = FILES_WRITE,
        .path = u->path,
        .as_root = call->as_root,
        .metadata = &exchange_request(call->x)->headers,
    };
    work_start(&u->work, &u->activity, b, &r, &sink, file_started);
    return true;
}

/* ---- the body ---- */

/* What a part of the form asks for. False: the upload is gone. */
static bool on_part(struct upload *u)
{
    const char *path = u->fixed[0] ? u->fixed : u->form.has_filename ? u->form.filename : "";
    u->skipping = strcmp(u->form.name, "file") != 0;
    if (u->skipping)
        return true;
    if (!*path) {
        upload_fail(u, 400, "multipart: a \"file\" needs a filename, or the request a \"path\"");
        return false;
    }
    if (u->count >= FILES_PER_REQUEST || (u->fixed[0] && u->count)) {
        upload_fail(u, 400, "too many files in one request");
        return false;
    }
    return file_open(u, path);
}

/* False: the upload is gone. */
static bool on_form_event(struct upload *u, enum multipart_event event)
{
    switch (event) {
    case MULTIPART_PART:
        return on_part(u);
    case MULTIPART_DATA:
        return u->skipping || feed(u, u->form.data, u->form.data_len);
    case MULTIPART_END:
        if (!u->skipping)
            file_close(u);
        u->skipping = false;
        break;
    case MULTIPART_DONE:
    case MULTIPART_MORE:
        break;
    }
    return true;
}

static bool may_go_on(const struct upload *u)
{
    return (u->state == UPLOAD_BETWEEN || u->state == UPLOAD_WRITING) && !u->rest.len &&
           !is_unpacking(u);
}

static size_t take_form(struct upload *u, const char *data, size_t len)
{
    size_t taken = 0;
    while (taken < len && may_go_on(u)) {
        struct err err = ERR_INIT;
        enum multipart_event event;
        ssize_t n = multipart_read(&u->form, data + taken, len - taken, &event, &err);
        if (n < 0) {
            upload_fail(u, 400, err.message);
            return len;
        }
        taken += (size_t)n;
        if (!on_form_event(u, event))
            return len;
    }
    return taken;
}

static size_t upload_take(void *ctx, const char *data, size_t len)
{
    struct upload *u = ctx;
    size_t taken = len;
    if (u->is_form)
        return take_form(u, data, len);
    if (!may_go_on(u))
        return 0;
    if (u->gunzip)
        return unpack(u, data, len, &taken) ? taken : len;
    feed(u, data, len);
    return len;
}

static void upload_done(void *ctx, bool good)
{
    struct upload *u = ctx;
    if (!good) {
        activity_gone(&u->activity);
        return;
    }
    u->body_done = true;
    call_watch(u->activity.call);
    if (u->is_form && !multipart_complete(&u->form)) {
        upload_fail(u, 400, "multipart: the body is cut off");
    } else if (u->gunzip && !is_unpacking(u) && !gunzip_complete(u->gunzip)) {
        upload_fail(u, 400, "gzip: the body is cut off");
    } else if (u->state == UPLOAD_BETWEEN) {
        upload_reply(u);
    } else if (u->state == UPLOAD_WRITING && !u->rest.len && !is_unpacking(u)) {
        file_close(u);
    }
}

static void start_reading(struct upload *u)
{
    u->reading = true;
    exchange_read_stream(u->activity.call->x, upload_take, upload_done, u);
}

/* ---- the request ---- */

/* NULL: no memory, or *err says whose account has none. */
static struct upload *upload_new(struct call *call, bool is_packed, struct err *err)
{
    struct upload *u = activity_new(sizeof(*u), &upload_ops, call->core, call->hold.account, err);
    if (!u)
        return NULL;
    u->again.fn = upload_again;
    u->pipe.fd = -1;
    if ((is_packed && hold_add(&u->activity.hold, GUNZIP_BYTES, err) < 0) ||
        (is_packed && gunzip_new(&u->gunzip, err) < 0)) {
        activity_end(&u->activity);
        return NULL;
    }
    activity_buf(&u->activity, &u->rest, REST_MAX);
    activity_buf(&u->activity, &u->out, 4u << 20);
    jw_init(&u->w, &u->out, false);
    jw_array_begin(&u->w);
    return u;
}

void envd_upload(struct call *call)
{
    const char *type = exchange_header(call->x, "Content-Type");
    const char *coding = exchange_header(call->x, "Content-Encoding");
    struct err err = ERR_INIT;
    struct upload *u;
    bool is_form = type && !strncasecmp(type, "multipart/", 10);
    bool is_packed = coding && !strcasecmp(coding, "gzip") && !is_form;
    if (coding && strcasecmp(coding, "identity") != 0 && !is_packed) {
        call_fail(call, 415, "Content-Encoding %.32s is not offered", coding);
        return;
    }
    if (!call_sandbox(call))
        return;
    u = upload_new(call, is_packed, &err);
    if (!u) {
        call_fail_err(call, &err);
        return;
    }
    if (is_packed)
        exchange_take_coded(call->x);
    activity_serve(&u->activity, call);
    u->is_form = is_form;
    if (target_query(exchange_request(call->x)->target, "path", u->fixed, sizeof(u->fixed), &err) <
            0 ||
        (u->is_form && multipart_init(&u->form, type, &err) < 0))
        upload_fail(u, 400, err.message);
    else if (u->is_form)
        start_reading(u);
    else
        file_open(u, u->fixed);
}
