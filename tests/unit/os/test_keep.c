/* FS-5: brig knows its own state, wherever it was put. */
#include "base/cleanup.h"
#include "os/keep.h"
#include "os/runstate.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static char base[64];

static const char *at(const char *name)
{
    static char path[4][256];
    static unsigned turn;
    char *mine = path[turn++ % 4];
    snprintf(mine, sizeof path[0], "%s%s%s", base, *name ? "/" : "", name);
    return mine;
}

static int make(const char *name)
{
    mkdir(at(name), 0700);
    int fd = open(at(name), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    cr_assert_geq(fd, 0, "%s", name);
    return fd;
}

/* Everything of this test, the list as well, lies in one folder: the list of root is a fixed one.
 */
static void set_up(void)
{
    snprintf(base, sizeof base, "/var/tmp/test-keep-XXXXXX");
    cr_assert(mkdtemp(base) && chmod(base, 0755) == 0);
    if (geteuid() == 0) {
        cr_assert_eq(chown(base, 12345, 12345), 0);
        cr_assert(setegid(12345) == 0 && seteuid(12345) == 0);
    }
    setenv("HOME", base, 1);
    unsetenv("XDG_STATE_HOME");
    unsetenv("XDG_RUNTIME_DIR");
    close(make("deep"));
    close(make("beside"));
}

static void tear_down(void)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", base);
    cr_assert_eq(seteuid(getuid()), 0);
    if (fork() == 0) {
        execl("/bin/sh", "sh", "-c", command, NULL);
        _exit(1);
    }
}

TestSuite(keep, .init = set_up, .fini = tear_down);

static void held(const char *path, const char *place)
{
    char found[PATH_MAX];
    cr_assert(keep_holds(path, found), "%s", path);
    cr_assert_str_eq(found, place);
}

static void is_free(const char *path)
{
    char found[PATH_MAX];
    cr_assert_not(keep_holds(path, found), "%s holds %s", path, found);
}

Test(keep, a_folder_in_a_place_of_somebodys_choice)
{
    is_free(at(""));
    cleanup_fd int fd = make("deep/state");
    close(make("deep/state/audit"));
    is_free(at("deep"));
    keep_folder(fd);
    held(at("deep/state"), at("deep/state"));
    held(at("deep/state/audit"), at("deep/state"));
    held(at("deep/state/" KEEP_MARK), at("deep/state"));
    held(at("deep"), at("deep/state"));
    is_free(at("beside"));
    char found[PATH_MAX];
    cr_assert(keep_holds("/", found));
}

Test(keep, by_its_mark_when_it_was_moved)
{
    cleanup_fd int fd = make("deep/state");
    keep_folder(fd);
    cr_assert_eq(rename(at("deep/state"), at("beside/moved")), 0);
    is_free(at("deep"));
    held(at("beside/moved"), at("beside/moved"));
    /* Another one with its old name is nobody's. */
    close(make("deep/state"));
    is_free(at("deep/state"));
    is_free(at("deep"));
}

Test(keep, a_file_that_lies_elsewhere)
{
    close(open(at("deep/key"), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    is_free(at("deep"));
    keep_file(at("deep/key"));
    held(at("deep/key"), at("deep/key"));
    held(at("deep"), at("deep/key"));
    is_free(at("beside"));
    unlink(at("deep/key"));
    is_free(at("deep"));
}

Test(keep, the_usual_places)
{
    cleanup_fd int net = runstate_open("net", true);
    cr_assert_geq(net, 0);
    held(at(".local/state/brig"), at(".local/state/brig"));
    held(at(".local/state"), at(".local/state/brig"));
    /* And where the environment says, also when it does not say so any more. */
    setenv("XDG_STATE_HOME", at("beside"), 1);
    cleanup_fd int other = runstate_open("net", true);
    cr_assert_geq(other, 0);
    held(at("beside/brig/net"), at("beside/brig"));
    unsetenv("XDG_STATE_HOME");
    held(at("beside/brig/net"), at("beside/brig"));
    held(at("beside"), at("beside/brig"));
    is_free(at("deep"));
}

Test(keep, a_place_that_the_environment_names_is_made)
{
    struct stat sb;
    setenv("XDG_STATE_HOME", at("new"), 1);
    cr_assert_lt(runstate_open("net", false), 0);
    cr_assert_lt(stat(at("new"), &sb), 0, "asking makes nothing");
    cleanup_fd int net = runstate_open("net", true);
    cr_assert_geq(net, 0);
    cr_assert(stat(at("new"), &sb) == 0 && (sb.st_mode & 07777) == 0700);
    setenv("XDG_STATE_HOME", at("neither/new"), 1);
    cr_assert_lt(runstate_open("net", true), 0);
}

Test(keep, forgotten_when_it_is_removed)
{
    cleanup_fd int fd = make("deep/state");
    keep_folder(fd);
    keep_forget(fd);
    cr_assert_eq(unlinkat(fd, KEEP_MARK, 0), 0);
    is_free(at("deep"));
}

Test(keep, what_cannot_be_walked_counts)
{
    char found[PATH_MAX];
    cr_assert(keep_holds(at("missing/x"), found));
}
