/* brig-proxy works no faster than the sandbox's share of the processors (LC-12). */
#include "proxy/pace.h"

#include <criterion/criterion.h>

/* So much processor time goes into this much time, if there is always something to do: rounds of
 * work, each with the waits that it is told to make after it. */
static uint64_t worked(uint32_t cpus_milli, uint64_t round_us, uint64_t until_us)
{
    struct pace p = {.cpus_milli = cpus_milli};
    uint64_t wall = 1000, cpu = 500, before = cpu;
    pace_due(&p, wall, cpu);
    while (wall < until_us) {
        wall += round_us;
        cpu += round_us;
        for (unsigned ms; (ms = pace_due(&p, wall, cpu));)
            wall += 1000ull * ms;
    }
    return cpu - before;
}

Test(pace, a_share_is_kept_whatever_a_round_costs)
{
    static const uint32_t shares[] = {10, 100, 250, 500, 900};
    for (int i = 0; i < 5; i++)
        for (uint64_t round = 50; round <= 50000; round *= 10) {
            uint64_t all = 20000000, share = all * shares[i] / 1000;
            uint64_t did = worked(shares[i], round, all);
            cr_expect_leq(did, share + share / 10 + PACE_BURST_US + 2 * round, "%u, %lu: %lu",
                          shares[i], (unsigned long)round, (unsigned long)did);
            cr_expect_geq(did, share - share / 2, "%u, %lu: it can be used: %lu", shares[i],
                          (unsigned long)round, (unsigned long)did);
        }
}

Test(pace, a_whole_processor_is_no_limit)
{
    cr_assert_geq(worked(1000, 1000, 1000000), 990000);
    cr_assert_geq(worked(0, 1000, 1000000), 990000);
    cr_assert_geq(worked(64000, 1000, 1000000), 990000);
}

Test(pace, what_was_not_used_is_not_saved_up)
{
    struct pace p = {.cpus_milli = 100};
    pace_due(&p, 1000, 0);
    cr_assert_eq(pace_due(&p, 3600000000ull, 1000), 0, "after an hour");
    cr_assert_leq(p.credit_us, PACE_BURST_US);
    cr_assert_gt(pace_due(&p, 3600300000ull, 301000), 0);
}

Test(pace, a_wait_has_a_bound)
{
    struct pace p = {.cpus_milli = 1};
    pace_due(&p, 1000, 0);
    cr_assert_eq(pace_due(&p, 10001000, 10000000), PACE_WAIT_MS);
}
