/* The table of tiers: complete, in order, and the reasons that it gives. */
#include "kernel/kernel.h"
#include "kernel/tier.h"
#include "kernel/vm.h"
#include "kernel/vm_speed.h"

#include <criterion/criterion.h>
#include <string.h>

Test(tier, every_tier_has_a_row)
{
    for (enum tier t = TIER_PROCESS; t < TIER_COUNT; t++) {
        const struct tier_row *row = tier_row(t);
        cr_assert_not_null(row->about, "%s", tier_name(t));
        cr_assert(row->needs || row->probe, "%s needs nothing at all", tier_name(t));
        /* A tier that stands in namespaces is not available without them. */
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

Test(tier, an_imitated_processor_is_told_from_a_slow_one)
{
    const uint64_t million = 1000000;
    cr_assert_not(vm_speed_imitated(million / 2, million), "a processor");
    cr_assert_not(vm_speed_imitated(20 * million, million), "an emulator of all of it");
    cr_assert(vm_speed_imitated(400 * million, million), "one instruction at a time");
    cr_assert_not(vm_speed_imitated(0, 0));
}

Test(tier, machines_where_none_was_seen_to_run_take_the_operators_word)
{
    cr_assert(vm_may_be_tried(true, NULL));
    cr_assert(vm_may_be_tried(false, "1"), "the control: with the word");
    cr_assert_not(vm_may_be_tried(false, NULL));
    cr_assert_not(vm_may_be_tried(false, ""));
    cr_assert_not(vm_may_be_tried(false, "0"));
    cr_assert_not(vm_may_be_tried(false, "10"));
}

static unsigned handed_in(enum plan_stage stage)
{
    struct kernel_machine machine = {.first_tree = 1};
    struct kernel k = {.tier = TIER_VM, .machine = &machine, .listener_fd = -1};
    struct plan plan;
    struct plan_reader reader;
    struct err err = ERR_INIT;
    struct op op;
    unsigned count = 0;
    plan_init(&plan);
    cr_assert_geq(kernel_plan(&k, stage, &plan, &err), 0, "%s", err.message);
    cr_assert_geq(plan_finish(&plan, &err), 0, "%s", err.message);
    cr_assert_geq(plan_read_begin(&reader, plan.bytes.data, plan.bytes.len, &err), 0);
    while (plan_read_next(&reader, &op, &err) > 0)
        count += op.kind == OP_HAND;
    plan_done(&plan);
    return count;
}

/* The network's helper takes free descriptors until init enters what it made, in STAGE_RESTRICT: a
 * late one's would be put away for those that are handed over. */
Test(tier, descriptors_are_handed_over_when_the_networks_helper_has_ended)
{
    for (enum plan_stage stage = STAGE_BIRTH; stage < STAGE_COUNT; stage++)
        cr_assert_eq(handed_in(stage), stage == STAGE_SEAL ? KERNEL_HANDED : 0, "stage %d", stage);
}
