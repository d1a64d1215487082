/* FS-13: what is mounted is what was planned, also by its kind: flags do not tell a layer from the
 * folder below it. FS-4: why a probe says nothing. */
#include "base/cleanup.h"
#include "filesystem/filesystem.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

static struct filesystem fs;
static struct policy policy;

static void plan_root(bool writable)
{
    struct err err = ERR_INIT;
    struct plan plan;
    policy_init(&policy, LEVEL_HIGH);
    policy.writable_root = writable;
    filesystem_init(&fs);
    fs.policy = &policy;
    fs.namespaced = true;
    fs.inside_uid = 1000;
    fs.host.view_count = 1;
    fs.host.view[0] = (struct view_entry){.path = "/usr", .is_dir = true, .foreign = true};
    plan_init(&plan);
    cr_assert_eq(container_plan(&fs, &plan, &err), 0, "%s", err.message);
    cr_assert_eq(plan_finish(&plan, &err), 0, "%s", err.message);
    plan_done(&plan);
}

static void forget(void)
{
    filesystem_teardown(&fs, NULL);
    policy_done(&policy);
}

TestSuite(attest, .fini = forget);

static bool accepts(const char *dest, const char *type, bool read_only)
{
    struct err err = ERR_INIT;
    struct proc_mount m = {.read_only = read_only, .nosuid = true, .nodev = true};
    snprintf(m.dest, sizeof m.dest, "%s", dest);
    snprintf(m.type, sizeof m.type, "%s", type);
    if (attest_mount(&fs, &m, &err) == 0)
        return true;
    cr_assert(err.code == ERR_ATTEST && strstr(err.message, dest), "%s", err.message);
    return false;
}

Test(attest, a_writable_folder_of_the_hosts_is_no_layer)
{
    plan_root(true);
    cr_assert(accepts("/usr", "overlay", false), "control");
    cr_assert_not(accepts("/usr", "ext4", false));
    cr_assert_not(accepts("/usr", "tmpfs", false));
    cr_assert_not(accepts("/usr/share", "overlay", false), "and nothing is mounted below it");
}

Test(attest, a_writable_root_is_memory)
{
    plan_root(true);
    cr_assert(accepts("/", "tmpfs", false), "control");
    cr_assert_not(accepts("/", "ext4", false));
    cr_assert_not(accepts("/", "overlay", false));
}

Test(attest, what_stays_as_it_is_in_a_writable_root)
{
    static const char *const kept[] = {"/dev", SHOWN_DIR};
    plan_root(true);
    for (size_t i = 0; i < ARRAY_LEN(kept); i++) {
        cr_assert(accepts(kept[i], "tmpfs", true), "control");
        cr_assert_not(accepts(kept[i], "tmpfs", false));
        cr_assert_not(accepts(kept[i], "devtmpfs", true));
    }
}

Test(attest, places_to_write_to_are_memory_in_every_root)
{
    static const char *const places[] = {WORKSPACE, "/tmp", "/run", "/dev/shm"};
    for (int writable = 0; writable < 2; writable++) {
        plan_root(writable);
        for (size_t i = 0; i < ARRAY_LEN(places); i++) {
            cr_assert(accepts(places[i], "tmpfs", false), "control: %s", places[i]);
            cr_assert_not(accepts(places[i], "ext4", false), "%s", places[i]);
        }
        if (!writable)
            forget();
    }
}

Test(attest, the_view_of_the_host_lies_on_whatever_the_host_has)
{
    plan_root(false);
    cr_assert(accepts("/usr", "ext4", true) && accepts("/usr", "xfs", true));
    cr_assert_not(accepts("/usr", "ext4", false));
    cr_assert_not(accepts("/", "ext4", true), "the root itself is never the host's");
}

static struct err probed(int before, int after)
{
    struct err err = ERR_INIT;
    struct ctl_evidence evidence = {.landlock_before = before, .landlock_after = after};
    plan_root(false);
    fs.namespaced = false; /* no mounts to be looked at */
    fs.landlock_fs = 1;
    cr_assert_lt(filesystem_attest(&fs, 1, &evidence, NULL, &err), 0);
    cr_assert(err.code == ERR_ATTEST && err.boundary == BOUNDARY_FILESYSTEM);
    return err;
}

Test(attest, a_probe_that_somebody_else_forbids_says_so)
{
    struct err err = probed(EPERM, EPERM);
    cr_assert(strstr(err.message, "cannot be probed"), "%s", err.message);
    forget();
    err = probed(0, 0);
    cr_assert(strstr(err.message, "not in force"), "control: %s", err.message);
}
