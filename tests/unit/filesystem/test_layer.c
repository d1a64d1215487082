/* The folders of a layer, made anew while somebody else changes those that they are made after. */
#include "base/cleanup.h"
#include "filesystem/mount_child.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static char base[64];
static int from, to;

static int folder(int in, const char *name)
{
    cr_assert_eq(mkdirat(in, name, 0755), 0);
    int fd = openat(in, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    cr_assert_geq(fd, 0);
    return fd;
}

static void set_up(void)
{
    snprintf(base, sizeof base, "/var/tmp/test-layer-XXXXXX");
    cr_assert(mkdtemp(base));
    cleanup_fd int top = open(base, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    from = folder(top, "from");
    to = folder(top, "to");
    close(folder(from, "a"));
    cr_assert_eq(mkdirat(from, "a/b", 0755), 0);
    close(openat(from, "a/file", O_CREAT | O_WRONLY | O_CLOEXEC, 0644));
}

static void tear_down(void)
{
    static const char *const made[] = {"a/b", "a"};
    unlinkat(from, "a/file", 0);
    for (size_t i = 0; i < ARRAY_LEN(made); i++) {
        unlinkat(from, made[i], AT_REMOVEDIR);
        unlinkat(to, made[i], AT_REMOVEDIR);
    }
    cleanup_fd int top = open(base, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    unlinkat(top, "from", AT_REMOVEDIR);
    unlinkat(top, "to", AT_REMOVEDIR);
    close(from);
    close(to);
    rmdir(base);
}

TestSuite(layer, .init = set_up, .fini = tear_down);

static bool has(const char *name)
{
    return faccessat(to, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

Test(layer, folders_and_nothing_else)
{
    struct err err = ERR_INIT;
    cr_assert_eq(layer_folders(from, to, &err), 0, "%s", err.message);
    cr_assert(has("a/b") && !has("a/file"));
}

Test(layer, a_folder_that_is_listed_twice)
{
    struct err err = ERR_INIT;
    cr_assert_eq(mkdirat(to, "a", 0755), 0);
    cr_assert_eq(layer_folders(from, to, &err), 0, "%s", err.message);
    cr_assert(has("a/b"));
}

/* Open, and then removed: it has no more names, and no end of the list either. */
Test(layer, a_folder_that_is_removed_meanwhile)
{
    struct err err = ERR_INIT;
    cleanup_fd int gone = folder(from, "gone");
    cr_assert_eq(unlinkat(from, "gone", AT_REMOVEDIR), 0);
    cr_assert_eq(layer_folders(gone, to, &err), 0, "%s", err.message);
    cr_assert_not(has("a"));
}

Test(layer, what_cannot_be_made_is_an_error)
{
    struct err err = ERR_INIT;
    close(openat(to, "a", O_CREAT | O_WRONLY | O_CLOEXEC, 0644));
    cr_assert_lt(layer_folders(from, to, &err), 0, "a file stands there");
    unlinkat(to, "a", 0);
}
