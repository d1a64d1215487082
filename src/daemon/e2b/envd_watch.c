/* Watching folders: WatchDir as a stream, and the same for clients that come and ask
 * (CreateWatcher, GetWatcherEvents, RemoveWatcher).
 *
 * The worker inside says what changed; with includeEntry another one is asked, one at a time, what
 * stands there now, and events wait for it in their order. Everything is bounded: events that wait,
 * and their bytes, which their key answers for; watchers of a key and of a sandbox, time without
 * anybody asking. A watcher ends with its sandbox. */
#include "base/container.h"
#include "daemon/e2b/envd.h"
#include "daemon/e2b/frames.h"

#include "base/base64.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define EVENTS_MAX       10000
#define WATCHERS_PER_BOX 64
#define ANSWER_ENOUGH    (256u * 1024) /* what is more comes with the next answer */
#define IDLE_MS          (10 * 60 * 1000)

struct event {
    struct event *next;
    enum files_event_kind kind;
    bool ready;
    struct buf entry; /* JSON, or empty */
    char name[];
};

struct watch {
    struct loop *loop;
    struct core *core;
    struct box_dependent of_box;
    struct hold hold;
    char box_id[BOX_ID_LEN + 1];
    struct call *call; /* of a stream, or of a create that is not answered yet */
    bool is_stream, started, ended, closing, lost;
    char path[FILES_PATH_MAX + 1];
    bool recursive, include_entry;
    struct file_work *file, *stat;
    bool stat_starting;
    unsigned pending; /* callbacks to come */
    struct event *first, **end;
    unsigned queued;
    uint64_t keepalive_ms;
    struct loop_timer keepalive, deadline; /* of one who asks: the time without questions */
    struct loop_task release;
    struct watch *next; /* of those who ask */
    char id[24];
};

static struct watch *watchers;

/* ---- the end ---- */

static size_t event_size(const char *name)
{
    return sizeof(struct event) + strlen(name) + 1;
}

static void event_free(struct watch *w, struct event *e)
{
    buf_done(&e->entry);
    hold_sub(&w->hold, event_size(e->name));
    free(e);
}

static void watch_free(struct loop_task *t)
{
    struct watch *w = container_of(t, struct watch, release);
    if (w->pending)
        return; /* the last callback comes back here */
    if (w->file)
        file_cancel(w->file);
    if (w->stat)
        file_cancel(w->stat);
    while (w->first) {
        struct event *e = w->first;
        w->first = e->next;
        event_free(w, e);
    }
    account_return(w->hold.account, ACCOUNT_WATCHERS, 1);
    hold_done(&w->hold);
    free(w);
}

static void watch_unlist(struct watch *w)
{
    for (struct watch **at = &watchers; *at; at = &(*at)->next) {
        if (*at == w) {
            *at = w->next;
            return;
        }
    }
}

static void watch_close(struct watch *w)
{
    if (w->closing)
        return;
    w->closing = true;
    w->call = NULL;
    box_undepend(&w->of_box);
    loop_timer_cancel(w->loop, &w->keepalive);
    loop_timer_cancel(w->loop, &w->deadline);
    if (!w->is_stream)
        watch_unlist(w);
    loop_defer(w->loop, &w->release);
}

/* A callback has come: false, nobody wants it any more. */
static bool watch_back(struct watch *w)
{
    w->pending--;
    if (w->closing)
        loop_defer(w->loop, &w->release);
    return !w->closing;
}

static void watch_finish(struct watch *w, const char *code, const char *message)
{
    struct call *call = w->call;
    watch_close(w);
    frames_finish(call, code, message);
}

static void watch_cut(struct watch *w)
{
    struct call *call = w->call;
    watch_close(w);
    frames_cut(call);
}

static void watch_gone(struct call *call)
{
    watch_close(call->data);
    call_ended(call);
}

static void watch_writable(struct call *call)
{
    struct watch *w = call->data;
    if (w->file && !w->closing)
        file_pause(w->file, false);
}

/* ---- events ---- */

static void write_event(struct json_writer *w, const struct event *e)
{
    static const char *const kinds[] = {[FILES_CREATE] = "EVENT_TYPE_CREATE",
                                        [FILES_MODIFY] = "EVENT_TYPE_WRITE",
                                        [FILES_DELETE] = "EVENT_TYPE_REMOVE",
                                        [FILES_RENAME] = "EVENT_TYPE_RENAME",
                                        [FILES_CHMOD] = "EVENT_TYPE_CHMOD"};
    jw_object_begin(w);
    jw_key(w, "name");
    jw_bytes(w, e->name, strlen(e->name));
    jw_kv_string(w, "type", kinds[e->kind]);
    if (e->entry.len && !e->entry.failed) {
        struct json *entry = NULL;
        if (json_parse(e->entry.data, e->entry.len, NULL, &entry, NULL) == 0) {
            jw_key(w, "entry");
            jw_json(w, entry);
        }
        json_free(entry);
    }
    jw_object_end(w);
}

static struct event *event_pop(struct watch *w)
{
    struct event *e = w->first;
    w->first = e->next;
    if (!w->first)
        w->end = &w->first;
    w->queued--;
    return e;
}

static void rearm_keepalive(struct watch *w)
{
    if (w->keepalive_ms)
        loop_timer_set(w->loop, &w->keepalive, w->keepalive_ms);
}

static void send_ready(struct watch *w)
{
    while (w->is_stream && w->call && w->first && w->first->ready) {
        struct event *e = event_pop(w);
        struct frame f;
        frame_begin(&f, 64u * 1024);
        jw_object_begin(&f.w);
        jw_key(&f.w, "filesystem");
        write_event(&f.w, e);
        jw_object_end(&f.w);
        event_free(w, e);
        rearm_keepalive(w);
        if (!frame_send(&f, w->call))
            file_pause(w->file, true);
    }
}

static void ask_next(struct watch *w);

static struct event *first_waiting(struct watch *w)
{
    struct event *e = w->first;
    while (e && e->ready)
        e = e->next;
    return e;
}

static void stat_entry(void *ctx, const struct files_entry *entry)
{
    struct watch *w = ctx;
    struct event *e = w->closing ? NULL : first_waiting(w);
    struct json_writer writer;
    if (!e)
        return;
    buf_init_metered(&e->entry, 64u * 1024, &w->hold.meter);
    jw_init(&writer, &e->entry, false);
    entry_write(&writer, entry);
    if (e->entry.failed) { /* told without it */
        hold_refusal(&w->hold, NULL);
        buf_release(&e->entry);
    }
}

static void stat_release(struct watch *w)
{
    struct event *e = first_waiting(w);
    if (e)
        e->ready = true;
    send_ready(w);
    ask_next(w);
}

static void stat_end(void *ctx, int error)
{
    struct watch *w = ctx;
    if (w->closing)
        return;
    /* The memory is freed by the next request or at the end. */
    w->stat_starting = false;
    stat_release(w);
}

static void stat_head(void *ctx, int error, uint64_t size)
{
}

static void stat_started(void *ctx, struct file_work *file, int in_fd, const struct err *err)
{
    struct watch *w = ctx;
    w->stat = file;
    if (!watch_back(w))
        return;
    if (!file) {
        w->stat_starting = false;
        stat_release(w);
    }
}

static bool write_question(struct buf *out, const struct watch *w, const struct event *e)
{
    struct json_writer writer;
    char path[FILES_PATH_MAX + FILES_TEXT_MAX + 2];
    snprintf(path, sizeof(path), "%s/%s", w->path, e->name);
    buf_init(out, 32u * 1024);
    jw_init(&writer, out, false);
    jw_object_begin(&writer);
    jw_kv_string(&writer, "op", files_op_name(FILES_STAT));
    jw_kv_string(&writer, "path", path);
    jw_object_end(&writer);
    return !out->failed;
}

static void ask_next(struct watch *w)
{
    static const struct files_sink model = {
        .head = stat_head, .entry = stat_entry, .end = stat_end};
    struct event *e = first_waiting(w);
    struct box *b = box_find_any(w->core, w->box_id);
    struct files_sink sink = model;
    struct buf text cleanup_buf = {0};
    if (!e || !b || w->closing || w->stat_starting || !write_question(&text, w, e))
        return;
    if (w->stat)
        file_cancel(w->stat);
    w->stat = NULL;
    w->stat_starting = true;
    w->pending++;
    sink.ctx = w;
    file_start(b, text.data, text.len, FILES_STAT, &sink, stat_started, w);
}

static void on_event(void *ctx, const struct files_event *said)
{
    struct watch *w = ctx;
    size_t size = event_size(said->name);
    struct event *e = NULL;
    if (w->closing || said->kind < FILES_CREATE || said->kind > FILES_CHMOD)
        return;
    /* Once events were lost, keep no more until the client was told so. */
    if (!w->lost && w->queued < EVENTS_MAX && hold_add(&w->hold, size, NULL) == 0 &&
        !(e = calloc(1, size)))
        hold_sub(&w->hold, size);
    if (!e) {
        w->lost = true;
        return;
    }
    memcpy(e->name, said->name, size - sizeof(*e));
    e->kind = said->kind;
    e->ready = !w->include_entry || said->kind == FILES_DELETE;
    *w->end = e;
    w->end = &e->next;
    w->queued++;
    bool waits = !e->ready; /* one that is ready is sent, and gone with that */
    send_ready(w);
    if (waits && !w->stat_starting)
        ask_next(w);
}

/* ---- the worker's own word ---- */

static void answer_create(struct watch *w)
{
    struct call *call = w->call;
    struct buf out cleanup_buf = {0};
    struct json_writer writer;
    w->call = NULL;
    call->on_gone = NULL;
    buf_init(&out, 256);
    jw_init(&writer, &out, false);
    jw_object_begin(&writer);
    jw_kv_string(&writer, "watcherId", w->id);
    jw_object_end(&writer);
    call_reply(call, 200, &out);
}

static void send_start(struct watch *w)
{
    struct frame f;
    frames_start(w->call);
    frame_begin(&f, 256);
    buf_str(&f.text, "{\"start\":{}}");
    frame_send(&f, w->call);
    rearm_keepalive(w);
}

static void on_head(void *ctx, int error, uint64_t size)
{
    struct watch *w = ctx;
    if (w->closing || error)
        return;
    w->started = true;
    if (w->is_stream)
        send_start(w);
    else
        answer_create(w);
}

static void refuse_watch(struct watch *w, int error)
{
    struct call *call = w->call;
    const char *path = w->path;
    char text[512];
    snprintf(text, sizeof(text), "%.256s: %s", path, errno_text(error));
    watch_close(w);
    call_fail(call, errno_status(error), "%s", text);
}

static void on_end(void *ctx, int error)
{
    struct watch *w = ctx;
    if (w->closing)
        return;
    w->ended = true;
    if (!w->started && w->call)
        refuse_watch(w, error ? error : EIO);
    else if (w->is_stream && !box_find_any(w->core, w->box_id))
        watch_cut(w);
    else if (w->is_stream && error == EOVERFLOW)
        watch_finish(w, "resource_exhausted", "events came faster than they could be told");
    else if (w->is_stream)
        watch_finish(w, NULL, NULL);
}

/* Also of one that nobody reads at the moment, and of one whose worker has ended before. */
static void on_box_gone(struct box_dependent *d)
{
    struct watch *w = container_of(d, struct watch, of_box);
    if (w->closing)
        return;
    if (w->is_stream && w->started)
        watch_cut(w);
    else if (w->call)
        refuse_watch(w, ECANCELED);
    else
        watch_close(w);
}

static void on_started(void *ctx, struct file_work *file, int in_fd, const struct err *err)
{
    struct watch *w = ctx;
    struct call *call = w->call;
    w->file = file;
    if (!watch_back(w) || file)
        return;
    watch_close(w);
    call_fail_err(call, err);
}

/* ---- timers ---- */

static void on_keepalive(struct loop_timer *t)
{
    struct watch *w = container_of(t, struct watch, keepalive);
    struct frame f;
    frame_begin(&f, 256);
    buf_str(&f.text, "{\"keepalive\":{}}");
    frame_send(&f, w->call);
    rearm_keepalive(w);
}

static void on_deadline(struct loop_timer *t)
{
    struct watch *w = container_of(t, struct watch, deadline);
    if (!w->is_stream)
        watch_close(w);
    else if (w->started)
        watch_finish(w, "deadline_exceeded", "the time of this call is over");
    else
        loop_timer_set(w->loop, t, 1000); /* its worker is about to answer */
}

/* ---- requests ---- */

static int read_request(struct watch *w, const struct json *body, struct err *err)
{
    const char *path = NULL;
    const struct field fields[] = {
        {"path", FIELD_STRING, &path},
        {"recursive", FIELD_BOOL, &w->recursive},
        {"includeEntry", FIELD_BOOL, &w->include_entry},
        {"allowNetworkMounts", FIELD_UNUSED},
    };
    int r = FIELDS_READ(body, FIELDS_PROTO, fields, err);
    if (r < 0)
        return r;
    if (!path || !*path || strlen(path) > FILES_PATH_MAX - sizeof(HOME_PATH))
        return err_set(err, ERR_USAGE, "\"path\" is missing or too long");
    path_absolute(path, w->path);
    return 0;
}

static struct watch *watch_new(struct call *call, struct box *b, bool is_stream, struct err *err)
{
    struct watch *w = calloc(1, sizeof(*w));
    if (!w) {
        err_memory(err);
        return NULL;
    }
    hold_init(&w->hold, box_account(b));
    if (account_charge(w->hold.account, ACCOUNT_WATCHERS, 1, err) < 0) {
        free(w);
        return NULL;
    }
    if (hold_add(&w->hold, sizeof(*w), err) < 0) {
        account_return(w->hold.account, ACCOUNT_WATCHERS, 1);
        free(w);
        return NULL;
    }
    w->of_box.gone = on_box_gone;
    w->end = &w->first;
    w->loop = exchange_loop(call->x);
    w->core = call->core;
    memcpy(w->box_id, call->id, sizeof(w->box_id));
    w->call = call;
    w->is_stream = is_stream;
    w->keepalive.fn = on_keepalive;
    w->deadline.fn = on_deadline;
    w->release.fn = watch_free;
    return w;
}

static void watch_start(struct watch *w, struct box *b)
{
    struct files_sink sink = {.head = on_head, .event = on_event, .end = on_end, .ctx = w};
    struct buf text cleanup_buf = {0};
    struct json_writer writer;
    buf_init(&text, 32u * 1024);
    jw_init(&writer, &text, false);
    jw_object_begin(&writer);
    jw_kv_string(&writer, "op", files_op_name(FILES_WATCH));
    jw_kv_string(&writer, "path", w->path);
    jw_kv_bool(&writer, "recursive", w->recursive);
    jw_object_end(&writer);
    w->pending++;
    box_depend(b, &w->of_box);
    w->call->data = w;
    w->call->on_gone = watch_gone;
    w->call->on_writable = watch_writable;
    file_start(b, text.data, text.len, FILES_WATCH, &sink, on_started, w);
}

static void stream_body(struct call *call, const struct json *body)
{
    struct err err = ERR_INIT;
    uint64_t deadline_ms;
    struct watch *w;
    struct box *b;
    if (!frames_timeout(call, &deadline_ms) || !(b = call_sandbox(call)))
        return;
    w = watch_new(call, b, true, &err);
    if (!w || read_request(w, body, &err) < 0) {
        if (w)
            watch_free(&w->release);
        call_fail_err(call, &err);
        return;
    }
    w->keepalive_ms = frames_keepalive_ms(call);
    if (deadline_ms)
        loop_timer_set(w->loop, &w->deadline, deadline_ms);
    watch_start(w, b);
}

void envd_watch_dir(struct call *call)
{
    frames_json(call, stream_body);
}

/* ---- those who ask ---- */

static unsigned watchers_of(const char *box_id)
{
    unsigned n = 0;
    for (const struct watch *w = watchers; w; w = w->next)
        n += !strcmp(w->box_id, box_id);
    return n;
}

static bool watcher_name(struct watch *w, struct err *err)
{
    unsigned char random[15];
    char text[BASE64_SIZE(sizeof(random))];
    if (getrandom(random, sizeof(random), 0) != sizeof(random)) {
        err_sys(err, "getrandom");
        return false;
    }
    base64url_encode(random, sizeof(random), text);
    snprintf(w->id, sizeof(w->id), "%s", text);
    return true;
}

static void create_body(struct call *call, const struct json *body)
{
    struct err err = ERR_INIT;
    struct watch *w;
    struct box *b = call_sandbox(call);
    if (!b)
        return;
    if (watchers_of(call->id) >= WATCHERS_PER_BOX) {
        call_fail(call, 429, "sandbox %s already has %u watchers", call->id, WATCHERS_PER_BOX);
        return;
    }
    w = watch_new(call, b, false, &err);
    if (!w || !watcher_name(w, &err) || read_request(w, body, &err) < 0) {
        if (w)
            watch_free(&w->release);
        call_fail_err(call, &err);
        return;
    }
    w->next = watchers;
    watchers = w;
    loop_timer_set(w->loop, &w->deadline, IDLE_MS);
    watch_start(w, b);
}

void envd_watcher_create(struct call *call)
{
    call_json(call, create_body);
}

static struct watch *find_watcher(struct call *call, const struct json *body)
{
    struct err err = ERR_INIT;
    const char *id = NULL;
    const struct field fields[] = {{"watcherId", FIELD_STRING, &id}};
    if (FIELDS_READ(body, FIELDS_PROTO, fields, &err) < 0) {
        call_fail_err(call, &err);
        return NULL;
    }
    for (struct watch *w = watchers; id && w; w = w->next)
        if (!strcmp(w->id, id) && !strcmp(w->box_id, call->id))
            return w;
    call_fail(call, 404, "there is no watcher \"%.64s\"", id ? id : "");
    return NULL;
}

static void events_body(struct call *call, const struct json *body)
{
    struct buf out cleanup_buf = {0};
    struct json_writer writer;
    struct watch *w = call_sandbox(call) ? find_watcher(call, body) : NULL;
    if (!w)
        return;
    loop_timer_set(w->loop, &w->deadline, IDLE_MS);
    if (w->lost) {
        w->lost = false;
        call_fail(call, 429, "events came faster than they were asked for; some are lost");
        return;
    }
    call_buf(call, &out, 2 * ANSWER_ENOUGH);
    jw_init(&writer, &out, false);
    jw_object_begin(&writer);
    jw_key(&writer, "events");
    jw_array_begin(&writer);
    while (w->first && w->first->ready && out.len < ANSWER_ENOUGH) {
        struct event *e = event_pop(w);
        write_event(&writer, e);
        event_free(w, e);
    }
    w->lost |= out.failed;
    jw_array_end(&writer);
    jw_object_end(&writer);
    call_reply(call, 200, &out);
}

void envd_watcher_events(struct call *call)
{
    call_json(call, events_body);
}

static void remove_body(struct call *call, const struct json *body)
{
    struct watch *w = call_sandbox(call) ? find_watcher(call, body) : NULL;
    if (!w)
        return;
    watch_close(w);
    call_text(call, 200, CONNECT_UNARY, "{}", 2);
}

void envd_watcher_remove(struct call *call)
{
    call_json(call, remove_body);
}
