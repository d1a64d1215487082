/* FS-6: a grant is pinned by what it is, not by what it is called. FS-7: and reached through no
 * link that a sandbox may have made. */
#include "base/cleanup.h"
#include "filesystem/filesystem.h"
#include "os/reach.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static char base[64];

static const char *at(const char *name)
{
    static char path[256];
    snprintf(path, sizeof path, "%s/%s", base, name);
    return path;
}

static void set_up(void)
{
    snprintf(base, sizeof base, "/var/tmp/test-grants-XXXXXX");
    cr_assert(mkdtemp(base));
    cr_assert_eq(mkdir(at("folder"), 0755), 0);
    close(open(at("file"), O_CREAT | O_WRONLY, 0644));
}

static void tear_down(void)
{
    static const char *const made[] = {"link", "pipe", "file", "folder", "other"};
    for (size_t i = 0; i < ARRAY_LEN(made); i++)
        if (unlink(at(made[i])) < 0)
            rmdir(at(made[i]));
    rmdir(base);
}

TestSuite(grants, .init = set_up, .fini = tear_down);

static struct pinned_grant pin(const char *source, bool writable)
{
    struct pinned_grant g;
    struct err err = ERR_INIT;
    cr_assert_eq(grant_pin(&g, source, "/dest", writable, &err), 0, "%s", err.message);
    cr_assert(g.fd >= 0 && strcmp(g.source, source) == 0);
    return g;
}

static struct err refused(const char *source)
{
    struct pinned_grant g;
    struct err err = ERR_INIT;
    cr_assert_lt(grant_pin(&g, source, "/dest", false, &err), 0, "%s", source);
    cr_assert_eq(err.boundary, BOUNDARY_FILESYSTEM);
    return err;
}

Test(grants, a_folder_and_a_file)
{
    struct stat sb;
    struct pinned_grant g = pin(at("folder"), true);
    cr_assert(g.is_dir && g.writable && strcmp(g.dest, "/dest") == 0);
    cr_assert(stat(at("folder"), &sb) == 0 && g.dev == sb.st_dev && g.ino == sb.st_ino);
    grant_unpin(&g);
    grant_unpin(&g);
    g = pin(at("file"), false);
    cr_assert(!g.is_dir && !g.writable);
    grant_unpin(&g);
}

Test(grants, a_link_is_refused_and_the_hint_says_what_to_name)
{
    cr_assert_eq(mkdir(at("other"), 0755), 0);
    cr_assert_eq(symlink("other", at("link")), 0);
    struct err err = refused(at("link"));
    cr_assert(err.code == ERR_REFUSED && strstr(err.message, at("link")), "%s", err.message);
    cr_assert(strstr(err.hint, at("other")), "%s", err.hint);
    /* Nor on the way. */
    cr_assert_eq(refused(at("link/below")).code, ERR_REFUSED);
    unlink(at("link"));
    cr_assert_eq(symlink("folder/../missing/../other", at("link")), 0);
    cr_assert(strstr(refused(at("link")).hint, at("other")));
}

/* What may be followed must never be a grant: else a sandbox could make links there. */
Test(grants, links_count_only_in_folders_that_are_never_granted)
{
    static const char *const closed[] = {"/",    "/etc",     "/home", "/home/someone",
                                         "/run", "/var/lib", "/var",  "/root"};
    static const char *const open_ones[] = {"/usr", "/srv",    "/opt", "/tmp", "/home/someone/src",
                                            "/mnt", "/var/tmp"};
    for (size_t i = 0; i < ARRAY_LEN(closed); i++) {
        struct err err = ERR_INIT;
        cr_assert(reach_is_closed(strcmp(closed[i], "/") == 0 ? "" : closed[i]), "%s", closed[i]);
        cr_assert_lt(protect_check(closed[i], &err), 0, "%s", closed[i]);
    }
    for (size_t i = 0; i < ARRAY_LEN(open_ones); i++)
        cr_assert_not(reach_is_closed(open_ones[i]), "%s", open_ones[i]);
}

Test(grants, a_link_into_a_protected_place_is_refused)
{
    static const char *const targets[] = {"/proc", "/", "/etc", "/dev", "../../../etc/ssh"};
    for (size_t i = 0; i < ARRAY_LEN(targets); i++) {
        struct stat sb;
        cr_assert_eq(symlink(targets[i], at("link")), 0);
        if (stat(at("link"), &sb) == 0)
            cr_assert_eq(refused(at("link")).code, ERR_REFUSED, "%s", targets[i]);
        unlink(at("link"));
    }
}

Test(grants, dots_do_not_hide_a_protected_place)
{
    cr_assert_eq(refused(at("folder/../../../../etc")).code, ERR_REFUSED);
    cr_assert_eq(refused("/usr/../proc").code, ERR_REFUSED);
}

Test(grants, what_is_missing_gets_a_hint)
{
    struct err err = refused(at("missing"));
    cr_assert(err.sys_errno == ENOENT && err.hint[0]);
    cr_assert_eq(refused(at("file/below")).sys_errno, ENOTDIR);
}

Test(grants, neither_pipe_nor_device)
{
    cr_assert_eq(mkfifo(at("pipe"), 0644), 0);
    cr_assert_eq(refused(at("pipe")).code, ERR_REFUSED);
    cr_assert_eq(refused("/dev/null").code, ERR_REFUSED);
}

Test(grants, another_folder_in_its_place_has_another_identity)
{
    struct pinned_grant before = pin(at("folder"), false);
    cr_assert_eq(rename(at("folder"), "/var/tmp/test-grants-moved"), 0);
    cr_assert_eq(mkdir(at("folder"), 0755), 0);
    struct pinned_grant after = pin(at("folder"), false);
    cr_assert(before.ino != after.ino);
    /* It is held: its inode is nobody else's. */
    struct stat sb;
    rmdir("/var/tmp/test-grants-moved");
    cr_assert(fstat(before.fd, &sb) == 0 && sb.st_ino == before.ino);
    grant_unpin(&before);
    grant_unpin(&after);
    rmdir("/var/tmp/test-grants-moved");
}
