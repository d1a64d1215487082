#include "cli/path.h"

#include <criterion/criterion.h>
#include <unistd.h>

static void joins(const char *base, const char *path, const char *expected)
{
    cleanup_buf struct buf out;
    buf_init(&out, 200);
    path_join(base, path, &out);
    cr_assert_str_eq(buf_text(&out), expected, "%s + %s = %s, not %s", base, path, buf_text(&out),
                     expected);
}

Test(path, joins_what_was_typed_to_where_it_was_typed)
{
    joins("/home/u", "a", "/home/u/a");
    joins("/home/u", "./a//b/", "/home/u/a/b");
    joins("/home/u", ".", "/home/u");
    joins("/home/u", "", "/home/u");
    joins("/home/u", "..", "/home");
    joins("/home/u", "../../../..", "/");
    joins("/home/u", "../v/./w/..", "/home/v");
    joins("/", "a", "/a");
    joins("/", ".", "/");
    joins("/home/u", "...", "/home/u/...");
    joins("/home/u", ".a", "/home/u/.a");
}

Test(path, an_absolute_path_forgets_where_it_was_typed)
{
    joins("/home/u", "/", "/");
    joins("/home/u", "//etc/../usr/.", "/usr");
    joins("/home/u", "/..", "/");
}

Test(path, too_long_is_an_error)
{
    cleanup_buf struct buf out;
    struct err err = ERR_INIT;
    buf_init(&out, 8);
    cr_assert_lt(path_resolve("/much/too/long", &out, &err), 0);
    cr_assert_eq(err.code, ERR_USAGE);
}

Test(path, resolves_from_the_current_folder)
{
    cleanup_buf struct buf out;
    struct err err = ERR_INIT;
    buf_init(&out, 200);
    cr_assert_eq(chdir("/usr"), 0);
    cr_assert_eq(path_resolve("bin/../lib", &out, &err), 0);
    cr_assert_str_eq(buf_text(&out), "/usr/lib");
}
