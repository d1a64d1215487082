/* How long a box lives: its time to live, the time without use, and the clock that stands while it
 * is paused. Only requests from outside move any of it (L-09). */
#include "base/cleanup.h"
#include "base/container.h"
#include "base/wall.h"
#include "daemon/base/fault.h"
#include "daemon/box/box_internal.h"

#include <errno.h>

static uint64_t now_ms(const struct box *b)
{
    return loop_now_ms(b->core->loop);
}

static void schedule(struct box *b)
{
    uint64_t now = now_ms(b), due = b->end_at_ms;
    uint64_t idle_ms = (uint64_t)b->core->config.idle_timeout_ms;
    if (idle_ms && b->touched_ms + idle_ms < due)
        due = b->touched_ms + idle_ms;
    loop_timer_set(b->core->loop, &b->timer, due > now ? due - now : 0);
}

static void set_life(struct box *b, int64_t ms)
{
    b->end_at_ms = now_ms(b) + (uint64_t)ms;
    b->info.end_ms = wall_ms() + ms;
    schedule(b);
}

static int64_t clamp(const struct box *b, int64_t ms)
{
    int64_t most = b->core->config.max_timeout_ms;
    return ms < 0 ? 0 : ms > most ? most : ms;
}

void box_time_start(struct box *b, int64_t timeout_ms)
{
    set_life(b, clamp(b, timeout_ms));
}

void box_time_stop(struct box *b)
{
    uint64_t now = now_ms(b);
    b->left_ms = b->end_at_ms > now ? (int64_t)(b->end_at_ms - now) : 0;
    loop_timer_cancel(b->core->loop, &b->timer);
}

void box_set_auto_pause(struct box *b, bool pause)
{
    b->info.auto_pause = pause;
}

void box_set_timeout(struct box *b, int64_t ms_from_now, bool only_extend)
{
    int64_t ms = clamp(b, ms_from_now);
    if (b->info.state == BOX_PAUSED) {
        if (!only_extend || ms > b->left_ms)
            b->left_ms = ms;
    } else if (b->info.state == BOX_RUNNING) {
        if (!only_extend || now_ms(b) + (uint64_t)ms > b->end_at_ms)
            set_life(b, ms);
    }
}

void box_touch(struct box *b)
{
    b->touched_ms = now_ms(b);
}

/* ---- the timer ---- */

#define AGAIN_MS 1000 /* what could not be asked for is tried again */

static void phase_is_late(struct box *b)
{
    struct err err = ERR_INIT;
    errno = ETIMEDOUT;
    err_sys(&err, peer_is_open(&b->warden) ? "the sandbox was not ready in time"
                                           : "the launcher did not start the sandbox in time");
    box_fail(b, &err);
}

/* There was no room to ask for it: nothing was begun. */
static bool is_refusal(const struct err *err)
{
    return err->code == ERR_LIMIT || err->code == ERR_MEMORY;
}

static void on_auto_paused(void *ctx, const struct err *err)
{
    struct box *b = ctx;
    if (err && is_refusal(err) && b->info.state == BOX_RUNNING)
        loop_timer_set(b->core->loop, &b->timer, AGAIN_MS);
    else if (err)
        box_end(b, "timeout", NULL, NULL);
}

static void life_is_over(struct box *b)
{
    if (b->info.auto_pause && !b->freezing)
        box_pause(b, on_auto_paused, b);
    else if (!b->freezing)
        box_end(b, "timeout", NULL, NULL);
}

static void on_life(struct box *b)
{
    uint64_t now = now_ms(b), idle_ms = (uint64_t)b->core->config.idle_timeout_ms;
    if (now >= b->end_at_ms) {
        life_is_over(b);
        return;
    }
    if (idle_ms && now >= b->touched_ms + idle_ms) {
        if (!process_busy(b) && !context_busy(b)) {
            box_end(b, "idle", NULL, NULL);
            return;
        }
        b->touched_ms = now;
    }
    schedule(b);
}

void box_on_timer(struct loop_timer *t)
{
    struct box *b = container_of(t, struct box, timer);
    if (b->info.state == BOX_PROVISIONING)
        phase_is_late(b);
    else if (b->info.state == BOX_RUNNING)
        on_life(b);
    else if (b->info.state == BOX_ENDING)
        box_end_is_late(b);
}

/* ---- pause and resume ---- */

struct freeze {
    struct box *b;
    bool thaw;
    int64_t timeout_ms;
    box_done_fn *fn;
    void *ctx;
};

/* A request that finds it paused gives it as much time as a new one has. */
#define WOKEN_MS (300 * 1000)

static void wake_again(struct box *b);

static void on_frozen(void *ctx, struct wire_msg *m, const struct err *err)
{
    (void)m;
    struct freeze *f = ctx;
    struct box *b = f->b;
    b->freezing = false;
    if (err && is_refusal(err)) {
        /* It is as it was. */
    } else if (err) {
        /* Neither running nor paused: nobody may rely on it. */
        box_fail(b, err);
    } else if (f->thaw && b->info.state == BOX_PAUSED) {
        box_on_thawed(b);
        b->touched_ms = now_ms(b);
        set_life(b, f->timeout_ms > 0 ? clamp(b, f->timeout_ms) : b->left_ms);
    } else if (!f->thaw && b->info.state == BOX_RUNNING) {
        box_on_frozen(b);
    }
    struct err gone = ERR_INIT;
    if (!err && b->info.state != (f->thaw ? BOX_RUNNING : BOX_PAUSED)) {
        box_usable(b, &gone);
        err = &gone;
    }
    f->fn(f->ctx, err);
    /* Somebody asked for it while it was being paused. */
    if (!err && b->info.state == BOX_PAUSED && b->wakers)
        wake_again(b);
    else
        waiters_tell(&b->wakers, err);
    free(f);
}

static void nothing(void *ctx, const struct err *err)
{
    (void)ctx, (void)err;
}

static void ask_freeze(struct box *b, bool thaw, int64_t timeout_ms, box_done_fn *fn, void *ctx)
{
    struct err err = ERR_INIT;
    struct freeze *f = malloc(sizeof *f);
    enum box_state from = thaw ? BOX_PAUSED : BOX_RUNNING;
    if (!f) {
        err_memory(&err);
    } else if (b->info.state != BOX_RUNNING && b->info.state != BOX_PAUSED) {
        box_usable(b, &err);
    } else if (b->info.state != from || b->freezing) {
        err_set(&err, ERR_REFUSED, "sandbox %s is %s", b->info.id,
                b->freezing ? "being paused or resumed"
                : thaw      ? "not paused"
                            : "paused already");
    }
    if (err.code) {
        free(f);
        fn(ctx, &err);
        return;
    }
    *f = (struct freeze){b, thaw, timeout_ms, fn, ctx};
    b->freezing = true;
    peer_ask(&b->warden, WIRE_FREEZE, thaw ? 0 : 1, NULL, 0, ANSWER_MS, on_frozen, f);
    fault_point(FAULT_FREEZE_SENT);
}

void box_pause(struct box *b, box_done_fn *fn, void *ctx)
{
    ask_freeze(b, false, 0, fn ? fn : nothing, ctx);
}

void box_resume(struct box *b, int64_t timeout_ms, box_done_fn *fn, void *ctx)
{
    ask_freeze(b, true, timeout_ms, fn ? fn : nothing, ctx);
}

static void wake_again(struct box *b)
{
    ask_freeze(b, true, WOKEN_MS, nothing, NULL);
}

void box_wake(struct box *b, box_done_fn *fn, void *ctx)
{
    struct err err = ERR_INIT;
    if (box_usable(b, &err)) {
        fn(ctx, NULL);
        return;
    }
    if (!b->info.auto_resume) {
        fn(ctx, &err);
        return;
    }
    if (!waiters_add(&b->wakers, fn, ctx))
        return;
    if (!b->freezing && b->info.state == BOX_PAUSED)
        wake_again(b);
    else if (!b->freezing)
        waiters_tell(&b->wakers, &err);
}
