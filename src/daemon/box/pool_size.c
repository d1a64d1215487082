/* How many sandboxes should wait. Pure.
 *
 * The rate of claims is weighted towards now: what happened ten seconds ago counts a thirtieth. As
 * many wait as were claimed in half a second at that rate, and one more once there is any demand; a
 * burst within this second counts at once. */
#include "daemon/box/box_internal.h"

#define WEIGHT 0.3

void demand_tick(struct demand *d)
{
    d->rate = d->rate * (1 - WEIGHT) + (double)d->this_second * WEIGHT;
    d->this_second = 0;
    if (d->rate < 0.01)
        d->rate = 0;
}

unsigned demand_target(const struct demand *d, unsigned min, unsigned max)
{
    double rate = d->rate > d->this_second ? d->rate : d->this_second;
    unsigned wanted = rate > 0 ? 1 + (unsigned)(rate / 2 > 1e6 ? 1e6 : rate / 2) : 0;
    if (wanted < min)
        wanted = min;
    return wanted > max ? max : wanted;
}
