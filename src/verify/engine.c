/* In the place of an engine: what somebody who broke out of it could do. It has the engine's
 * profile of system calls and stands in the container tier's walls, so all that code on the
 * container tier must not get is tried, and one success is enough. */
#include "verify/attack.h"

#include "verify/row.h"

#include <stdio.h>
#include <string.h>

/* What an engine is there to do; and what a policy, or the lack of a control group, may allow. A
 * monitor steers no other process. */
static bool is_left_out(const struct row *r, bool monitor)
{
    return (!monitor && strcmp(r->id, "K-10.ptrace") == 0) || r->scene != SCENE_PLAIN ||
           !r->attack ||
           (r->flags & (ROW_TOKEN | ROW_NOEXEC | ROW_READ_ONLY | ROW_CLOSED | ROW_CGROUP |
                        ROW_COUNTED | ROW_SENTRY | ROW_GUEST));
}

int attack_as_engine(struct attempt *a)
{
    if (a->outside)
        return attack_read_canary(a);
    size_t used = 0;
    char found[sizeof a->detail] = "";
    for (size_t i = 0; i < row_count; i++) {
        struct attempt one = {.place = a->place, .monitor = a->place->guest};
        struct outcome o;
        if (is_left_out(&rows[i], a->place->guest) ||
            !outcome_try(rows[i].attack, &one, false, &o) || !o.worked ||
            (rows[i].flags & ROW_CHECK))
            continue;
        if (used < sizeof found)
            used += (size_t)snprintf(found + used, sizeof found - used, "%s ", rows[i].id);
    }
    attack_say(a, "%s", found);
    return used ? 0 : ATTACK_NOTHING;
}
