/* Work on files: a worker inside, a pipe to and from it, and what it says (files/parse.c checks
 * that). */
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/container.h"
#include "daemon/base/fault.h"
#include "daemon/box/box_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>

#define READS_PER_ROUND 4u
#define WORK_FDS        2u            /* its answer, and perhaps its input */
#define WORK_BYTES      (32ull << 10) /* with what its reader keeps of a message */

struct file_work {
    struct trash trash;
    struct box *box; /* NULL: it is gone */
    struct core *core;
    struct file_work *next;
    enum files_op op;
    struct account *account;
    struct files_reader *reader;
    struct files_sink sink;
    struct loop_io io; /* fd -1: at its end */
    bool started, paused, ended, cancelled;
    file_fn *fn;
    void *ctx;
    uint64_t began_us;
};

/* ---- what the worker says ---- */

static void on_head(void *ctx, int error, uint64_t size)
{
    struct file_work *w = ctx;
    if (!w->cancelled && w->sink.head)
        w->sink.head(w->sink.ctx, error, size);
}

static void on_entry(void *ctx, const struct files_entry *e)
{
    struct file_work *w = ctx;
    if (!w->cancelled && w->sink.entry)
        w->sink.entry(w->sink.ctx, e);
}

static void on_event(void *ctx, const struct files_event *e)
{
    struct file_work *w = ctx;
    if (!w->cancelled && w->sink.event)
        w->sink.event(w->sink.ctx, e);
}

static void on_data(void *ctx, const void *bytes, size_t len)
{
    struct file_work *w = ctx;
    if (!w->cancelled && w->sink.data)
        w->sink.data(w->sink.ctx, bytes, len);
}

static void finish(struct file_work *w, int error)
{
    loop_close(w->core->loop, &w->io);
    if (w->ended)
        return;
    w->ended = true;
    core_observe(w->core, "file", clock_us() - w->began_us);
    if (!w->cancelled && w->started && w->sink.end)
        w->sink.end(w->sink.ctx, error);
}

static void on_end(void *ctx, int error)
{
    finish(ctx, error);
}

static void on_readable(struct loop_io *io, uint32_t events)
{
    (void)events;
    struct file_work *w = container_of(io, struct file_work, io);
    char *room = w->core->io_room;
    for (unsigned i = 0; i < READS_PER_ROUND && w->io.fd >= 0 && !w->paused; i++) {
        ssize_t n = read(w->io.fd, room, IO_SIZE);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (n <= 0) {
            finish(w, n < 0 || files_reader_finish(w->reader, NULL) < 0 ? EIO : 0);
        } else if (files_reader_feed(w->reader, room, (size_t)n, NULL) < 0) {
            finish(w, EPROTO);
        } else if ((size_t)n < IO_SIZE / 2) {
            return;
        }
    }
}

/* ---- its end ---- */

static void work_free(struct trash *t)
{
    struct file_work *w = container_of(t, struct file_work, trash);
    account_return(w->account, ACCOUNT_DESCRIPTORS, WORK_FDS);
    account_return(w->account, ACCOUNT_BYTES, WORK_BYTES);
    files_reader_free(w->reader);
    free(w);
}

static void unlist(struct file_work *w)
{
    struct box *b = w->box;
    if (!b)
        return;
    struct file_work **at = &b->works;
    while (*at != w)
        at = &(*at)->next;
    *at = w->next;
    b->work_count--;
    w->box = NULL;
}

void file_cancel(struct file_work *w)
{
    if (!w || w->cancelled)
        return;
    w->cancelled = true;
    loop_close(w->core->loop, &w->io);
    unlist(w);
    w->trash.free = work_free;
    core_discard(w->core, &w->trash);
}

void file_pause(struct file_work *w, bool pause)
{
    if (w->paused == pause)
        return;
    w->paused = pause;
    if (w->io.fd >= 0)
        loop_watch(w->core->loop, &w->io, pause ? 0 : EPOLLIN);
}

/* Stops the works that have begun; the others fail when the warden's socket closes. */
void file_stop_all(struct box *b, int error)
{
    struct file_work *begun = NULL;
    for (struct file_work **at = &b->works, *w; (w = *at);) {
        if (!w->started) {
            at = &w->next;
            continue;
        }
        *at = w->next;
        b->work_count--;
        w->box = NULL;
        w->next = begun;
        begun = w;
    }
    for (struct file_work *w = begun, *next; w; w = next) {
        next = w->next;
        finish(w, error);
    }
}

/* ---- its start ---- */

/* `out`, then `in`. */
static int take_pipes(struct file_work *w, struct wire_msg *m, int *ret_in, struct err *err)
{
    bool wants_in = w->op == FILES_WRITE;
    if (m->fd_count < (wants_in ? 2u : 1u))
        return err_set(err, ERR_PROTOCOL, "the work on files came without its pipes");
    w->io.fd = wire_steal_fd(m, 0);
    if (wants_in)
        *ret_in = wire_steal_fd(m, 1);
    if (fd_nonblocking(w->io.fd) < 0 || (wants_in && fd_nonblocking(*ret_in) < 0) ||
        loop_watch(w->core->loop, &w->io, EPOLLIN) < 0)
        return err_sys(err, "the pipe of the work on files");
    return 0;
}

static void on_started(void *ctx, struct wire_msg *m, const struct err *err)
{
    struct file_work *w = ctx;
    struct err mine = ERR_INIT;
    int in = -1;
    if (!err && w->box->info.state != BOX_RUNNING && w->box->info.state != BOX_PAUSED &&
        !box_usable(w->box, &mine))
        err = &mine;
    if (!err && take_pipes(w, m, &in, &mine) < 0)
        err = &mine;
    if (err) {
        file_fn *fn = w->fn;
        void *fn_ctx = w->ctx;
        file_cancel(w);
        /* Close `in` only after the pipe of the answer: by itself, its end would mean a complete
         * file. */
        if (in >= 0)
            close(in);
        fn(fn_ctx, NULL, -1, err);
        return;
    }
    fault_point(FAULT_FILE_STARTED);
    w->started = true;
    w->fn(w->ctx, w, in, NULL);
}

/* Which file, and what was done with it; never what is in it (AU-2). */
static void record(struct box *b, const char *json, size_t len, enum files_op op)
{
    struct json *tree = NULL;
    cleanup_buf struct buf detail = {0};
    struct json_writer w;
    char kind[32];
    if (json_parse(json, len, NULL, &tree, NULL) < 0)
        return;
    const struct json *path = json_get(tree, "path"), *to = json_get(tree, "to");
    jw_begin(&w, &detail, 16384);
    if (path && json_string(path))
        jw_kv_bytes(&w, "path", json_string(path), strnlen(json_string(path), 1024));
    if (to && json_string(to))
        jw_kv_bytes(&w, "to", json_string(to), strnlen(json_string(to), 1024));
    jw_object_end(&w);
    snprintf(kind, sizeof kind, "file.%s", files_op_name(op));
    box_record(b, kind, buf_text(&detail));
    json_free(tree);
}

static int work_charge(struct account *a, struct err *err)
{
    int r = account_charge(a, ACCOUNT_DESCRIPTORS, WORK_FDS, err);
    if (r == 0 && (r = account_charge(a, ACCOUNT_BYTES, WORK_BYTES, err)) < 0)
        account_return(a, ACCOUNT_DESCRIPTORS, WORK_FDS);
    return r;
}

static struct file_work *work_new(struct box *b, enum files_op op, const struct files_sink *sink,
                                  struct err *err)
{
    if (!box_usable(b, err))
        return NULL;
    struct file_work *w = b->work_count < FILE_WORKS_MAX ? calloc(1, sizeof *w) : NULL;
    if (!w) {
        err_set(err, ERR_LIMIT, "sandbox %s already works on %u files", b->info.id, b->work_count);
        return NULL;
    }
    if (work_charge(b->account, err) < 0) {
        free(w);
        return NULL;
    }
    *w = (struct file_work){
        .box = b, .core = b->core, .account = b->account, .op = op, .sink = *sink};
    w->io = (struct loop_io){.fd = -1, .fn = on_readable, .share = account_share(b->account)};
    struct files_sink mine = {on_head, on_entry, on_event, on_data, on_end, w};
    if (files_reader_new(&w->reader, op, &mine, err) < 0) {
        work_free(&w->trash);
        return NULL;
    }
    w->next = b->works;
    b->works = w;
    b->work_count++;
    return w;
}

void file_start(struct box *b, const char *json, size_t len, enum files_op op,
                const struct files_sink *sink, file_fn *fn, void *ctx)
{
    struct err err = ERR_INIT;
    struct file_work *w = work_new(b, op, sink, &err);
    if (!w) {
        fn(ctx, NULL, -1, &err);
        return;
    }
    w->fn = fn;
    w->ctx = ctx;
    w->began_us = clock_us();
    box_touch(b);
    record(b, json, len, op);
    peer_ask(&b->warden, WIRE_FILE, 0, json, len, ANSWER_MS, on_started, w);
    fault_point(FAULT_FILE_SENT);
}
