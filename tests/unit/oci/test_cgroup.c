/* Limits of groups, in a folder that stands for one of cgroup v2. Its files are not emptied when
 * they are written: numbers that follow each other have the same length here. */
#include "oci/cgroup.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MIB (INT64_C(1) << 20)

static struct oci_cgroup group;

static void put(const char *file, const char *text)
{
    char path[2000];
    snprintf(path, sizeof path, "%s/%s", group.item[0].dir, file);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    cr_assert(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    close(fd);
}

static void begin(void)
{
    group = (struct oci_cgroup){.count = 1, .v2 = true};
    snprintf(group.item[0].dir, sizeof group.item[0].dir, "/tmp/brig-test-oci-XXXXXX");
    cr_assert(mkdtemp(group.item[0].dir));
    put("memory.max", "max");
    put("memory.swap.max", "max");
}

static void end(void)
{
    static const char *const files[] = {"memory.max", "memory.swap.max", "memory.current"};
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        char path[2000];
        snprintf(path, sizeof path, "%s/%s", group.item[0].dir, files[i]);
        unlink(path);
    }
    rmdir(group.item[0].dir);
}

TestSuite(oci_cgroup, .init = begin, .fini = end);

static int64_t number(const char *file)
{
    return oci_cgroup_number(&group, "", file);
}

static void expect(int64_t memory, int64_t swap, int64_t most, int64_t want)
{
    struct err err = ERR_INIT;
    struct oci_resources r = {.memory = memory, .memory_swap = swap};
    put("memory.swap.max", "max");
    cr_assert_eq(oci_cgroup_limit(&group, &r, most, &err), 0, "%s", err.message);
    cr_expect(number("memory.swap.max") == want, "%lld and %lld of %lld: %lld", (long long)memory,
              (long long)swap, (long long)most, (long long)number("memory.swap.max"));
}

/* OC-6 */
Test(oci_cgroup, swap_is_within_what_the_operator_allows)
{
    expect(64 * MIB, 0, 64 * MIB, 0);
    expect(64 * MIB, -1, 64 * MIB, 0);
    expect(48 * MIB, 128 * MIB, 64 * MIB, 16 * MIB);
    expect(48 * MIB, 50 * MIB, 64 * MIB, 2 * MIB);
    expect(48 * MIB, 0, 64 * MIB, 16 * MIB);
    /* Control: without a word of the operator's the configuration decides. */
    expect(64 * MIB, 128 * MIB, 0, 64 * MIB);
    expect(64 * MIB, -1, 0, INT64_MAX);
    expect(64 * MIB, 0, 0, INT64_MAX);
}

Test(oci_cgroup, an_update_of_swap_alone_is_about_the_memory_that_is_there)
{
    put("memory.max", "67108864");
    expect(0, 96 * MIB, 0, 32 * MIB);
    expect(0, 96 * MIB, 80 * MIB, 16 * MIB);
}

Test(oci_cgroup, swap_without_memory_is_no_limit_and_refused)
{
    struct err err = ERR_INIT;
    struct oci_resources r = {.memory_swap = 64 * MIB};
    cr_assert_lt(oci_cgroup_limit(&group, &r, 0, &err), 0);
    cr_expect(strstr(err.message, "memory.swap"), "%s", err.message);
    r.memory = -1;
    cr_assert_lt(oci_cgroup_limit(&group, &r, 0, &err), 0);
    r.memory = 64 * MIB;
    cr_assert_eq(oci_cgroup_limit(&group, &r, 0, &err), 0, "control: %s", err.message);
}

Test(oci_cgroup, a_kernel_without_swap)
{
    struct err err = ERR_INIT;
    struct oci_resources r = {.memory = 64 * MIB, .memory_swap = 128 * MIB};
    char path[2000];
    snprintf(path, sizeof path, "%s/memory.swap.max", group.item[0].dir);
    cr_assert_eq(unlink(path), 0);
    cr_assert_eq(oci_cgroup_limit(&group, &r, 64 * MIB, &err), 0, "%s", err.message);
    cr_expect(number("memory.max") == 64 * MIB);
}

Test(oci_cgroup, a_limit_below_what_is_used_where_that_is_to_be_looked_at)
{
    struct err err = ERR_INIT;
    struct oci_resources r = {.memory = 16 * MIB, .check_memory = true};
    put("memory.max", "67108864");
    put("memory.current", "33554432");
    cr_assert_lt(oci_cgroup_limit(&group, &r, 0, &err), 0);
    cr_expect(err.code == ERR_REFUSED && strstr(err.message, "33554432"), "%s", err.message);
    cr_expect_eq(number("memory.max"), 64 * MIB);
    r.check_memory = false; /* control */
    err = (struct err)ERR_INIT;
    cr_expect_eq(oci_cgroup_limit(&group, &r, 0, &err), 0, "%s", err.message);
    cr_expect_eq(number("memory.max"), 16 * MIB);
}
