/* Requests without a key that is good: each leaves its trace in the records, and none of them can
 * fill the disk. The first is written at once; those that follow are counted, and the count is
 * written at the end of a window that doubles as long as they go on, up to ten minutes: a flood of
 * a day is some hundred and fifty records. */
#include "daemon/core/core_internal.h"

#include "base/container.h"

#define WINDOW_MS     1000u
#define WINDOW_MAX_MS 600000u

static void write_record(struct core *c, uint64_t count, uint64_t window_ms)
{
    record_send(c, "api", "auth.refused", NULL, NULL,
                JSON_SMALL(JSON_NUMBER("count", count), JSON_NUMBER("window_ms", window_ms)));
}

void strangers_seen(struct core *c)
{
    struct strangers *s = &c->strangers;
    core_count(c, COUNT_REFUSED, 1);
    if (s->window_ms) {
        s->count++;
        return;
    }
    write_record(c, 1, 0);
    s->window_ms = WINDOW_MS;
    loop_timer_set(c->loop, &s->timer, s->window_ms);
}

void strangers_on_timer(struct loop_timer *t)
{
    struct core *c = container_of(t, struct core, strangers.timer);
    struct strangers *s = &c->strangers;
    if (!s->count) {
        s->window_ms = 0; /* they have gone: the next one is the first again */
        return;
    }
    write_record(c, s->count, s->window_ms);
    s->count = 0;
    s->window_ms = s->window_ms * 2 > WINDOW_MAX_MS ? WINDOW_MAX_MS : s->window_ms * 2;
    loop_timer_set(c->loop, t, s->window_ms);
}

void strangers_end(struct core *c)
{
    struct strangers *s = &c->strangers;
    loop_timer_cancel(c->loop, &s->timer);
    if (s->count)
        write_record(c, s->count, s->window_ms);
    s->count = 0;
}
