/* The core's beginning and end: the two sockets, when it is ready, when it must stop. */
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/container.h"
#include "base/wall.h"
#include "daemon/base/fault.h"
#include "daemon/core/core_internal.h"

#include <malloc.h>
#include <string.h>
#include <time.h>

#define READY_WAIT_MS 30000u
#define DRAIN_WAIT_MS 20000u
#define SCRATCH_KEPT  (256u * 1024)
#define TIDY_MS       2000u

struct loop *core_loop(struct core *c)
{
    return c->loop;
}

const char *core_domain(const struct core *c)
{
    return c->config.domain;
}

struct keys *core_keys(struct core *c)
{
    return c->keys;
}

struct accounts *core_accounts(struct core *c)
{
    return c->accounts;
}

/* Gives back the memory of a buffer that once had to be large. */
struct buf *core_scratch(struct core *c)
{
    if (c->scratch.size > SCRATCH_KEPT)
        buf_release(&c->scratch);
    buf_reset(&c->scratch);
    return &c->scratch;
}

/* ---- what is freed later ---- */

static void empty_trash(struct core *c)
{
    /* In the order in which they came: parts go before what they are part of. */
    while (c->trash) {
        struct trash *t = c->trash;
        c->trash = t->next;
        if (!c->trash)
            c->trash_end = &c->trash;
        t->free(t);
    }
}

static void on_trash(struct loop_task *t)
{
    empty_trash(container_of(t, struct core, trash_task));
}

void core_discard(struct core *c, struct trash *t)
{
    t->next = NULL;
    *c->trash_end = t;
    c->trash_end = &t->next;
    loop_defer(c->loop, &c->trash_task);
}

static void on_tidy(struct loop_timer *t)
{
    (void)t;
#ifdef __GLIBC__
    malloc_trim(0);
#endif
}

void core_tidy_soon(struct core *c)
{
    if (!c->tidy_timer.due_ms)
        loop_timer_set(c->loop, &c->tidy_timer, TIDY_MS);
}

/* ---- ready, lost ---- */

static void tell_ready(struct core *c, const struct err *err)
{
    loop_timer_cancel(c->loop, &c->ready_timer);
    void (*fn)(void *, const struct err *) = c->ready_fn;
    c->ready_fn = NULL;
    if (fn)
        fn(c->ready_ctx, err);
}

void core_check_ready(struct core *c)
{
    if (c->ready || c->lost || !c->hello || !c->restored)
        return;
    c->ready = true;
    core_record(c, "daemon.started", NULL, NULL, "{\"version\":\"" BRIG_VERSION "\"}");
    leftovers_clean(c);
    c->config.boxes->ready(c);
    tell_ready(c, NULL);
}

void core_when_ready(struct core *c, void (*fn)(void *ctx, const struct err *err), void *ctx)
{
    struct err err = ERR_INIT;
    c->ready_fn = fn;
    c->ready_ctx = ctx;
    if (c->lost)
        tell_ready(c, (err_set(&err, ERR_SYSTEM, "the launcher or the recorder is gone"), &err));
    else if (c->ready)
        tell_ready(c, NULL);
}

static void on_ready_timeout(struct loop_timer *t)
{
    struct core *c = container_of(t, struct core, ready_timer);
    struct err err = ERR_INIT;
    err_set(&err, ERR_SYSTEM, "%s did not say anything",
            c->hello ? "the recorder" : "the launcher");
    core_lose(c, &err);
}

void core_on_lost(struct core *c, void (*fn)(void *ctx, const struct err *err), void *ctx)
{
    c->lost_fn = fn;
    c->lost_ctx = ctx;
}

void core_lose(struct core *c, const struct err *err)
{
    if (c->lost || c->drained)
        return;
    c->lost = true;
    c->config.boxes->refuse(c, err);
    if (c->ready_fn)
        tell_ready(c, err);
    else if (c->lost_fn)
        c->lost_fn(c->lost_ctx, err);
    else
        loop_stop(c->loop);
}

/* ---- drain ---- */

static void tell_drained(void *ctx, struct wire_msg *m, const struct err *err)
{
    (void)m, (void)err;
    struct core *c = ctx;
    loop_timer_cancel(c->loop, &c->drain_timer);
    void (*fn)(void *) = c->drain_fn;
    c->drain_fn = NULL;
    if (fn)
        fn(c->drain_ctx);
}

static void finish_drain(struct core *c)
{
    if (c->drained)
        return;
    fault_point(FAULT_DRAINED);
    peer_send(&c->launcher, WIRE_STOP, 0, 0, NULL, 0);
    strangers_end(c);
    core_record(c, "daemon.stopped", NULL, NULL, NULL);
    c->drained = true;
    peer_ask(&c->recorder, WIRE_SYNC, 0, NULL, 0, 5000, tell_drained, c);
}

void core_check_drained(struct core *c)
{
    if (c->draining && c->live == 0)
        finish_drain(c);
}

static void on_drain_timeout(struct loop_timer *t)
{
    struct core *c = container_of(t, struct core, drain_timer);
    if (c->drained)
        tell_drained(c, NULL, NULL);
    else
        finish_drain(c); /* the launcher's end takes along what is left */
}

void core_drain(struct core *c, void (*fn)(void *ctx), void *ctx)
{
    fault_point(FAULT_DRAIN);
    c->drain_fn = fn;
    c->drain_ctx = ctx;
    if (c->draining)
        return;
    c->draining = true;
    struct err err = ERR_INIT;
    err_set(&err, ERR_REFUSED, "the daemon is shutting down");
    c->config.boxes->refuse(c, &err);
    loop_timer_set(c->loop, &c->drain_timer, DRAIN_WAIT_MS);
    c->config.boxes->end_all(c, "shutdown");
    core_check_drained(c);
}

static void stop_loop(void *ctx)
{
    loop_stop(((struct core *)ctx)->loop);
}

void core_on_stop(struct core *c, void (*fn)(void *ctx), void *ctx)
{
    c->stop_fn = fn;
    c->stop_ctx = ctx;
}

void core_on_revoked(struct core *c, void (*fn)(void *ctx, const struct key *key), void *ctx)
{
    c->revoked_fn = fn;
    c->revoked_ctx = ctx;
}

void core_stop(struct core *c)
{
    if (c->stop_fn)
        c->stop_fn(c->stop_ctx);
    else
        core_drain(c, stop_loop, c);
}

void core_serving(struct core *c)
{
    peer_send(&c->launcher, WIRE_READY, 0, 0, NULL, 0);
}

void core_reload(struct core *c)
{
    core_record(c, "daemon.reloaded", NULL, NULL, NULL);
}

/* ---- from the beginning to the end ---- */

static void set_config(struct core *c, const struct core_config *config)
{
    c->config = *config;
    if (!c->config.max_boxes)
        c->config.max_boxes = 1024;
    if (c->config.default_timeout_ms <= 0)
        c->config.default_timeout_ms = 300000;
    if (c->config.max_timeout_ms <= 0)
        c->config.max_timeout_ms = 24ll * 3600 * 1000;
}

static void on_round(void *ctx, uint64_t usec)
{
    core_observe(ctx, "round", usec);
}

static int core_begin(struct core *c, int *launcher_fd, int *recorder_fd, struct err *err)
{
    c->room = malloc(sizeof *c->room);
    c->io_room = malloc(IO_SIZE);
    c->accounts = c->config.accounts;
    if (!c->accounts)
        c->accounts = c->own_accounts = accounts_new(NULL);
    if (!c->room || !c->io_room || !c->accounts)
        return err_memory(err);
    usage_watch(c);
    loop_on_round(c->loop, on_round, c);
    int r = keys_new(&c->keys, err);
    if (r >= 0)
        r = launcher_open(c, fd_steal(launcher_fd), err);
    if (r >= 0)
        r = recorder_open(c, fd_steal(recorder_fd), err);
    return r;
}

int core_new(struct core **ret, struct loop *loop, const struct core_config *config,
             int launcher_fd, int recorder_fd, struct err *err)
{
    cleanup_fd int launcher = launcher_fd;
    cleanup_fd int recorder = recorder_fd;
    struct core *c = calloc(1, sizeof *c);
    if (!c)
        return err_memory(err);
    c->loop = loop;
    set_config(c, config);
    c->waiting_end = &c->waiting;
    c->trash_end = &c->trash;
    c->trash_task.fn = on_trash;
    c->ready_timer.fn = on_ready_timeout;
    c->drain_timer.fn = on_drain_timeout;
    c->strangers.timer.fn = strangers_on_timer;
    c->tidy_timer.fn = on_tidy;
    c->started_ms = wall_ms();
    buf_init(&c->scratch, 4u << 20);
    c->launcher.io.fd = c->recorder.io.fd = -1;
    int r = core_begin(c, &launcher, &recorder, err);
    if (r < 0) {
        core_free(c);
        return r;
    }
    loop_timer_set(loop, &c->ready_timer, READY_WAIT_MS);
    *ret = c;
    return 0;
}

void core_add_part(struct core *c, struct core_part *p)
{
    p->next = c->parts;
    c->parts = p;
}

struct core_part *core_part(struct core *c, void (*free)(struct core_part *p))
{
    struct core_part *p = c->parts;
    while (p && p->free != free)
        p = p->next;
    return p;
}

static void free_parts(struct core *c)
{
    while (c->parts) {
        struct core_part *p = c->parts;
        c->parts = p->next;
        p->free(p);
    }
}

static void free_boxes(struct core *c)
{
    struct err err = ERR_INIT;
    err_set(&err, ERR_INTERRUPTED, "the daemon ended");
    c->draining = true;
    c->config.boxes->refuse(c, &err);
    c->config.boxes->forget_all(c);
}

void core_free(struct core *c)
{
    if (!c)
        return;
    free_boxes(c);
    free_parts(c);
    loop_on_round(c->loop, NULL, NULL);
    if (c->accounts)
        usage_unwatch(c);
    if (c->launcher.ops)
        peer_close(&c->launcher, NULL);
    if (c->recorder.ops)
        peer_close(&c->recorder, NULL);
    empty_trash(c);
    loop_timer_cancel(c->loop, &c->ready_timer);
    loop_timer_cancel(c->loop, &c->drain_timer);
    loop_timer_cancel(c->loop, &c->refusal_timer);
    loop_timer_cancel(c->loop, &c->strangers.timer);
    loop_timer_cancel(c->loop, &c->tidy_timer);
    templates_free(c);
    keys_free(c->keys);
    leftovers_free(c);
    buf_done(&c->scratch);
    for (size_t i = 0; i < c->project_count; i++)
        free(c->projects[i]);
    free(c->room);
    free(c->io_room);
    accounts_free(c->own_accounts);
    free(c);
}
