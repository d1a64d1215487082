/* The controls: runs every attack without a sandbox, as the caller. */
#include "verify/cell.h"

#include "base/clock.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define NOTICE_US 20000000u

static bool has_token(const struct canaries *c, const struct outcome *o)
{
    return strstr(o->detail, c->token) || strstr(o->detail, c->secret);
}

static void look_at_ourselves(size_t i, struct controls *ret, const struct canaries *c)
{
    struct sight self = {.pid = getpid(), .canaries = c, .outside = true};
    struct outcome *o = &ret->outcomes[i];
    *o = (struct outcome){.reported = true};
    o->worked = rows[i].look(&self, o->detail, sizeof o->detail);
    o->code = o->worked ? 0 : ATTACK_NOTHING;
    ret->ran[i] = true;
}

/* A signal takes its time. */
static bool noticed(check_fn *check, const struct canaries *c)
{
    uint64_t deadline = clock_us() + NOTICE_US;
    while (!check(c)) {
        if (clock_us() > deadline)
            return false;
        usleep(1000);
    }
    return true;
}

static void try_outside(size_t i, struct controls *ret, const struct canaries *c)
{
    const struct row *r = &rows[i];
    struct place place = c->place;
    struct attempt a = {.place = &place, .outside = true};
    struct outcome *o = &ret->outcomes[i];
    place.limit = scene_limit(r->scene, false, false);
    snprintf(place.mark, sizeof place.mark, "vfy-%.8s", strrchr(place.folder, '-') + 1);
    ret->ran[i] = outcome_try(r->attack, &a, r->flags & ROW_PRIVATE, o);
    if (!ret->ran[i])
        return;
    if (r->flags & ROW_TOKEN)
        o->worked = has_token(c, o);
    if ((r->flags & ROW_CHECK) && r->check)
        o->worked = noticed(r->check, c);
    if (r->flags & ROW_MARKED)
        o->worked = marked_tasks(place.mark, true) > 0;
    if (!o->worked && o->code == 0)
        o->code = ATTACK_NOTHING;
}

void controls_run(struct controls *ret, const struct canaries *canaries)
{
    memset(ret, 0, sizeof *ret);
    for (size_t i = 0; i < row_count; i++) {
        /* Modules and what goes through brig-proxy have theirs inside. */
        if (rows[i].flags & ROW_PROXY)
            continue;
        if (rows[i].look)
            look_at_ourselves(i, ret, canaries);
        else if (rows[i].attack)
            try_outside(i, ret, canaries);
    }
}
