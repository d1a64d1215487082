/* The table: every row can be tried and judged, every guard has a row that misses it. */
#include "verify/row.h"

#include <criterion/criterion.h>
#include <string.h>
#include <unistd.h>

Test(rows, there_are_enough_of_them_on_every_boundary)
{
    unsigned count[BOUNDARY_COUNT] = {0};
    cr_assert_geq(row_count, 100);
    for (size_t i = 0; i < row_count; i++)
        count[rows[i].boundary]++;
    for (int b = BOUNDARY_KERNEL; b < BOUNDARY_COUNT; b++)
        cr_assert_geq(count[b], 8, "%s", boundary_name((enum boundary_id)b));
}

Test(rows, ids_are_unique_and_fit)
{
    for (size_t i = 0; i < row_count; i++) {
        cr_assert_leq(strlen(rows[i].id), 18, "%s", rows[i].id);
        cr_assert_leq(strlen(rows[i].title), 60, "%s", rows[i].id);
        for (size_t j = 0; j < i; j++)
            cr_assert_str_neq(rows[i].id, rows[j].id);
    }
}

Test(rows, each_has_somebody_who_tries_or_looks)
{
    for (size_t i = 0; i < row_count; i++) {
        const struct row *r = &rows[i];
        cr_assert(r->attack || r->look || (r->flags & ROW_MARKED), "%s", r->id);
        cr_assert(!(r->flags & ROW_CHECK) || r->check || r->scene == SCENE_OUTPUT, "%s", r->id);
        cr_assert(!(r->flags & ROW_PROXY) || r->scene == SCENE_NETWORK, "%s", r->id);
        cr_assert(!(r->flags & ROW_CONTAINER) || r->process == 0, "%s", r->id);
    }
}

Test(rows, no_guard_is_without_a_row)
{
    uint64_t all = 0;
    for (size_t i = 0; i < row_count; i++)
        all |= rows[i].process | rows[i].container;
    for (int g = 0; g < GUARD_COUNT; g++)
        cr_assert(all & UINT64_C(1) << g, "%s", guard_name((enum guard)g));
}

Test(rows, no_guard_is_left_out_of_this_program)
{
    for (int g = 0; g < GUARD_COUNT; g++)
        cr_assert(!guard_left_out((enum guard)g) && !guard_unattested((enum guard)g));
}

static const struct row *row_named(const char *id)
{
    for (size_t i = 0; i < row_count; i++)
        if (strcmp(rows[i].id, id) == 0)
            return &rows[i];
    cr_assert_fail("no row %s", id);
    return NULL;
}

/* A host and a policy on which everything can be tried. */
static struct circumstances everything(void)
{
    struct circumstances c = {.tier = TIER_CONTAINER,
                              .root = true,
                              .cgroup = true,
                              .workspace = true,
                              .ipv6 = true,
                              .proxy = true};
    memset(c.limited, true, sizeof c.limited);
    return c;
}

Test(rows, where_everything_can_be_tried_nothing_is_excused)
{
    struct circumstances c = everything();
    for (size_t i = 0; i < row_count; i++)
        cr_assert_null(row_excused(&rows[i], &c), "%s", rows[i].id);
}

Test(rows, what_cannot_be_tried_says_why)
{
    struct circumstances c = everything();
    c.tier = TIER_PROCESS;
    cr_assert_not_null(row_excused(row_named("K-07.ns-pid"), &c));
    cr_assert_null(row_excused(row_named("F-01.read"), &c));
    c = everything();
    c.proxy = false;
    cr_assert_not_null(row_excused(row_named("C-05"), &c));
    c = everything();
    c.limited[SCENE_DEADLINE] = false;
    cr_assert_not_null(row_excused(row_named("R-07"), &c));
    c = everything();
    c.exec = true;
    cr_assert_not_null(row_excused(row_named("F-28"), &c));
    c = everything();
    c.writable_root = true;
    cr_assert_not_null(row_excused(row_named("F-11.system"), &c));
    cr_assert(strstr(row_excused(row_named("F-20"), &c), "Landlock"), "and why is true of the row");
    for (size_t i = 0; i < row_count; i++)
        cr_assert(!row_excused(&rows[i], &c) || strcmp(rows[i].id, "F-11.system") == 0 ||
                      strcmp(rows[i].id, "F-20") == 0,
                  "%s", rows[i].id);
    c = everything();
    c.root = false;
    cr_assert_not_null(row_excused(row_named("K-17.groups"), &c));
}

Test(rows, in_a_writable_root_the_guard_of_the_system_is_another)
{
    struct circumstances c = everything();
    cr_assert(row_guards(row_named("F-11.mounts"), &c) & GUARD_BIT(READ_ONLY));
    c.writable_root = true;
    cr_assert_not(row_guards(row_named("F-11.mounts"), &c) & GUARD_BIT(READ_ONLY));
    cr_assert(row_guards(row_named("F-11.contents"), &c) & GUARD_BIT(READ_ONLY), "grants keep it");
}

/* We are no sandbox: nothing of what is asked for is there. */
Test(rows, a_view_of_the_host_is_no_writable_root)
{
    struct sight self = {.pid = getpid(), .outside = true, .writable_root = true};
    char seen[160] = "";
    cr_assert(look_system_writable(&self, seen, sizeof seen));
    cr_assert(seen[0]);
}

/* A socket that is not for everybody is closed to the uid of root's sandboxes, whatever is left
 * out. */
Test(rows, the_guards_of_sockets_are_those_that_this_host_needs)
{
    const struct row *sockets = row_named("C-13.sockets");
    struct circumstances c = everything();
    cr_assert_eq(row_guards(sockets, &c), 0);
    c.open_engine = true;
    cr_assert_eq(row_guards(sockets, &c), sockets->container);
    c.tier = TIER_PROCESS;
    cr_assert_eq(row_guards(sockets, &c), sockets->process);
    c.open_engine = false;
    cr_assert_eq(row_guards(sockets, &c), 0);
    c.root = false;
    cr_assert_eq(row_guards(sockets, &c), sockets->process);
}
