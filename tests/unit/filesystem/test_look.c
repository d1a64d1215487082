/* What the host has at a path, found without opening it; and what of it may be proposed. Each
 * refusal stands beside a neighbour that may. */
#include "base/cleanup.h"
#include "filesystem/look.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

static char top[64];

static const char *at(const char *name)
{
    static char paths[8][256];
    static unsigned next;
    char *path = paths[next++ % 8];
    snprintf(path, sizeof paths[0], "%s/%s", top, name);
    return path;
}

static void make(const char *name)
{
    cleanup_fd int fd = open(at(name), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    cr_assert_geq(fd, 0);
}

static void set_up(void)
{
    snprintf(top, sizeof top, "/var/tmp/test-look-XXXXXX");
    cr_assert(mkdtemp(top));
    cr_assert_eq(mkdir(at("d"), 0700), 0);
    make("d/file");
    cr_assert_eq(symlink("d/file", at("link")), 0);
    cr_assert_eq(symlink(at("d"), at("absolute")), 0);
    cr_assert_eq(symlink("../d/./file", at("d/up")), 0);
    cr_assert_eq(symlink("loop", at("loop")), 0);
    cr_assert_eq(symlink("gone", at("dangling")), 0);
    cr_assert_eq(mkfifo(at("fifo"), 0600), 0);
}

static void tear_down(void)
{
    static const char *const names[] = {"d/file", "d/up",     "d",    "link", "absolute",
                                        "loop",   "dangling", "fifo", "sock"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (unlink(at(names[i])) < 0)
            rmdir(at(names[i]));
    rmdir(top);
}

TestSuite(look, .init = set_up, .fini = tear_down);

static struct look found(const char *name, const char *canonical)
{
    struct look l;
    cr_assert_eq(look_up(at(name), &l), 0, "%s", name);
    cr_assert(l.exists && l.parent_exists);
    cr_assert_str_eq(l.path, at(canonical));
    return l;
}

Test(look, files_folders_and_links_to_them)
{
    struct look l = found("d/file", "d/file");
    cr_assert(l.is_file && !l.is_dir && !l.link[0]);
    cr_assert(found("d", "d").is_dir);
    l = found("link", "d/file");
    cr_assert(l.is_file);
    cr_assert_str_eq(l.link, at("link"));
    found("absolute/file", "d/file");
    found("d/up", "d/file");
    found("absolute/up", "d/file");
}

Test(look, what_is_not_there_has_the_place_that_it_would_have)
{
    struct look l;
    cr_assert_eq(look_up(at("absolute/new"), &l), 0);
    cr_assert(!l.exists && l.parent_exists);
    cr_assert_str_eq(l.path, at("d/new"));
    cr_assert_eq(look_up(at("x/y/z"), &l), 0);
    cr_assert(!l.exists && !l.parent_exists);
    cr_assert_str_eq(l.path, at("x/y/z"));
    cr_assert_eq(look_up(at("dangling"), &l), 0);
    cr_assert(!l.exists);
    cr_assert_str_eq(l.path, at("gone"));
}

Test(look, a_fifo_is_not_opened)
{
    struct look l;
    /* With a reader that waits, an open would not return, or wake it. */
    cr_assert_eq(look_up(at("fifo"), &l), 0);
    cr_assert(l.exists && !l.is_file && !l.is_dir && !l.is_socket);
}

Test(look, a_socket_is_one)
{
    struct look l;
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    cleanup_fd int s = socket(AF_UNIX, SOCK_STREAM, 0);
    snprintf(un.sun_path, sizeof un.sun_path, "%s", at("sock"));
    cr_assert_eq(bind(s, (struct sockaddr *)&un, sizeof un), 0);
    cr_assert_eq(look_up(at("sock"), &l), 0);
    cr_assert(l.is_socket);
}

Test(look, loops_files_as_folders_and_kernel_files_cannot_be_said)
{
    struct look l;
    cr_assert_lt(look_up(at("loop"), &l), 0);
    cr_assert_lt(look_up(at("d/file/x"), &l), 0);
    cr_assert_lt(look_up("/proc/self/root/etc", &l), 0);
    cr_assert_lt(look_up("/proc/1/environ", &l), 0);
    cr_assert_lt(look_up("relative", &l), 0);
    cr_assert_eq(look_up("/", &l), 0);
    cr_assert(l.is_dir);
    cr_assert_str_eq(l.path, "/");
}

Test(look, a_name_of_any_length_ends_somewhere)
{
    struct look l;
    char path[PATH_MAX + 8];
    memset(path, 'x', sizeof path);
    path[0] = '/';
    path[300] = '\0';
    cr_assert_lt(look_up(path, &l), 0);
    path[300] = 'x';
    path[sizeof path - 1] = '\0';
    cr_assert_lt(look_up(path, &l), 0);
}

static void may(const char *path, bool is_dir)
{
    char why[LOOK_WHY_MAX] = "";
    cr_assert(look_may_propose(path, is_dir, why), "%s: %s", path, why);
}

static void may_not(const char *path, bool is_dir)
{
    char why[LOOK_WHY_MAX] = "";
    cr_assert_not(look_may_propose(path, is_dir, why), "%s must not be proposed", path);
    cr_assert(why[0]);
}

Test(look, credentials_are_not_proposed)
{
    setenv("HOME", "/home/ann", 1);
    may("/home/ann/project/main.py", false);
    may("/home/ann/project", true);
    may_not("/home/ann/.ssh/id_rsa", false);
    may_not("/home/ann/.config/thing", true);
    may_not("/home/ann/project/.env", false);
    may_not("/home/ann/project/.env.local", false);
    may_not("/home/ann/project/server.PEM", false);
    may_not("/home/ann/backup/.aws/config", false);
    may_not("/srv/app/credentials.json", false);
    may_not("/srv/app/secrets", true);
    may("/srv/app/secretary.txt", false);
    may_not("/etc/shadow", false);
    may_not("/etc/ssl/private/x", false);
    may_not("/run/docker.sock", false);
    may_not("/srv/x/docker.sock", false);
}

Test(look, other_peoples_places_are_not_proposed)
{
    setenv("HOME", "/home/ann", 1);
    may_not("/home/bob/project", true);
    may_not("/home/annabel/x", false);
    may_not("/root/project", true);
    may_not("/var/log/syslog", false);
    unsetenv("HOME");
    may_not("/home/ann/project", true);
    may("/srv/project", true);
}

Test(look, wide_places_are_not_proposed)
{
    setenv("HOME", "/home/ann", 1);
    static const char *const wide[] = {"/",    "/home",     "/etc",       "/usr",
                                       "/var", "/srv",      "/opt",       "/tmp",
                                       "/mnt", "/home/ann", "/usr/local", "/var/lib"};
    for (size_t i = 0; i < ARRAY_LEN(wide); i++)
        may_not(wide[i], true);
    may("/srv/data", true);
    may("/opt/tool", true);
    may("/opt/file", false);
}

Test(look, what_programs_do_without_is_not_proposed)
{
    may_not("/etc/inputrc", false);
    may_not("/etc/python3.11/sitecustomize.py", false);
    may("/etc/app.conf", false);
    may("/etc/nginx", true);
}
