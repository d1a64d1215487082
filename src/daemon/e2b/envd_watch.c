/* Watching folders: WatchDir as a stream, and the same for clients that come and ask
 * (CreateWatcher, GetWatcherEvents, RemoveWatcher).
 *
 * The worker inside says what changed; with includeEntry another one is asked, one at a time, what
 * stands there now, and events wait for it in their order. Everything is bounded: events that wait,
 * and their bytes, which their key answers for; watchers of a key and of a sandbox, time without
 * anybody asking. A watcher ends with its sandbox. */
#include "base/container.h"
#include "daemon/base/random.h"
#include "daemon/e2b/envd.h"
#include "daemon/e2b/frames.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
    struct activity activity; /* its call: of a stream, or of a create that is not answered yet */
    struct work dir, stat;
    bool is_stream, started, lost, as_root;
    bool asking;    /* `stat` is on its way, or at work */
    bool in_asking; /* ask_next is on the stack */
    char path[FILES_PATH_MAX + 1];
    bool recursive, include_entry;
    struct event *first, **end;
    struct event *waiting; /* the first one that is not ready, or NULL */
    unsigned queued;
    uint64_t keepalive_ms;
    struct loop_timer keepalive, deadline; /* of one who asks: the time without questions */
    char id[24];                           /* of one who asks */
};

/* ---- the end ---- */

static size_t event_size(const char *name)
{
    return sizeof(struct event) + strlen(name) + 1;
}

static void event_free(struct watch *w, struct event *e)
{
    buf_done(&e->entry);
    hold_sub(&w->activity.hold, event_size(e->name));
    free(e);
}

static void watch_stop(struct activity *a)
{
    struct watch *w = container_of(a, struct watch, activity);
    work_stop(&w->dir);
    work_stop(&w->stat);
    loop_timer_cancel(a->loop, &w->keepalive);
    loop_timer_cancel(a->loop, &w->deadline);
}

static void watch_done(struct activity *a)
{
    struct watch *w = container_of(a, struct watch, activity);
    while (w->first) {
        struct event *e = w->first;
        w->first = e->next;
        event_free(w, e);
    }
}

static void watch_finish(struct watch *w, const char *code, const char *message)
{
    frames_finish(activity_end(&w->activity), code, message);
}

static void watch_writable(struct activity *a)
{
    work_pause(&container_of(a, struct watch, activity)->dir, false);
}

/* Also of one that nobody reads at the moment, and of one whose worker has ended before. */
static void watch_box_gone(struct activity *a)
{
    struct watch *w = container_of(a, struct watch, activity);
    if (w->is_stream && w->started)
        frames_cut(activity_end(a));
    else if (a->call)
        work_fail(a, ECANCELED, w->path);
    else
        activity_end(a);
}

#define WATCH_OPS                                                                                  \
    .stop = watch_stop, .done = watch_done, .writable = watch_writable, .box_gone = watch_box_gone
/* Two kinds, so that those who ask are found among all that is tied to a sandbox. */
static const struct activity_ops stream_ops = {WATCH_OPS}, watcher_ops = {WATCH_OPS};

/* ---- events ---- */

static void write_event(struct json_writer *w, const struct event *e)
{
    static const char *const kinds[] = {[FILES_CREATE] = "EVENT_TYPE_CREATE",
                                        [FILES_MODIFY] = "EVENT_TYPE_WRITE",
                                        [FILES_DELETE] = "EVENT_TYPE_REMOVE",
                                        [FILES_RENAME] = "EVENT_TYPE_RENAME",
                                        [FILES_CHMOD] = "EVENT_TYPE_CHMOD"};
    jw_object_begin(w);
    jw_kv_bytes(w, "name", e->name, strlen(e->name));
    jw_kv_string(w, "type", kinds[e->kind]);
    if (e->entry.len && !e->entry.failed) {
        struct json *entry = NULL;
        if (json_parse(e->entry.data, e->entry.len, NULL, &entry, NULL) == 0)
            jw_kv_json(w, "entry", entry);
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
        loop_timer_set(w->activity.loop, &w->keepalive, w->keepalive_ms);
}

static void send_ready(struct watch *w)
{
    while (w->is_stream && w->first && w->first->ready) {
        struct event *e = event_pop(w);
        struct frame f;
        frame_begin(&f, 64u * 1024);
        jw_object_begin(&f.w);
        jw_key(&f.w, "filesystem");
        write_event(&f.w, e);
        jw_object_end(&f.w);
        event_free(w, e);
        rearm_keepalive(w);
        if (!frame_send(&f, w->activity.call))
            work_pause(&w->dir, true);
    }
}

static void ask_next(struct watch *w);

static void stat_entry(void *ctx, const struct files_entry *entry)
{
    struct watch *w = ctx;
    struct event *e = w->waiting;
    struct json_writer writer;
    if (!e)
        return;
    activity_buf(&w->activity, &e->entry, 64u * 1024);
    jw_init(&writer, &e->entry, false);
    entry_write(&writer, entry);
    if (e->entry.failed) { /* told without it */
        hold_refusal(&w->activity.hold, NULL);
        buf_release(&e->entry);
    }
}

static void stat_end(void *ctx, int error)
{
    struct watch *w = ctx;
    if (w->waiting)
        w->waiting->ready = true;
    while (w->waiting && w->waiting->ready)
        w->waiting = w->waiting->next;
    w->asking = false;
    send_ready(w);
    ask_next(w);
}

static void stat_started(void *ctx, int in_fd, const struct err *err)
{
    if (err)
        stat_end(ctx, EIO);
}

/* AY-5: a question that fails at once ends within work_start: the next one is asked here, not
 * there, for thousands of events may wait. */
static void ask_next(struct watch *w)
{
    const struct files_sink sink = {.entry = stat_entry, .end = stat_end, .ctx = w};
    char path[FILES_PATH_MAX + FILES_TEXT_MAX + 2];
    const struct work_request request = {.op = FILES_STAT, .path = path, .as_root = w->as_root};
    struct box *b;
    if (w->in_asking)
        return;
    w->in_asking = true;
    while (!w->asking && w->waiting && (b = activity_box(&w->activity))) {
        snprintf(path, sizeof(path), "%s/%s", w->path, w->waiting->name);
        w->asking = true;
        work_start(&w->stat, &w->activity, b, &request, &sink, stat_started);
    }
    w->in_asking = false;
}

static void on_event(void *ctx, const struct files_event *said)
{
    struct watch *w = ctx;
    size_t size = event_size(said->name);
    struct event *e = NULL;
    if (said->kind < FILES_CREATE || said->kind > FILES_CHMOD)
        return;
    /* Once events were lost, keep no more until the client was told so. */
    if (!w->lost && w->queued < EVENTS_MAX && hold_add(&w->activity.hold, size, NULL) == 0 &&
        !(e = calloc(1, size)))
        hold_sub(&w->activity.hold, size);
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
    if (!w->waiting && !e->ready)
        w->waiting = e;
    send_ready(w); /* one that is ready is gone with that */
    ask_next(w);
}

/* ---- the worker's own word ---- */

static void answer_create(struct watch *w)
{
    struct buf out cleanup_buf = {0};
    struct json_writer writer;
    jw_begin(&writer, &out, 256);
    jw_kv_string(&writer, "watcherId", w->id);
    jw_object_end(&writer);
    call_reply(activity_detach(&w->activity), 200, &out);
}

static void send_start(struct watch *w)
{
    struct frame f;
    frames_start(w->activity.call);
    frame_begin(&f, 256);
    buf_str(&f.text, "{\"start\":{}}");
    frame_send(&f, w->activity.call);
    rearm_keepalive(w);
}

static void on_head(void *ctx, int error, uint64_t size)
{
    struct watch *w = ctx;
    if (error)
        return;
    w->started = true;
    if (w->is_stream)
        send_start(w);
    else
        answer_create(w);
}

static void on_end(void *ctx, int error)
{
    struct watch *w = ctx;
    if (!w->started && w->activity.call)
        work_fail(&w->activity, error ? error : EIO, w->path);
    else if (w->is_stream && !activity_box(&w->activity))
        frames_cut(activity_end(&w->activity));
    else if (w->is_stream && error == EOVERFLOW)
        watch_finish(w, "resource_exhausted", "events came faster than they could be told");
    else if (w->is_stream)
        watch_finish(w, NULL, NULL);
}

/* ---- timers ---- */

static void on_keepalive(struct loop_timer *t)
{
    struct watch *w = container_of(t, struct watch, keepalive);
    struct frame f;
    frame_begin(&f, 256);
    buf_str(&f.text, "{\"keepalive\":{}}");
    frame_send(&f, w->activity.call);
    rearm_keepalive(w);
}

static void on_deadline(struct loop_timer *t)
{
    struct watch *w = container_of(t, struct watch, deadline);
    if (!w->is_stream)
        activity_end(&w->activity);
    else if (w->started)
        watch_finish(w, "deadline_exceeded", "the time of this call is over");
    else
        loop_timer_set(w->activity.loop, t, 1000); /* its worker is about to answer */
}

/* ---- requests ---- */

static int read_request(struct watch *w, const struct box *b, const struct json *body,
                        struct err *err)
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
    path_absolute(b, w->as_root, path, w->path);
    return 0;
}

/* NULL: answered. */
static struct watch *watch_new(struct call *call, struct box *b, const struct json *body,
                               const struct activity_ops *ops)
{
    struct err err = ERR_INIT;
    struct watch *w = activity_new(sizeof(*w), ops, call->core, box_account(b), &err);
    if (w)
        w->as_root = call->as_root;
    if (!w || activity_charge(&w->activity, ACCOUNT_WATCHERS, &err) < 0 ||
        read_request(w, b, body, &err) < 0) {
        if (w)
            activity_end(&w->activity);
        call_fail_err(call, &err);
        return NULL;
    }
    random_id(w->id, sizeof(w->id) - 1);
    w->end = &w->first;
    w->is_stream = ops == &stream_ops;
    w->keepalive.fn = on_keepalive;
    w->deadline.fn = on_deadline;
    activity_enter(&w->activity, b);
    activity_serve(&w->activity, call);
    return w;
}

static void watch_start(struct watch *w)
{
    const struct files_sink sink = {.head = on_head, .event = on_event, .end = on_end, .ctx = w};
    const struct work_request request = {
        .op = FILES_WATCH, .path = w->path, .recursive = w->recursive, .as_root = w->as_root};
    work_start(&w->dir, &w->activity, w->activity.box, &request, &sink, NULL);
}

void envd_watch_dir(struct call *call, const struct json *body)
{
    uint64_t deadline_ms;
    struct watch *w;
    struct box *b;
    if (!frames_timeout(call, &deadline_ms) || !(b = call_sandbox(call)) ||
        !(w = watch_new(call, b, body, &stream_ops)))
        return;
    w->keepalive_ms = frames_keepalive_ms(call);
    if (deadline_ms)
        loop_timer_set(w->activity.loop, &w->deadline, deadline_ms);
    watch_start(w);
}

/* ---- those who ask ---- */

static struct watch *next_watcher(struct box *b, struct watch *after)
{
    struct activity *a = activity_next(b, after ? &after->activity : NULL, &watcher_ops);
    return a ? container_of(a, struct watch, activity) : NULL;
}

void envd_watcher_create(struct call *call, const struct json *body)
{
    unsigned count = 0;
    struct watch *w;
    struct box *b = call_sandbox(call);
    if (!b)
        return;
    for (w = next_watcher(b, NULL); w; w = next_watcher(b, w))
        count++;
    if (count >= WATCHERS_PER_BOX) {
        call_fail(call, 429, "sandbox %s already has %u watchers", call->id, WATCHERS_PER_BOX);
        return;
    }
    w = watch_new(call, b, body, &watcher_ops);
    if (!w)
        return;
    loop_timer_set(w->activity.loop, &w->deadline, IDLE_MS);
    watch_start(w);
}

/* NULL: answered. */
static struct watch *find_watcher(struct call *call, const struct json *body)
{
    const char *id = NULL;
    const struct field fields[] = {{"watcherId", FIELD_STRING, &id}};
    struct box *b = call_sandbox(call);
    if (!b)
        return NULL;
    if (!CALL_FIELDS(call, body, FIELDS_PROTO, fields))
        return NULL;
    for (struct watch *w = next_watcher(b, NULL); id && w; w = next_watcher(b, w))
        if (!strcmp(w->id, id))
            return w;
    call_fail(call, 404, "there is no watcher \"%.64s\"", id ? id : "");
    return NULL;
}

void envd_watcher_events(struct call *call, const struct json *body)
{
    struct buf out cleanup_buf = {0};
    struct json_writer writer;
    struct watch *w = find_watcher(call, body);
    if (!w)
        return;
    loop_timer_set(w->activity.loop, &w->deadline, IDLE_MS);
    if (w->lost) {
        w->lost = false;
        call_fail(call, 429, "events came faster than they were asked for; some are lost");
        return;
    }
    call_buf(call, &out, 2 * ANSWER_ENOUGH);
    jw_init(&writer, &out, false);
    jw_object_begin(&writer);
    jw_kv_array(&writer, "events");
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

void envd_watcher_remove(struct call *call, const struct json *body)
{
    struct watch *w = find_watcher(call, body);
    if (!w)
        return;
    activity_end(&w->activity);
    call_text(call, 200, CONNECT_UNARY, "{}", 2);
}
