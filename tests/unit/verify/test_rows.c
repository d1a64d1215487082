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
        cr_assert(r->attack || r->look || (r->flags & (ROW_MARKED | ROW_MODULE)), "%s", r->id);
        cr_assert_eq(scene_has_module(r->scene), !!(r->flags & ROW_MODULE), "%s", r->id);
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
        cr_assert_eq(!row_excused(&rows[i], &c),
                     row_on_tier(&rows[i], c.tier) && !(rows[i].flags & ROW_SENTRY), "%s",
                     rows[i].id);
    c.tier = TIER_WASM;
    for (size_t i = 0; i < row_count; i++)
        cr_assert_eq(!row_excused(&rows[i], &c), row_on_tier(&rows[i], c.tier), "%s", rows[i].id);
    c.tier = TIER_GVISOR;
    c.sentry = true;
    for (size_t i = 0; i < row_count; i++)
        cr_assert_eq(!row_excused(&rows[i], &c), row_on_tier(&rows[i], c.tier), "%s", rows[i].id);
    c.tier = TIER_VM;
    c.sentry = false;
    c.guest = true;
    for (size_t i = 0; i < row_count; i++)
        cr_assert_eq(!row_excused(&rows[i], &c), row_on_tier(&rows[i], c.tier), "%s", rows[i].id);
}

/* What is looked at is the monitor; rules, and limits that are kept from outside, are those of the
 * container tier. All else ends at walls inside and at the guest's kernel as well. */
Test(rows, behind_a_guest_there_are_walls_inside_as_well)
{
    struct circumstances c = everything();
    c.tier = TIER_VM;
    c.guest = true;
    cr_assert_eq(row_guards(row_named("K-23.clock"), &c), 0);
    cr_assert_eq(row_guards(row_named("F-11.contents"), &c), 0);
    cr_assert_eq(row_guards(row_named("R-09"), &c), 0);
    cr_assert_eq(row_guards(row_named("K-17.filter"), &c), GUARD_BIT(SECCOMP));
    cr_assert_eq(row_guards(row_named("V-16.threads"), &c), GUARD_BIT(SECCOMP));
    cr_assert_eq(row_guards(row_named("C-02"), &c), GUARD_BIT(ORIGIN));
    cr_assert_eq(row_guards(row_named("R-07"), &c), GUARD_BIT(TIMEOUT));
    cr_assert_eq(row_guards(row_named("F-11.modes"), &c), GUARD_BIT(READ_ONLY));
    cr_assert_eq(row_guards(row_named("F-13.mounts"), &c), 0);
}

/* Each guest is booted for as many rows as it can serve; what ends one comes last in it. */
Test(rows, guests_are_few)
{
    bool used[SCENE_COUNT] = {false};
    unsigned count = 0;
    const struct row *last = NULL;
    for (size_t i = 0; i < row_count; i++) {
        enum scene_id scene = row_scene(&rows[i], true);
        cr_assert_eq(row_scene(&rows[i], false), rows[i].scene);
        if (!row_on_tier(&rows[i], TIER_VM))
            continue;
        count += !used[scene];
        used[scene] = true;
        if (scene == SCENE_LIMITS)
            last = &rows[i];
    }
    cr_assert_eq(count, 8); /* of which one, in the monitor's place, boots none */
    cr_assert_str_eq(last->id, "R-12");
    cr_assert_eq(row_scene(row_named("R-08"), true), SCENE_PLAIN);
}

/* What the Sentry answers itself it answers whatever guard is lost; what is looked at, what it
 * passes on, and limits are held by what holds them on the container tier. */
Test(rows, behind_a_sentry_there_is_one_wall_more)
{
    struct circumstances c = everything();
    c.tier = TIER_GVISOR;
    c.sentry = true;
    cr_assert_eq(row_guards(row_named("K-23.clock"), &c), 0);
    cr_assert_eq(row_guards(row_named("F-21.grant"), &c), 0);
    cr_assert_eq(row_guards(row_named("K-17.filter"), &c), GUARD_BIT(SECCOMP));
    cr_assert_eq(row_guards(row_named("N-01.tcp"), &c), GUARD_BIT(NS_NET));
    cr_assert_eq(row_guards(row_named("R-04"), &c), GUARD_BIT(MEMORY));
    cr_assert_eq(row_guards(row_named("C-02"), &c), GUARD_BIT(ORIGIN));
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
        cr_assert((rows[i].flags & (ROW_SENTRY | ROW_MODULE | ROW_GUEST)) ||
                      !row_excused(&rows[i], &c) || strcmp(rows[i].id, "F-11.system") == 0 ||
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

/* The runner stands in the container tier's walls, and who broke it is held by the same guards. */
Test(rows, the_wasm_tier_has_modules_and_no_rules)
{
    struct circumstances c = everything();
    c.tier = TIER_WASM;
    cr_assert_null(row_excused(row_named("W-01.climb"), &c));
    cr_assert_eq(row_guards(row_named("W-01.climb"), &c), GUARD_BIT(WASM_PATHS));
    cr_assert_eq(row_guards(row_named("K-14"), &c), GUARD_BIT(SECCOMP));
    cr_assert(strstr(row_excused(row_named("N-07"), &c), "no sockets"));
    c.tier = TIER_CONTAINER;
    cr_assert(strstr(row_excused(row_named("W-01.climb"), &c), "wasm tier"));
    c.tier = TIER_WASM;
    c.exec = true;
    cr_assert_not_null(row_excused(row_named("W-10"), &c));
}

/* The judge has no such memory of its own, which is why its control makes some. */
Test(rows, executable_memory_is_seen)
{
    struct sight self = {.pid = getpid(), .outside = true};
    char seen[160] = "";
    cr_assert(look_executable(&self, seen, sizeof seen));
    cr_assert(strstr(seen, "executable"), "%s", seen);
}
