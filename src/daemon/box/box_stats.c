/* What a box uses, sampled only while somebody looks: a question to its warden every five seconds,
 * until nobody has asked for a minute. A box that nobody looks at costs nothing. */
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/container.h"
#include "base/wall.h"
#include "daemon/box/box_internal.h"

#include <string.h>

#define SAMPLE_MS 5000u
#define LOOK_MS   60000u
#define RING      120u /* ten minutes */
#define STATS_MS  10000u

struct stats_ring {
    struct box *box;
    struct loop_timer timer;
    uint64_t looked_ms;
    uint64_t last_us; /* when cpu_usec was last seen */
    uint64_t last_cpu;
    bool asking;
    struct box_waiter *waits;
    unsigned first, count;
    struct box_stats at[RING];
};

static void add(struct stats_ring *r, const struct json *tree)
{
    struct box *b = r->box;
    unsigned at = (r->first + r->count) % RING;
    if (r->count < RING)
        r->count++;
    else
        r->first = (r->first + 1) % RING;
    struct box_stats *s = &r->at[at];
    *s = (struct box_stats){
        .time_ms = wall_ms(),
        .cpu_usec = json_uint(tree, "cpu_usec"),
        .cpus_milli = b->info.cpus_milli,
        .memory = json_uint(tree, "memory"),
        .memory_limit = b->info.memory,
        .memory_cache = json_uint(tree, "memory_cache"),
        .disk = json_uint(tree, "disk"),
        .disk_limit = b->info.disk,
        .pids = json_uint(tree, "pids"),
    };
    uint64_t now = clock_us();
    if (r->last_us && now > r->last_us && s->cpu_usec >= r->last_cpu)
        s->cpu_percent = 100.0 * (double)(s->cpu_usec - r->last_cpu) / (double)(now - r->last_us);
    r->last_us = now;
    r->last_cpu = s->cpu_usec;
}

static void on_stats(void *ctx, struct wire_msg *m, const struct err *err)
{
    struct box *b = ctx;
    struct stats_ring *r = b->stats;
    struct err mine = ERR_INIT;
    struct json *tree = NULL;
    if (!r)
        return;
    r->asking = false;
    if (!err && json_parse(m->text, m->text_len, NULL, &tree, &mine) < 0)
        err = &mine;
    if (!err)
        add(r, tree);
    json_free(tree);
    waiters_tell(&r->waits, err);
}

static void ask(struct stats_ring *r)
{
    if (r->asking)
        return;
    r->asking = true;
    peer_ask(&r->box->warden, WIRE_STATS, 0, NULL, 0, STATS_MS, on_stats, r->box);
}

static void on_timer(struct loop_timer *t)
{
    struct stats_ring *r = container_of(t, struct stats_ring, timer);
    struct box *b = r->box;
    bool seen = loop_now_ms(b->core->loop) - r->looked_ms <= LOOK_MS;
    if (!seen || !peer_is_open(&b->warden))
        return;
    ask(r);
    loop_timer_set(b->core->loop, t, SAMPLE_MS);
}

/* Somebody looks. */
static struct stats_ring *look(struct box *b)
{
    if (!b->stats) {
        b->stats = calloc(1, sizeof *b->stats);
        if (!b->stats)
            return NULL;
        b->stats->box = b;
        b->stats->timer.fn = on_timer;
    }
    b->stats->looked_ms = loop_now_ms(b->core->loop);
    if (!b->stats->timer.due_ms)
        loop_timer_set(b->core->loop, &b->stats->timer, SAMPLE_MS);
    return b->stats;
}

size_t box_stats(const struct box *b, int64_t from_ms, int64_t to_ms, struct box_stats *ret,
                 size_t max)
{
    /* To look is to be interested; it changes nothing that could be seen. */
    struct stats_ring *r = look((struct box *)(uintptr_t)b);
    size_t n = 0;
    if (!r)
        return 0;
    if (r->count == 0)
        ask(r);
    unsigned skip = 0, fit = 0;
    for (unsigned i = 0; i < r->count; i++) {
        int64_t t = r->at[(r->first + i) % RING].time_ms;
        fit += t >= from_ms && (to_ms <= 0 || t <= to_ms);
    }
    if (fit > max)
        skip = fit - (unsigned)max;
    for (unsigned i = 0; i < r->count && n < max; i++) {
        const struct box_stats *s = &r->at[(r->first + i) % RING];
        if (s->time_ms < from_ms || (to_ms > 0 && s->time_ms > to_ms))
            continue;
        if (skip > 0)
            skip--;
        else
            ret[n++] = *s;
    }
    return n;
}

void box_sample(struct box *b, box_done_fn *fn, void *ctx)
{
    struct err err = ERR_INIT;
    struct stats_ring *r = look(b);
    if (!r) {
        err_memory(&err);
        fn(ctx, &err);
    } else if (waiters_add(&r->waits, fn, ctx)) {
        ask(r);
    }
}

void box_stats_free(struct box *b)
{
    struct err err = ERR_INIT;
    struct stats_ring *r = b->stats;
    if (!r)
        return;
    b->stats = NULL;
    loop_timer_cancel(b->core->loop, &r->timer);
    err_set(&err, ERR_NOT_FOUND, "sandbox %s is gone", b->info.id);
    waiters_tell(&r->waits, &err);
    free(r);
}
