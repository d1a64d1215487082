/* Which limits are kept, on which tier, by what; and what becomes of one that is only watched. */
#include "lifecycle/keep.h"

#include <criterion/criterion.h>
#include <string.h>

static struct policy policy;
static struct lifecycle life;

static void set_up(void)
{
    policy_init(&policy, LEVEL_HIGH);
    policy.cpus_milli = POLICY_UNLIMITED; /* how many the host has is not what this is about */
    lifecycle_init(&life);
    life.policy = &policy;
    life.namespaced = true;
}

static void tear_down(void)
{
    policy_done(&policy);
}

TestSuite(keep, .init = set_up, .fini = tear_down);

static const struct keeper *find(enum policy_field field)
{
    static struct keepers all;
    keepers_list(&life, &all);
    for (unsigned i = 0; i < all.count; i++)
        if (all.items[i].field == field)
            return &all.items[i];
    return NULL;
}

static bool is_kept(enum policy_field field)
{
    const struct keeper *k = find(field);
    cr_assert(k && k->by && strlen(k->by) > 3);
    return !k->overrun;
}

static void give_cgroup(enum cgroup_version version)
{
    life.cgroup = true;
    life.group.version = version;
    life.group.controllers = CGROUP_MEMORY | CGROUP_PIDS | CGROUP_CPU;
    life.limits.cpu_time = true;
}

Test(keep, a_cgroup_keeps_all_that_the_tmpfs_does_not)
{
    const enum cgroup_version versions[] = {CGROUP_V1, CGROUP_V2};
    for (int v = 0; v < 2; v++) {
        give_cgroup(versions[v]);
        for (enum policy_field f = FIELD_DISK; f <= FIELD_OPEN_FILES; f++)
            cr_assert(is_kept(f), "%s", policy_field_path(f));
    }
}

Test(keep, without_one_memory_and_cpu_are_watched)
{
    policy.cpus_milli = 10;
    cr_assert(!is_kept(FIELD_MEMORY) && !is_kept(FIELD_CPU_TIME) && !is_kept(FIELD_CPUS));
    cr_assert(is_kept(FIELD_PIDS) && is_kept(FIELD_DISK) && is_kept(FIELD_TIMEOUT));
}

Test(keep, the_process_tier_keeps_no_disk_and_counts_tasks_of_its_own_uid_only)
{
    life.namespaced = false;
    cr_assert(!is_kept(FIELD_DISK) && !is_kept(FIELD_INODES) && !is_kept(FIELD_PIDS));
    life.private_uid = true;
    cr_assert(is_kept(FIELD_PIDS) && !is_kept(FIELD_DISK));
    policy.workspace = false;
    cr_assert_null(find(FIELD_DISK), "there is nothing to write to");
}

Test(keep, a_review_is_on_a_disk_of_the_hosts)
{
    give_cgroup(CGROUP_V2);
    life.review = true;
    cr_assert(lifecycle_watches(&life, FIELD_DISK));
}

Test(keep, more_processors_than_there_are_need_nobody)
{
    policy.cpus_milli = 4096 * 1000;
    cr_assert(is_kept(FIELD_CPUS));
}

static bool starts(void)
{
    struct err err = ERR_INIT;
    int r = keepers_check(&life, &err);
    cr_assert(r == 0 || (err.code == ERR_UNSUPPORTED && strstr(err.hint, "--sampling accept")));
    return r == 0;
}

Test(keep, the_levels_own_number_is_watched_any_other_is_not)
{
    cr_assert_eq(policy.sampling, SAMPLING_AUTO);
    cr_assert(starts());
    policy.memory--;
    cr_assert_not(starts());
    policy.sampling = SAMPLING_ACCEPT;
    cr_assert(starts());
    policy.sampling = SAMPLING_AUTO;
    give_cgroup(CGROUP_V2);
    cr_assert(starts(), "it is kept");
}

Test(keep, refused_is_refused_whatever_the_number)
{
    policy.sampling = SAMPLING_REFUSE;
    cr_assert_not(starts());
    give_cgroup(CGROUP_V1);
    cr_assert(starts());
}

Test(keep, what_has_no_limit_needs_no_keeper)
{
    policy.sampling = SAMPLING_REFUSE;
    give_cgroup(CGROUP_V2);
    life.limits.cpu_time = false;
    cr_assert(starts(), "CPU time is unlimited");
    policy.cpu_time_ms = 1000;
    cr_assert_not(starts());
}

Test(keep, the_note_names_each_once)
{
    char text[256];
    life.namespaced = false;
    life.review = true;
    cr_assert(lifecycle_note(&life, text, sizeof text));
    const char *disk = strstr(text, "disk");
    cr_assert(strstr(text, "memory") && disk && !strstr(disk + 4, "disk, "), "%s", text);
    life.review = false;
    life.namespaced = true;
    give_cgroup(CGROUP_V2);
    cr_assert_not(lifecycle_note(&life, text, sizeof text));
}

/* LC-6 */
Test(keep, where_processes_can_hide_nothing_is_watched)
{
    struct err err = ERR_INIT;
    life.namespaced = false;
    policy.sampling = SAMPLING_ACCEPT;
    cr_assert_eq(keepers_check(&life, &err), 0, "the control: %s", err.message);
    life.hides = true;
    cr_assert_lt(keepers_check(&life, &err), 0);
    cr_assert(strstr(err.message, "hidepid"));
    give_cgroup(CGROUP_V2);
    cr_assert_lt(keepers_check(&life, &err), 0, "its disk is watched");
    policy.workspace = false;
    cr_assert_eq(keepers_check(&life, &err), 0, "the kernel keeps all that there is to be kept");
}
