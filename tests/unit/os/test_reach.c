/* Paths that a person named, walked one step at a time. */
#include "base/cleanup.h"
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
    static char path[4][512];
    static unsigned turn;
    char *mine = path[turn++ % 4];
    snprintf(mine, sizeof path[0], "%s/%s", base, name);
    return mine;
}

static void set_up(void)
{
    snprintf(base, sizeof base, "/var/tmp/test-reach-XXXXXX");
    cr_assert(mkdtemp(base));
    cr_assert(mkdir(at("a"), 0755) == 0 && mkdir(at("a/b"), 0755) == 0);
    close(open(at("a/file"), O_CREAT | O_WRONLY, 0644));
}

static void tear_down(void)
{
    static const char *const made[] = {"a/link", "a/b", "a/file", "a", "link"};
    for (size_t i = 0; i < ARRAY_LEN(made); i++)
        if (unlink(at(made[i])) < 0)
            rmdir(at(made[i]));
    rmdir(base);
}

TestSuite(reach, .init = set_up, .fini = tear_down);

static void leads(const char *path, const char *where)
{
    struct reached r;
    struct stat a, b;
    cr_assert_eq(reach_open(path, &r), 0, "%s", path);
    cr_assert_str_eq(r.path, where);
    cr_assert(fstat(r.fd, &a) == 0 && stat(where, &b) == 0 && a.st_ino == b.st_ino);
    reach_close(&r);
    reach_close(&r);
}

static void stops(const char *path, int why)
{
    struct reached r;
    cr_assert_eq(reach_open(path, &r), why, "%s", path);
    cr_assert(r.fd == -1 && !r.link[0], "%s", path);
    reach_close(&r);
}

static void refuses(const char *path, const char *link, const char *real)
{
    struct reached r;
    cr_assert_eq(reach_open(path, &r), -ELOOP, "%s", path);
    cr_assert(r.fd == -1);
    cr_assert_str_eq(r.link, link);
    cr_assert_str_eq(r.real, real);
}

Test(reach, plain_paths)
{
    leads(base, base);
    leads(at("a/b"), at("a/b"));
    leads(at("a//./b/"), at("a/b"));
    leads(at("a/b/../file"), at("a/file"));
    leads("/", "/");
    leads("/..", "/");
}

Test(reach, what_is_not_there)
{
    char longest[PATH_MAX + 8];
    stops(at("none"), -ENOENT);
    stops(at("a/file/below"), -ENOTDIR);
    stops("relative", -EINVAL);
    memset(longest, 'x', sizeof longest - 1);
    longest[0] = '/';
    longest[sizeof longest - 1] = '\0';
    stops(longest, -ENAMETOOLONG);
    longest[400] = '\0';
    stops(longest, -ENAMETOOLONG);
}

Test(reach, links_are_named_and_spelled_out)
{
    struct {
        const char *says, *real;
    } links[] = {{"b", "a/b"},
                 {"../a", "a"},
                 {"./b/../file", "a/file"},
                 {"../../../..", ""},
                 {"missing", "a/missing"}};
    for (size_t i = 0; i < ARRAY_LEN(links); i++) {
        cr_assert_eq(symlink(links[i].says, at("a/link")), 0);
        refuses(at("a/link"), at("a/link"), *links[i].real ? at(links[i].real) : "/");
        unlink(at("a/link"));
    }
    cr_assert_eq(symlink("/etc", at("a/link")), 0);
    refuses(at("a/link/ssh"), at("a/link"), "/etc/ssh");
}

Test(reach, links_of_the_system_are_followed)
{
    struct stat sb;
    if (lstat("/bin", &sb) == 0 && S_ISLNK(sb.st_mode))
        leads("/bin", "/usr/bin");
    if (lstat("/var/run", &sb) == 0 && S_ISLNK(sb.st_mode))
        leads("/var/run", "/run");
}

/* A folder that anybody can write is none of the system's, whatever its name is. */
Test(reach, the_refusal_is_an_error_with_a_hint)
{
    struct reached r;
    struct err err = ERR_INIT;
    cr_assert_eq(symlink("a", at("link")), 0);
    cr_assert_eq(reach_open(at("link/b"), &r), -ELOOP);
    cr_assert_lt(reach_refused(&r, "cannot grant", at("link/b"), &err), 0);
    cr_assert(err.code == ERR_REFUSED && strstr(err.message, "cannot grant"));
    cr_assert(strstr(err.hint, at("a/b")), "%s", err.hint);
    cr_assert_eq(reach_open("/proc/self/root", &r), -ELOOP);
    cr_assert_lt(reach_refused(&r, "cannot grant", "/proc/self/root", &err), 0);
    cr_assert(err.code == ERR_REFUSED && strstr(err.message, "the kernel's"), "%s", err.message);
    cr_assert(!strstr(err.hint, "/proc"), "%s", err.hint);
}
