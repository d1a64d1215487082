#include "os/cgroup_paths.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

enum { MEMORY, PIDS, CPU, CPUACCT, V2 };

static void feed(struct cgroup_paths *p, void (*fn)(struct cgroup_paths *, const char *),
                 const char *text)
{
    char copy[4096];
    snprintf(copy, sizeof copy, "%s", text);
    for (char *line = copy, *end; (end = strchr(line, '\n')) != NULL; line = end + 1) {
        *end = '\0';
        fn(p, line);
    }
}

static struct cgroup_paths parse(const char *membership, const char *mounts)
{
    static struct cgroup_paths p;
    memset(&p, 0, sizeof p);
    feed(&p, cgroup_paths_membership, membership);
    feed(&p, cgroup_paths_mount, mounts);
    return p;
}

Test(cgroup_paths, v2_under_systemd)
{
    struct cgroup_paths p = parse(
        "0::/user.slice/user-1000.slice/session-3.scope\n",
        "24 30 0:22 / /proc rw,nosuid - proc proc rw\n"
        "35 24 0:30 / /sys/fs/cgroup rw,nosuid,nodev shared:9 - cgroup2 cgroup2 rw,nsdelegate\n");
    cr_assert_str_eq(p.place[V2].mount, "/sys/fs/cgroup");
    cr_assert_str_eq(p.place[V2].dir, "/sys/fs/cgroup/user.slice/user-1000.slice/session-3.scope");
    cr_assert_str_eq(p.place[MEMORY].dir, "");
}

Test(cgroup_paths, v1_and_an_empty_v2)
{
    struct cgroup_paths p =
        parse("9:name=systemd:/\n8:pids:/\n4:memory:/a/b:c\n2:cpu,cpuacct:/x\n0::/\n",
              "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
              "33 31 0:30 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n"
              "35 31 0:32 / /sys/fs/cgroup/memory rw shared:1 master:2 - cgroup cgroup rw,memory\n"
              "39 31 0:36 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n"
              "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n");
    cr_assert_str_eq(p.place[MEMORY].dir, "/sys/fs/cgroup/memory/a/b:c");
    cr_assert_str_eq(p.place[PIDS].dir, "/sys/fs/cgroup/pids");
    cr_assert_str_eq(p.place[CPU].dir, "/sys/fs/cgroup/cpu,cpuacct/x");
    cr_assert_str_eq(p.place[CPUACCT].dir, "/sys/fs/cgroup/cpu,cpuacct/x");
    cr_assert_str_eq(p.place[V2].dir, "/sys/fs/cgroup/unified");
}

Test(cgroup_paths, the_mounted_root_is_cut_off)
{
    const char *mount = "35 24 0:30 /docker/ab /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
    cr_assert_str_eq(parse("0::/docker/ab/job\n", mount).place[V2].dir, "/sys/fs/cgroup/job");
    cr_assert_str_eq(parse("0::/docker/ab\n", mount).place[V2].dir, "/sys/fs/cgroup");
    /* a sibling whose name begins alike is not below */
    cr_assert_str_eq(parse("0::/docker/abc\n", mount).place[V2].dir, "");
    cr_assert_str_eq(parse("0::/\n", mount).place[V2].dir, "");
    cr_assert_str_eq(parse("0::/\n", mount).place[V2].mount, "/sys/fs/cgroup");
}

Test(cgroup_paths, outside_of_the_cgroup_namespace)
{
    cr_assert_str_eq(
        parse("0::/../other\n", "35 24 0:30 / /sys/fs/cgroup rw - cgroup2 none rw\n").place[V2].dir,
        "");
    cr_assert_str_eq(
        parse("0::/\n", "35 24 0:30 /.. /sys/fs/cgroup rw - cgroup2 none rw\n").place[V2].dir, "");
}

Test(cgroup_paths, a_later_mount_is_taken_when_the_first_does_not_reach)
{
    struct cgroup_paths p = parse("0::/a/b\n", "35 24 0:30 /z /first rw - cgroup2 none rw\n"
                                               "36 24 0:30 /a /second rw - cgroup2 none rw\n"
                                               "37 24 0:30 / /third rw - cgroup2 none rw\n");
    cr_assert_str_eq(p.place[V2].mount, "/second");
    cr_assert_str_eq(p.place[V2].dir, "/second/b");
}

Test(cgroup_paths, escapes_in_mount_points)
{
    struct cgroup_paths p =
        parse("0::/x\n", "35 24 0:30 / /mnt/my\\040cgroup\\134 rw - cgroup2 none rw\n");
    cr_assert_str_eq(p.place[V2].dir, "/mnt/my cgroup\\/x");
    /* too short to be an escape: taken as it is */
    p = parse("0::/x\n", "35 24 0:30 / /mnt/a\\04 rw - cgroup2 none rw\n");
    cr_assert_str_eq(p.place[V2].dir, "/mnt/a\\04/x");
}

Test(cgroup_paths, names_are_not_prefixes)
{
    struct cgroup_paths p = parse("3:cpuset:/s\n1:cpuacct:/t\n5:name=memory:/u\n",
                                  "1 1 0:1 / /c rw - cgroup cgroup rw,cpuset\n");
    cr_assert_str_eq(p.place[CPU].own, "");
    cr_assert_str_eq(p.place[CPUACCT].own, "/t");
    cr_assert_str_eq(p.place[MEMORY].own, "");
    cr_assert_str_eq(p.place[CPU].dir, "");
}

Test(cgroup_paths, broken_lines_are_ignored)
{
    struct cgroup_paths p = parse("\n:\n0:\n0::\nx\n0::/ok\n",
                                  "\n1\n1 2 3\n1 2 3 4 5 6\n1 2 3 4 5 6 7 8\n"
                                  "1 2 3 / /m rw -\n1 2 3 / /m rw - cgroup2\n"
                                  "1 2 3 / /m rw - cgroup2 x\n1 2 3 / /good rw - cgroup2 x rw\n");
    cr_assert_str_eq(p.place[V2].dir, "/good/ok");
}

Test(cgroup_paths, overlong_paths_are_left_out)
{
    char line[2 * CGROUP_PATH_MAX], mount[2 * CGROUP_PATH_MAX];
    memset(line, 'a', sizeof line);
    memcpy(line, "0::/", 4);
    line[CGROUP_PATH_MAX + 10] = '\n';
    line[CGROUP_PATH_MAX + 11] = '\0';
    snprintf(mount, sizeof mount, "35 24 0:30 / /m rw - cgroup2 none rw\n");
    cr_assert_str_eq(parse(line, mount).place[V2].dir, "");
    /* each fits, but not both together */
    line[CGROUP_PATH_MAX + 2] = '\n';
    line[CGROUP_PATH_MAX + 3] = '\0';
    cr_assert_str_eq(parse(line, mount).place[V2].dir, "");
}
