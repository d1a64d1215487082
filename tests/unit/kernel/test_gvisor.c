/* What brig reads in a runsc without running it. */
#include "kernel/gvisor.h"

#include <criterion/criterion.h>
#include <string.h>

static struct gvisor_build read_of(const char *text, size_t len)
{
    struct gvisor_build build = {.date = 0};
    gvisor_read(text, len, &build);
    return build;
}
#define READ(text) read_of((text), sizeof(text) - 1)

Test(gvisor, versions_are_found)
{
    struct gvisor_build b = READ("xx\0 0.0~20221219.0\0yy");
    cr_assert_str_eq(b.version, "0.0~20221219.0");
    cr_assert_eq(b.date, 20221219);
    cr_assert_str_eq(b.platform, "ptrace");
    cr_assert_eq(b.platform_count, 1);
    cr_assert_not(b.confs);
    b = READ("release-notes release-20250707.0-12-gabc platform/systrap.New gofer-mount-confs");
    cr_assert_str_eq(b.version, "release-20250707.0");
    cr_assert_str_eq(b.platform, "systrap");
    cr_assert_eq(b.platform_count, 2);
    cr_assert_str_eq(b.platforms[1], "ptrace");
    cr_assert(b.confs);
}

Test(gvisor, what_is_no_version_is_unknown)
{
    static const char *const texts[] = {"", "release-", "release-2022", "0.0~99999999",
                                        "0.0~2022121"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct gvisor_build b = read_of(texts[i], strlen(texts[i]));
        cr_assert_str_eq(b.version, "unknown", "%s", texts[i]);
        cr_assert_eq(b.date, 0);
    }
}

Test(gvisor, a_long_one_is_cut)
{
    struct gvisor_build b = READ("release-20240729.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0");
    cr_assert_eq(strlen(b.version), sizeof b.version - 1);
}
