/* Emptying a folder that hostile code filled. Outside lies a canary that every attempt must leave
 * as it is. */
#include "base/cleanup.h"
#include "os/remove.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

static char base[64];
static int top = -1;

/* base/canary/{file,folder/inner} and base/top, the folder to be emptied. As root the tests run as
 * an ordinary user: root passes where a user must not. */
static void set_up(void)
{
    snprintf(base, sizeof base, "/tmp/test-remove-XXXXXX");
    cr_assert(mkdtemp(base));
    if (geteuid() == 0) {
        cr_assert_eq(chown(base, 4321, 4321), 0);
        cr_assert(setgroups(0, NULL) == 0 && setresgid(4321, 4321, 4321) == 0 &&
                  setresuid(4321, 4321, 4321) == 0);
    }
    cr_assert_eq(chdir(base), 0);
    cr_assert(mkdir("canary", 0750) == 0 && mkdir("canary/folder", 0750) == 0 &&
              mkdir("top", 0700) == 0);
    int fd = open("canary/file", O_CREAT | O_WRONLY, 0640);
    cr_assert_eq(write(fd, "alive", 5), 5);
    close(fd);
    cr_assert_eq(mkdir("canary/folder/inner", 0750), 0);
    top = open("top", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    cr_assert_geq(top, 0);
    cr_assert_eq(chdir("top"), 0);
}

static void tear_down(void)
{
    struct stat sb;
    cr_assert_eq(fchdir(top), 0);
    cr_assert(stat("../canary/file", &sb) == 0 && sb.st_size == 5 && (sb.st_mode & 07777) == 0640,
              "the canary's file");
    cr_assert(stat("../canary/folder", &sb) == 0 && (sb.st_mode & 07777) == 0750,
              "the canary's folder");
    cr_assert(stat("../canary/folder/inner", &sb) == 0, "what is in it");
    cr_assert(rmdir("../canary/folder/inner") == 0 && rmdir("../canary/folder") == 0);
    cr_assert(unlink("../canary/file") == 0 && rmdir("../canary") == 0);
    cr_assert_eq(rmdir("../top"), 0, "the folder is empty");
    cr_assert_eq(chdir("/"), 0);
    rmdir(base); /* in /tmp, which is sticky: its owner is this user */
    close(top);
}

TestSuite(remove, .init = set_up, .fini = tear_down);

static void touch(const char *name)
{
    int fd = open(name, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    cr_assert_geq(fd, 0, "%s", name);
    close(fd);
}

Test(remove, an_empty_folder)
{
    cr_assert_eq(remove_contents(top), 0);
}

Test(remove, a_deep_tree)
{
    for (int i = 0; i < 5000; i++)
        cr_assert(mkdir("deeper", 0700) == 0 && chdir("deeper") == 0);
    touch("leaf");
    cr_assert_eq(remove_contents(top), 0);
}

Test(remove, a_wide_tree)
{
    char name[64];
    for (int i = 0; i < 3000; i++) {
        snprintf(name, sizeof name, "file with a longer name %d", i);
        touch(name);
    }
    for (int i = 0; i < 300; i++) {
        snprintf(name, sizeof name, "d%d", i);
        cr_assert_eq(mkdir(name, 0700), 0);
        snprintf(name, sizeof name, "d%d/sub", i);
        cr_assert_eq(mkdir(name, 0700), 0);
        snprintf(name, sizeof name, "d%d/sub/file", i);
        touch(name);
    }
    cr_assert_eq(remove_contents(top), 0);
}

Test(remove, many_branches_at_every_level)
{
    char name[32];
    for (int level = 0; level < 40; level++) {
        for (int i = 0; i < 8; i++) {
            snprintf(name, sizeof name, "b%d", i);
            cr_assert_eq(mkdir(name, 0700), 0);
            snprintf(name, sizeof name, "b%d/f", i);
            touch(name);
        }
        cr_assert_eq(chdir("b3"), 0);
    }
    cr_assert_eq(remove_contents(top), 0);
}

Test(remove, folders_of_any_mode)
{
    static const mode_t modes[] = {0, 0100, 0200, 0400, 0500, 0444, 01000, 02070, 07000};
    char name[64];
    for (size_t i = 0; i < ARRAY_LEN(modes); i++) {
        snprintf(name, sizeof name, "m%zu", i);
        cr_assert_eq(mkdir(name, 0700), 0);
        snprintf(name, sizeof name, "m%zu/a", i);
        cr_assert_eq(mkdir(name, 0700), 0);
        snprintf(name, sizeof name, "m%zu/a/b", i);
        cr_assert_eq(mkdir(name, 0700), 0);
        touch("f");
        cr_assert_eq(chmod("f", modes[i] & 0777), 0);
        cr_assert_eq(rename("f", strcat(name, "/f")), 0);
        for (char *slash; (slash = strrchr(name, '/'));) {
            *slash = '\0';
            cr_assert_eq(chmod(name, modes[i]), 0);
            if (!(modes[i] & 0100))
                break; /* what is above can no longer be reached by name */
        }
    }
    cr_assert_eq(remove_contents(top), 0);
}

Test(remove, a_closed_folder_within_an_open_one)
{
    cr_assert(mkdir("a", 0700) == 0 && mkdir("a/b", 0700) == 0 && mkdir("a/b/c", 0700) == 0);
    touch("a/b/c/f");
    cr_assert(chmod("a/b/c", 0) == 0 && chmod("a/b", 0) == 0 && chmod("a", 0500) == 0);
    cr_assert_eq(remove_contents(top), 0);
}

Test(remove, links_are_removed_and_not_followed)
{
    cr_assert(symlink("../canary", "link-up") == 0 && symlink("/", "link-root") == 0);
    cr_assert(symlink("../canary/file", "link-file") == 0 &&
              symlink("nowhere", "link-broken") == 0);
    cr_assert(symlink("loop", "loop") == 0 && mkdir("d", 0700) == 0);
    cr_assert(symlink("../../canary", "d/link") == 0 && symlink("../../canary/folder", "d/x") == 0);
    cr_assert(mkdir("d/e", 0700) == 0 && symlink("../../../canary/file", "d/e/link") == 0);
    cr_assert_eq(link("../canary/file", "d/hard"), 0);
    cr_assert_eq(remove_contents(top), 0);
}

Test(remove, sockets_and_pipes)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = "socket"};
    cleanup_fd int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cr_assert_eq(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    cr_assert_eq(mkfifo("pipe", 0), 0);
    cr_assert_eq(remove_contents(top), 0);
}

Test(remove, strange_names)
{
    char name[256];
    memset(name, '\xff', 255);
    name[255] = '\0';
    touch(name);
    static const char *const names[] = {"...", ".hidden", " ",    "\n",
                                        "-rf", "*",       "a\\b", "\x01\x7f"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        cr_assert_eq(mkdir(names[i], 0700), 0);
        cr_assert(chdir(names[i]) == 0 && mkdir(names[i], 0700) == 0 && chdir("..") == 0);
    }
    cr_assert_eq(remove_contents(top), 0);
}

/* Folders are moved to the top under a number: one that took the numbers before must not be in the
 * way. */
Test(remove, names_that_look_like_its_own)
{
    char name[64];
    for (int i = 0; i < 64; i++) {
        snprintf(name, sizeof name, ".x%016x", i);
        cr_assert(mkdir(name, 0700) == 0 && chdir(name) == 0);
        cr_assert(mkdir(name, 0700) == 0 && mkdir("y", 0700) == 0 && mkdir("y/z", 0700) == 0 &&
                  chdir("..") == 0);
    }
    cr_assert(mkdir("d", 0700) == 0 && mkdir("d/e", 0700) == 0 && mkdir("d/e/f", 0700) == 0);
    cr_assert_eq(remove_contents(top), 0);
}

Test(remove, the_descriptor_may_stand_anywhere)
{
    char name[32];
    for (int i = 0; i < 200; i++) {
        snprintf(name, sizeof name, "f%d", i);
        touch(name);
    }
    DIR *dir = fdopendir(dup(top));
    while (readdir(dir))
        ;
    cr_assert_eq(remove_contents(top), 0);
    closedir(dir);
}

/* A folder that this user may not change stands for a disk that fails. */
Test(remove, what_stays_is_told)
{
    touch("stays");
    cr_assert(mkdir("d", 0700) == 0);
    touch("d/f");
    cr_assert_eq(fchmod(top, 0500), 0);
    cr_assert_eq(remove_contents(top), -EACCES);
    cr_assert(access("stays", F_OK) == 0 && access("d", F_OK) == 0 && access("d/f", F_OK) < 0);
    int parent = open("..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    cr_assert_eq(remove_folder(parent, "top", top), -EACCES);
    close(parent);
    cr_assert_eq(fchmod(top, 0700), 0);
    cr_assert_eq(remove_contents(top), 0, "control");
}

Test(remove, what_cannot_be_listed_is_not_taken_for_empty)
{
    touch("f");
    int path = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    cr_assert_eq(remove_contents(path), -EBADF);
    close(path);
    cr_assert_eq(remove_contents(top), 0, "control");
}
