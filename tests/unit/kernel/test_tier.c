/* The table of tiers: complete, in order, and the reasons that it gives. */
#include "kernel/tier.h"

#include <criterion/criterion.h>
#include <string.h>

Test(tier, every_tier_has_a_row)
{
    for (enum tier t = TIER_PROCESS; t < TIER_COUNT; t++) {
        const struct tier_row *row = tier_row(t);
        cr_assert_not_null(row->about, "%s", tier_name(t));
        cr_assert(row->needs || row->probe, "%s needs nothing at all", tier_name(t));
        /* A tier that stands in namespaces cannot be had without them. */
        if (row->needs && tier_namespaced(t))
            cr_assert(row->needs & TIER_NEEDS_NAMESPACES, "%s", tier_name(t));
        /* Only what is served can be cloned. */
        cr_assert(row->served || !row->cloned, "%s", tier_name(t));
    }
}

Test(tier, words_read_back)
{
    enum tier back;
    for (enum tier t = TIER_PROCESS; t < TIER_COUNT; t++) {
        cr_assert_eq(tier_parse(tier_name(t), &back), 0);
        cr_assert_eq(back, t);
    }
    cr_assert_lt(tier_parse("auto", &back), 0, "what no level has filled in cannot be asked for");
    cr_assert_not(tier_namespaced(TIER_AUTO));
    cr_assert_not(tier_namespaced(TIER_PROCESS));
    cr_assert(tier_namespaced(TIER_CONTAINER));
}

Test(tier, a_probe_gives_a_reason_or_the_tier)
{
    for (enum tier t = TIER_PROCESS; t < TIER_COUNT; t++) {
        struct tier_answer answer;
        tier_probe(t, &answer);
        cr_assert(answer.available || answer.why[0], "%s", tier_name(t));
    }
}

Test(tier, stronger_levels_never_ask_for_weaker_tiers)
{
    for (int level = 1; level < LEVEL_COUNT; level++)
        cr_assert_leq(tier_of_level((enum level)(level - 1)), tier_of_level((enum level)level));
}
