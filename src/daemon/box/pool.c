/* Warm sandboxes: attested, without any user's data, handed out once.
 *
 * PL-1  Taken out of the list before it is offered: nobody else can get it.
 * PL-2  Refilling yields to requests: at most two start at a time, when nobody has been waiting for
 *       a sandbox or for its first output for a moment (or little is left to be claimed), never
 *       when it would take a slot that a request waits for.
 * PL-3  A template that changed, or that fails, is not refilled blindly: an old version is ended,
 *       failures wait longer and longer. */
#include "base/cleanup.h"
#include "base/container.h"
#include "base/text.h"
#include "daemon/base/fault.h"
#include "daemon/base/random.h"
#include "daemon/box/box_internal.h"

#include <stdio.h>
#include <string.h>

#define PARALLEL     2u /* launches for pools, of all templates */
#define TICK_MS      1000u
#define REFILL_MS    5u
#define QUIET_MS     15u /* after a claim or the start of an execution */
#define BACKOFF_MS   500u
#define BACKOFF_MOST 60000u
#define DEFAULT_IDLE 60000u
#define POOL_MOST    256u

static struct tmpl *of_tick(struct loop_timer *t)
{
    return container_of(t, struct tmpl, pool.tick);
}

static unsigned target_of(const struct tmpl *t)
{
    const struct pool *p = &t->pool;
    return t->listed && !t->core->draining ? demand_target(&p->demand, p->min, p->max) : 0;
}

/* ---- the list ---- */

static void list_add(struct pool *p, struct box *b)
{
    b->newer = NULL;
    b->older = p->newest;
    if (p->newest)
        p->newest->newer = b;
    else
        p->oldest = b;
    p->newest = b;
    p->idle++;
}

static void list_remove(struct pool *p, struct box *b)
{
    if (b->newer)
        b->newer->older = b->older;
    else
        p->newest = b->older;
    if (b->older)
        b->older->newer = b->newer;
    else
        p->oldest = b->newer;
    b->newer = b->older = NULL;
    p->idle--;
}

void pool_left(struct box *b)
{
    struct pool *p = &b->tmpl->pool;
    if (!b->in_pool)
        return;
    b->in_pool = false;
    if (b->pool_idle) {
        b->pool_idle = false;
        list_remove(p, b);
    } else {
        p->starting--;
        b->core->pool_starting--;
    }
}

void pool_flush(struct tmpl *t)
{
    struct pool *p = &t->pool;
    while (p->oldest)
        box_end(p->oldest, "pool", NULL, NULL);
}

/* ---- more of them ---- */

static void launch(struct tmpl *t)
{
    struct core *c = t->core;
    struct err err = ERR_INIT;
    struct box *b = box_new(c, t, &err);
    if (!b)
        return;
    b->pooled = b->in_pool = true;
    t->pool.starting++;
    t->pool.retired = false;
    c->pool_starting++;
    box_launch(b, NULL);
    fault_point(FAULT_POOL_LAUNCH);
}

void pool_busy(struct core *c)
{
    c->busy_until_ms = loop_now_ms(c->loop) + QUIET_MS;
}

/* Making a sandbox takes a processor for some milliseconds. Those who claim one of the others now
 * shall not wait for it; unless there are hardly any others. */
static bool is_quiet(const struct tmpl *t)
{
    const struct pool *p = &t->pool;
    return loop_now_ms(t->core->loop) >= t->core->busy_until_ms || p->idle * 4 < target_of(t);
}

static bool may_launch(const struct tmpl *t)
{
    const struct core *c = t->core;
    const struct pool *p = &t->pool;
    /* While requests are refused for want of room, do not fill the pool. */
    return c->ready && !c->draining && !c->lost && !c->waiting &&
           p->idle + p->starting < target_of(t) && c->pool_starting < PARALLEL &&
           !c->refusal_timer.due_ms && c->live < c->config.max_boxes &&
           loop_now_ms(c->loop) >= p->not_before_ms;
}

static void refill(struct tmpl *t)
{
    struct pool *p = &t->pool;
    if (!is_quiet(t) && p->idle + p->starting < target_of(t)) {
        if (!p->refill.due_ms)
            loop_timer_set(t->core->loop, &p->refill, REFILL_MS);
        return;
    }
    while (may_launch(t)) {
        unsigned before = t->pool.failed_in_row;
        launch(t);
        if (t->pool.failed_in_row > before)
            return;
    }
}

/* Those of other templates get a chance as well. */
static void refill_all(struct core *c)
{
    for (struct tmpl *t = c->templates; t; t = t->next)
        refill(t);
}

static bool is_at_rest(const struct tmpl *t)
{
    const struct pool *p = &t->pool;
    return p->demand.rate == 0 && p->demand.this_second == 0 &&
           p->idle + p->starting == target_of(t);
}

void pool_poke(struct tmpl *t)
{
    struct loop *l = t->core->loop;
    if (!t->pool.refill.due_ms)
        loop_timer_set(l, &t->pool.refill, REFILL_MS);
    if (!t->pool.tick.due_ms && !is_at_rest(t))
        loop_timer_set(l, &t->pool.tick, TICK_MS);
}

static void on_refill(struct loop_timer *t)
{
    refill(container_of(t, struct tmpl, pool.refill));
}

/* ---- fewer of them ---- */

static void expire(struct tmpl *t)
{
    struct pool *p = &t->pool;
    uint64_t now = loop_now_ms(t->core->loop);
    while (p->idle > target_of(t) && p->oldest && now - p->oldest->idle_since_ms >= p->idle_ms) {
        p->expired++;
        box_end(p->oldest, "pool", NULL, NULL);
    }
}

/* No sandbox of this template waits, and none is wanted: soon nothing needs to be there that more
 * could be cloned from. */
static bool is_idle(const struct tmpl *t)
{
    const struct pool *p = &t->pool;
    return !p->retired && !p->idle && !p->starting && target_of(t) == 0;
}

static void retire(struct tmpl *t)
{
    struct pool *p = &t->pool;
    if (!is_idle(t) || loop_now_ms(t->core->loop) - p->wanted_ms < p->idle_ms)
        return;
    p->retired = true;
    const char *text = JSON_SMALL(JSON_TEXT("template", t->name));
    peer_send(&t->core->launcher, WIRE_RETIRE, 0, 0, text, strlen(text));
}

static void on_tick(struct loop_timer *timer)
{
    struct tmpl *t = of_tick(timer);
    demand_tick(&t->pool.demand);
    expire(t);
    refill(t);
    retire(t);
    if (!is_at_rest(t) || is_idle(t))
        loop_timer_set(t->core->loop, timer, TICK_MS);
}

/* The one that waited longest, of the template that has the most to spare. */
bool pool_evict(struct core *c)
{
    struct tmpl *most = NULL;
    for (struct tmpl *t = c->templates; t; t = t->next)
        if (t->pool.idle && (!most || t->pool.idle > most->pool.idle))
            most = t;
    if (!most)
        return false;
    most->pool.expired++;
    box_end(most->pool.oldest, "pool", NULL, NULL);
    return true;
}

/* ---- in and out ---- */

void pool_add(struct box *b)
{
    struct tmpl *t = b->tmpl;
    struct pool *p = &t->pool;
    if (!b->in_pool)
        return;
    p->starting--;
    b->core->pool_starting--;
    b->pool_idle = true;
    b->idle_since_ms = loop_now_ms(b->core->loop);
    list_add(p, b);
    p->failed_in_row = 0;
    p->not_before_ms = 0;
    if (b->version != p->version || !t->listed || b->core->draining) {
        box_end(b, "pool", NULL, NULL);
        return;
    }
    create_pool_ready(t);
    refill_all(b->core);
    pool_poke(t);
}

struct box *pool_take(struct tmpl *t)
{
    struct pool *p = &t->pool;
    struct box *b = p->newest;
    p->demand.this_second++;
    p->wanted_ms = loop_now_ms(t->core->loop);
    p->retired = false;
    pool_busy(t->core);
    if (b) {
        p->hits++;
        pool_left(b);
    } else {
        p->misses++;
    }
    pool_poke(t);
    return b;
}

void pool_undemand(struct tmpl *t)
{
    if (t->pool.demand.this_second > 0)
        t->pool.demand.this_second--;
}

void pool_failed(struct box *b)
{
    struct pool *p = &b->tmpl->pool;
    struct core *c = b->core;
    unsigned shift = p->failed_in_row < 7 ? p->failed_in_row : 7;
    uint64_t wait = (uint64_t)BACKOFF_MS << shift;
    if (wait > BACKOFF_MOST)
        wait = BACKOFF_MOST;
    wait = wait / 2 + random_below((uint32_t)(wait / 2) + 1);
    p->failures++;
    p->failed_in_row++;
    p->not_before_ms = loop_now_ms(c->loop) + wait;
    loop_timer_set(c->loop, &p->refill, wait + 1);
}

/* ---- its size ---- */

static unsigned size_in(const struct json *json, const char *key, unsigned otherwise)
{
    const struct json *v = json ? json_get(json, key) : NULL;
    if (!v || json_type(v) != JSON_INT || json_int(v) < 0)
        return otherwise;
    return json_int(v) > (int64_t)POOL_MOST ? POOL_MOST : (unsigned)json_int(v);
}

void pool_setup(struct tmpl *t, const struct json *json)
{
    struct pool *p = &t->pool;
    const struct json *idle = json ? json_get(json, "idle_ms") : NULL;
    p->tick.fn = on_tick;
    p->refill.fn = on_refill;
    p->retired = true;
    p->idle_ms = idle && json_type(idle) == JSON_INT && json_int(idle) > 0
                     ? (uint64_t)json_int(idle)
                     : DEFAULT_IDLE;
    if (!p->resized) {
        p->min = size_in(json, "min", 0);
        p->max = size_in(json, "max", 0);
        if (p->max < p->min)
            p->max = p->min;
    }
    pool_flush(t); /* what there is, is of the old version */
}

int pool_resize(struct core *c, const char *template_name, unsigned min, unsigned max,
                struct err *err)
{
    struct tmpl *t = core_template(c, template_name);
    if (!t)
        return err_set(err, ERR_NOT_FOUND, "there is no such template");
    if (min > max || max > POOL_MOST || min > c->config.max_boxes)
        return err_set(err, ERR_USAGE, "a pool has a smallest and a largest size, at most %u",
                       POOL_MOST);
    t->pool.min = min;
    t->pool.max = max;
    t->pool.resized = true;
    t->pool.not_before_ms = 0;
    while (t->pool.idle > max)
        box_end(t->pool.oldest, "pool", NULL, NULL);
    char key[96];
    snprintf(key, sizeof key, "pool.%s", t->name);
    const char *value = JSON_SMALL(JSON_NUMBER("min", min), JSON_NUMBER("max", max));
    core_put(c, "settings", key, value);
    core_record(c, "pool.resized", NULL, NULL, value);
    pool_poke(t);
    return 0;
}

/* Rows come before or after the templates: they are kept until both are there. */
struct setting {
    struct setting *next;
    char name[64];
    unsigned min, max;
};

void pool_restore(struct core *c, const char *key, const struct json *value)
{
    if (!text_begins(key, "pool.") || strlen(key + 5) > 63 || c->setting_count >= TEMPLATES_MAX)
        return;
    struct setting *s = calloc(1, sizeof *s);
    if (!s)
        return;
    snprintf(s->name, sizeof s->name, "%s", key + 5);
    s->min = size_in(value, "min", 0);
    s->max = size_in(value, "max", s->min);
    s->next = c->settings;
    c->settings = s;
    c->setting_count++;
}

void pool_settings_free(struct core *c)
{
    while (c->settings) {
        struct setting *s = c->settings;
        c->settings = s->next;
        free(s);
    }
}

static void apply_settings(struct tmpl *t)
{
    for (const struct setting *s = t->core->settings; s; s = s->next) {
        if (strcmp(s->name, t->name) != 0 || s->min > s->max)
            continue;
        t->pool.min = s->min;
        t->pool.max = s->max;
        t->pool.resized = true;
    }
    pool_poke(t);
}

void pool_ready(struct core *c)
{
    for (struct tmpl *t = c->templates; t; t = t->next)
        apply_settings(t);
    pool_settings_free(c);
}

void pools_each(struct core *c, void (*fn)(void *ctx, const struct pool_info *p), void *ctx)
{
    for (struct tmpl *t = c->templates; t; t = t->next) {
        const struct pool *p = &t->pool;
        if (!t->listed)
            continue;
        struct pool_info info = {t->name,      p->idle, p->starting, p->min,     p->max,
                                 target_of(t), p->hits, p->misses,   p->expired, p->failures};
        fn(ctx, &info);
    }
}
