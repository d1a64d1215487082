/* The folders of a layer, made anew while somebody else changes those that they are made after. */
#include "base/cleanup.h"
#include "filesystem/mount_child.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mount.h>
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

static unsigned count_folders(int dir)
{
    unsigned count = 0;
    cleanup_fd int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *list = fdopendir(fd_steal(&fd));
    for (struct dirent *e; (e = readdir(list));)
        if (e->d_type == DT_DIR && e->d_name[0] != '.') {
            cleanup_fd int inner =
                openat(dirfd(list), e->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
            count += 1 + count_folders(inner);
        }
    closedir(list);
    return count;
}

/* Of most it is known without a look that there is no folder in them. */
Test(layer, every_folder_of_this_system)
{
    struct err err = ERR_INIT;
    char tree[80];
    snprintf(tree, sizeof tree, "%s/to", base);
    if (getuid() != 0 || unshare(CLONE_NEWNS) < 0)
        cr_skip_test("only root mounts");
    cr_assert_eq(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), 0);
    cr_assert_eq(mount("tmpfs", tree, "tmpfs", 0, "mode=755"), 0);
    cleanup_fd int system = open("/usr/lib", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    cleanup_fd int made = open(tree, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    cr_assert_eq(layer_folders(system, made, &err), 0, "%s", err.message);
    unsigned expected = count_folders(system);
    cr_assert_gt(expected, 10);
    cr_assert_eq(count_folders(made), expected);
    close(fd_steal(&made));
    cr_assert_eq(umount2(tree, MNT_DETACH), 0);
}

Test(layer, what_others_may_not_list_stays_as_it_is)
{
    struct err err = ERR_INIT;
    if (getuid() != 0)
        cr_skip_test("only root becomes somebody else");
    close(folder(from, "closed"));
    close(folder(from, "open"));
    cr_assert_eq(fchmodat(from, "closed", 0700, 0), 0);
    cr_assert_eq(fchown(to, 65534, 65534), 0);
    cr_assert_eq(setresuid(-1, 65534, -1), 0);
    int made = layer_folders(from, to, &err);
    cr_assert_eq(setresuid(-1, 0, -1), 0);
    cr_assert_eq(made, 0, "%s", err.message);
    cr_assert(has("open") && !has("closed"));
    unlinkat(to, "open", AT_REMOVEDIR);
    unlinkat(from, "open", AT_REMOVEDIR);
    unlinkat(from, "closed", AT_REMOVEDIR);
}
