/* process.Process/List: what runs in a sandbox.
 *
 * Each process has the words that it was started with, which may be many and long when they are
 * written down: they are written a few in each round of the event loop, and one that ends meanwhile
 * is left out. */
#include "daemon/e2b/envd.h"
#include "daemon/e2b/frames.h"

#include "base/clock.h"
#include "base/container.h"
#include "daemon/api/activity.h"

#define ANSWER_MAX (16u << 20)
#define TURN_US    1000u /* then others have theirs */

struct listing {
    struct activity activity;
    struct loop_timer turn;
    struct buf pids; /* int64_t, in the order of the answer */
    size_t at;
    struct buf out;
    struct json_writer w;
};

static void listing_stop(struct activity *a)
{
    loop_timer_cancel(a->loop, &container_of(a, struct listing, activity)->turn);
}

static void listing_done(struct activity *a)
{
    struct listing *l = container_of(a, struct listing, activity);
    buf_done(&l->pids);
    buf_done(&l->out);
}

static const struct activity_ops listing_ops = {.stop = listing_stop, .done = listing_done};

static void write_process(struct json_writer *w, const struct process *p)
{
    jw_object_begin(w);
    jw_key(w, "config");
    if (process_config(p)) {
        jw_json(w, process_config(p));
    } else {
        jw_object_begin(w);
        jw_object_end(w);
    }
    jw_kv_int(w, "pid", process_pid(p));
    if (process_tag(p))
        jw_kv_string(w, "tag", process_tag(p));
    jw_object_end(w);
}

static void listing_reply(struct listing *l)
{
    struct err err = ERR_INIT;
    jw_array_end(&l->w);
    jw_object_end(&l->w);
    struct call *call = activity_end(&l->activity);
    if (!l->out.failed && !l->pids.failed)
        call_reply(call, 200, &l->out);
    else if (hold_refusal(&l->activity.hold, &err) < 0)
        call_fail_err(call, &err);
    else
        call_fail_memory(call);
}

static bool is_complete(const struct listing *l)
{
    return l->at * sizeof(int64_t) >= l->pids.len || l->out.failed || l->pids.failed;
}

static void write_some(struct listing *l)
{
    struct box *b = box_find_any(l->activity.core, l->activity.call->id);
    const int64_t *pids = (const int64_t *)(const void *)l->pids.data;
    uint64_t began = clock_us();
    while (b && !is_complete(l) && clock_us() - began < TURN_US) {
        const struct process *p = process_find(b, pids[l->at++], NULL);
        if (p)
            write_process(&l->w, p);
    }
    if (!b || is_complete(l))
        listing_reply(l);
    else
        loop_timer_set(l->activity.loop, &l->turn, 1);
}

static void on_turn(struct loop_timer *t)
{
    write_some(container_of(t, struct listing, turn));
}

static void add_pid(void *ctx, struct process *p)
{
    struct listing *l = ctx;
    int64_t pid = process_pid(p);
    buf_add(&l->pids, &pid, sizeof pid);
}

void envd_process_list(struct call *call, const struct json *body)
{
    struct err err = ERR_INIT;
    struct box *b = call_sandbox(call);
    if (!b)
        return;
    struct listing *l = activity_new(sizeof *l, &listing_ops, call->core, call->hold.account, &err);
    if (!l) {
        call_fail_err(call, &err);
        return;
    }
    (void)body;
    l->turn.fn = on_turn;
    l->turn.share = account_share(l->activity.hold.account);
    activity_serve(&l->activity, call);
    call_watch(call);
    activity_buf(&l->activity, &l->pids, 1u << 20);
    activity_buf(&l->activity, &l->out, ANSWER_MAX);
    process_each(b, add_pid, l);
    jw_init(&l->w, &l->out, false);
    jw_object_begin(&l->w);
    jw_kv_array(&l->w, "processes");
    write_some(l);
}
