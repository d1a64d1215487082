/* The compiler with tables far larger than ours, where jumps no longer reach their targets. */
#include "kernel/process/filter_rules.h"

#include "filter_fixture.h"

#include <linux/sched.h>
#include <stdlib.h>

#define MAX_RANGES 4000

static struct filter_range ranges[MAX_RANGES + 1];

static const filter_target targets[] = {
    VERDICT_ALLOW,  VERDICT_SEEN, VERDICT_QUIET, VERDICT_NOPROTO, TARGET_CHECK(RULE_CLONE),
    VERDICT_ABSENT,
};
#define TARGETS (sizeof(targets) / sizeof(targets[0]))

/* Ranges of `width` numbers; a width of 0 is one to three, at random. */
static void make_ranges(size_t count, unsigned width)
{
    uint32_t first = 0;
    size_t t = 0;
    memset(ranges, 0, sizeof(ranges));
    for (size_t i = 0; i < count; i++) {
        t = (t + 1 + (size_t)rand() % (TARGETS - 1)) % TARGETS; /* never the same twice */
        ranges[i] = (struct filter_range){first, targets[t]};
        first += width ? width : 1 + (unsigned)rand() % 3;
    }
}

static uint32_t expected(size_t count, uint32_t nr, bool check_passes)
{
    size_t i = count - 1;
    while (ranges[i].first > nr)
        i--;
    if (ranges[i].target == TARGET_CHECK(RULE_CLONE))
        return check_passes ? ALLOW : SEEN;
    return filter_return(ranges[i].target, &container);
}

static void compile_and_compare(size_t count)
{
    struct err err = ERR_INIT;
    cr_assert_eq(filter_compile(arch, ranges, count, &container, &program, &err), 0, "%s",
                 err.message);
    for (uint32_t nr = 0; nr <= ranges[count - 1].first + 2; nr++) {
        uint64_t bad[6] = {CLONE_NEWNS};
        cr_assert_eq(run(arch, (int)nr, NULL).ret, expected(count, nr, true), "%u", nr);
        cr_assert_eq(run(arch, (int)nr, bad).ret, expected(count, nr, false), "%u", nr);
        cr_assert_eq(run(ARCH_I386, (int)nr, NULL).ret, SEEN);
        cr_assert_eq(run(ARCH_ARM, (int)nr, NULL).ret, SEEN);
    }
}

TestBoth(filter_compile, any_table_that_fits)
{
    srand(4711);
    for (size_t count = 2; count < 740; count += 1 + count / 10) {
        make_ranges(count, 0);
        compile_and_compare(count);
        make_ranges(count, 2);
        compile_and_compare(count);
        make_ranges(count, 1);
        compile_and_compare(count);
    }
    cr_assert_gt(program.len, 512, "only %u instructions: nothing was out of reach", program.len);
}

Test(filter_compile, a_table_that_does_not_fit_is_refused)
{
    struct err err = ERR_INIT;
    for (size_t count = 900; count <= MAX_RANGES; count += 100) {
        make_ranges(count, 2);
        if (filter_compile(arch, ranges, count, &container, &program, &err) < 0)
            cr_assert_eq(err.code, ERR_LIMIT);
        else
            compile_and_compare(count);
    }
    cr_assert_eq(err.code, ERR_LIMIT);
}
