/* FS-9 to FS-11: files that brig obeys. */
#include "base/cleanup.h"
#include "os/trusted.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>

static char base[64];

static const char *at(const char *name)
{
    static char path[4][256];
    static unsigned turn;
    char *mine = path[turn++ % 4];
    snprintf(mine, sizeof path[0], "%s/%s", base, name);
    return mine;
}

static void set_up(void)
{
    snprintf(base, sizeof base, "/tmp/test-trusted-XXXXXX");
    cr_assert(mkdtemp(base));
    cr_assert_eq(mkdir(at("folder"), 0755), 0);
    cleanup_fd int fd = open(at("folder/file"), O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
    cr_assert(fd >= 0 && fchmod(fd, 0644) == 0);
}

static void tear_down(void)
{
    static const char *const made[] = {"folder/file", "folder/link", "folder/pipe", "folder",
                                       "link"};
    for (size_t i = 0; i < ARRAY_LEN(made); i++)
        if (unlink(at(made[i])) < 0)
            rmdir(at(made[i]));
    rmdir(base);
}

TestSuite(trusted, .init = set_up, .fini = tear_down);

static void good(const char *path, enum trusted_kind kind)
{
    struct err err = ERR_INIT;
    cleanup_fd int fd = trusted_open(AT_FDCWD, path, "the policy", kind, &err);
    cr_assert_geq(fd, 0, "%s", err.message);
}

static void bad(const char *path, enum trusted_kind kind, const char *why)
{
    struct err err = ERR_INIT;
    cleanup_fd int fd = trusted_open(AT_FDCWD, path, "the policy", kind, &err);
    cr_assert_lt(fd, 0, "%s", path);
    cr_assert(err.code == ERR_REFUSED && err.hint[0], "%s: %s", path, err.message);
    cr_assert(strstr(err.message, why) && strstr(err.message, "the policy"), "%s", err.message);
}

Test(trusted, modes)
{
    static const mode_t open_ones[] = {0666, 0664, 0646, 0620, 0602};
    for (size_t i = 0; i < ARRAY_LEN(open_ones); i++) {
        cr_assert_eq(chmod(at("folder/file"), open_ones[i]), 0);
        bad(at("folder/file"), TRUSTED_FILE, "can be changed by others");
    }
    cr_assert_eq(chmod(at("folder/file"), 0644), 0);
    good(at("folder/file"), TRUSTED_FILE);
    bad(at("folder/file"), TRUSTED_PRIVATE, "open to others");
    cr_assert_eq(chmod(at("folder/file"), 0600), 0);
    good(at("folder/file"), TRUSTED_PRIVATE);
}

Test(trusted, links)
{
    cr_assert_eq(symlink("file", at("folder/link")), 0);
    bad(at("folder/link"), TRUSTED_FILE, "is a link");
    cr_assert_eq(symlink("folder", at("link")), 0);
    bad(at("link/file"), TRUSTED_FILE, "is a link");
    good(at("folder/file"), TRUSTED_FILE);
    good(at("folder/../folder/./file"), TRUSTED_FILE);
}

Test(trusted, what_is_no_file)
{
    cr_assert_eq(mkfifo(at("folder/pipe"), 0600), 0);
    bad(at("folder/pipe"), TRUSTED_FILE, "not a regular file");
    bad(at("folder"), TRUSTED_FILE, "not a regular file");
    bad("/", TRUSTED_FILE, "not a regular file");
    bad("/dev/zero", TRUSTED_FILE, "not a regular file");
    struct err err = ERR_INIT;
    cr_assert_lt(trusted_open(AT_FDCWD, at("none"), "the policy", TRUSTED_FILE, &err), 0);
    cr_assert_eq(err.sys_errno, ENOENT);
}

/* Who can write a folder can exchange the files in it. */
Test(trusted, folders)
{
    cr_assert_eq(chmod(at("folder"), 0777), 0);
    bad(at("folder/file"), TRUSTED_FILE, "others can write");
    struct err err = ERR_INIT;
    cr_assert_lt(trusted_folder(AT_FDCWD, at("folder"), "the folder of templates", &err), 0);
    cr_assert_eq(chmod(at("folder"), 01777), 0);
    good(at("folder/file"), TRUSTED_FILE);
    cr_assert_eq(chmod(base, 0777), 0);
    cr_assert_eq(chmod(at("folder"), 0755), 0);
    bad(at("folder/file"), TRUSTED_FILE, "others can write");
    cr_assert_eq(chmod(base, 0700), 0);
    cleanup_fd int fd = trusted_folder(AT_FDCWD, at("folder"), "the folder of templates", &err);
    cr_assert_geq(fd, 0);
    cleanup_fd int file = trusted_open(fd, "file", "the policy", TRUSTED_FILE, &err);
    cr_assert_geq(file, 0, "%s", err.message);
}

/* A list that lets one more user write: the mode shows it as the group's right. */
Test(trusted, access_lists)
{
    static const struct {
        uint32_t version;
        struct {
            uint16_t tag, may;
            uint32_t id;
        } entries[5];
    } list = {2,
              {{0x01, 7, UINT32_MAX},
               {0x02, 7, 12345},
               {0x04, 5, UINT32_MAX},
               {0x10, 7, UINT32_MAX},
               {0x20, 5, UINT32_MAX}}};
    cr_assert(chown(at("folder"), geteuid(), getegid()) == 0);
    cr_assert_eq(chmod(at("folder"), 0775), 0);
    if (getegid() == geteuid())
        good(at("folder/file"), TRUSTED_FILE);
    if (setxattr(at("folder"), "system.posix_acl_access", &list, sizeof list, 0) < 0)
        cr_skip_test("this file system has no access lists");
    bad(at("folder/file"), TRUSTED_FILE, "others can write");
    cr_assert_eq(removexattr(at("folder"), "system.posix_acl_access"), 0);
    cr_assert_eq(chmod(at("folder"), 0755), 0);
    cr_assert_eq(setxattr(at("folder/file"), "system.posix_acl_access", &list, sizeof list, 0), 0);
    bad(at("folder/file"), TRUSTED_FILE, "can be changed by others");
}

Test(trusted, the_number_of_nobody_is_somebodys_where_it_is_mapped)
{
    if (geteuid() != 0)
        cr_skip_test("only root can give a file away");
    cr_assert_eq(chown(at("folder"), 65534, 0), 0);
    bad(at("folder/file"), TRUSTED_FILE, "belongs to another user (uid 65534)");
}

Test(trusted, owners)
{
    if (geteuid() != 0)
        cr_skip_test("only root can give a file away");
    cr_assert_eq(chown(at("folder/file"), 12345, 0), 0);
    bad(at("folder/file"), TRUSTED_FILE, "belongs to another user (uid 12345)");
    cr_assert_eq(chown(at("folder/file"), 0, 0), 0);
    cr_assert_eq(chown(at("folder"), 12345, 0), 0);
    bad(at("folder/file"), TRUSTED_FILE, "belongs to another user (uid 12345)");
    cr_assert_eq(chown(at("folder"), 0, 12345), 0);
    cr_assert_eq(chmod(at("folder"), 0775), 0);
    bad(at("folder/file"), TRUSTED_FILE, "others can write");
    /* Of one's own, and of root's, another user may take it. */
    cr_assert(chown(at("folder"), 0, 0) == 0 && chmod(at("folder"), 0755) == 0);
    cr_assert_eq(chmod(base, 0755), 0);
    cr_assert(setegid(12345) == 0 && seteuid(12345) == 0);
    good(at("folder/file"), TRUSTED_FILE);
    cr_assert(seteuid(0) == 0 && chown(at("folder/file"), 12345, 12345) == 0);
    cr_assert(chown(at("folder"), 12345, 12345) == 0 && chmod(at("folder"), 0775) == 0);
    cr_assert_eq(seteuid(12345), 0);
    good(at("folder/file"), TRUSTED_FILE);
    cr_assert_eq(seteuid(0), 0);
}
