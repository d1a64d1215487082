/* How long the next call of the code's waits until it is answered. */
#include "base/clock.h"
#include "kernel/kernel.h"

#include <criterion/criterion.h>

Test(seen, calls_in_usual_number_do_not_wait)
{
    struct kernel k = {.seen_count = 2000, .seen_from_us = clock_us(), .seen_busy_us = 900000};
    cr_assert_eq(seen_pause_ms(&k), 0);
}

Test(seen, many_refused_calls_wait)
{
    struct kernel k = {.seen_count = 2001, .seen_from_us = clock_us()};
    cr_assert_neq(seen_pause_ms(&k), 0);
}

Test(seen, calls_that_take_more_than_their_share_wait)
{
    uint64_t minute = 60000000, now = clock_us();
    struct kernel k = {.seen_from_us = now - minute, .seen_busy_us = minute / 4 + 2000000};
    cr_assert_neq(seen_pause_ms(&k), 0);
    k.seen_busy_us = minute / 4;
    cr_assert_eq(seen_pause_ms(&k), 0);
    k.seen_busy_us = minute;
    k.options.learn = true;
    cr_assert_eq(seen_pause_ms(&k), 0, "an operator asked for all of them");
}
