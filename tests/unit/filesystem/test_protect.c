/* FS-5: places that never enter a sandbox. Each refusal stands beside a neighbour that is allowed.
 */
#include "base/cleanup.h"
#include "filesystem/filesystem.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

static char home[64];

static void set_up(void)
{
    snprintf(home, sizeof home, "/var/tmp/test-protect-XXXXXX");
    cr_assert(mkdtemp(home));
    setenv("HOME", home, 1);
}

static void tear_down(void)
{
    char command[128];
    static const char *const made[] = {"project/.ssh",   "project/src", "project", ".ssh",
                                       ".config/gcloud", ".config/x",   ".config", "link"};
    for (size_t i = 0; i < ARRAY_LEN(made); i++) {
        snprintf(command, sizeof command, "%s/%s", home, made[i]);
        if (rmdir(command) < 0)
            unlink(command);
    }
    rmdir(home);
}

TestSuite(protect, .init = set_up, .fini = tear_down);

static void refused(const char *path)
{
    struct err err = ERR_INIT;
    cr_assert_lt(protect_check(path, &err), 0, "%s must be refused", path);
    cr_assert(err.code == ERR_REFUSED && err.boundary == BOUNDARY_FILESYSTEM);
    cr_assert(strstr(err.message, path) && err.hint[0], "%s", err.message);
}

static void allowed(const char *path)
{
    struct err err = ERR_INIT;
    cr_assert_eq(protect_check(path, &err), 0, "%s: %s", path, err.message);
}

static const char *in_home(const char *name)
{
    static char path[256];
    snprintf(path, sizeof path, "%s%s%s", home, *name ? "/" : "", name);
    return path;
}

static void make(const char *name)
{
    cr_assert_eq(mkdir(in_home(name), 0700), 0, "%s", name);
}

Test(protect, kernel_files_devices_and_host_sockets)
{
    static const char *const places[] = {
        "/proc",  "/proc/1/root", "/sys",      "/sys/fs/cgroup", "/dev",
        "/dev/x", "/run",         "/run/user", "/var/run",       "/var/run/docker.sock"};
    for (size_t i = 0; i < ARRAY_LEN(places); i++)
        refused(places[i]);
    allowed("/procedures");
    allowed("/devel");
    allowed("/running/x");
}

Test(protect, secrets_of_the_system)
{
    static const char *const places[] = {
        "/etc/shadow",  "/etc/ssh",         "/etc/ssh/ssh_host_rsa_key", "/etc/ssl/private",
        "/etc/sudoers", "/etc/sudoers.d/x", "/var/lib/docker/volumes",   "/boot"};
    for (size_t i = 0; i < ARRAY_LEN(places); i++)
        refused(places[i]);
    allowed("/etc/ssl/certs");
    allowed("/etc/shadowless");
    allowed("/var/lib/dockerish");
}

Test(protect, folders_that_hold_too_much)
{
    static const char *const places[] = {"/",    "/home",    "/root",    "/etc", "/var",
                                         "/tmp", "/var/tmp", "/var/lib", "/mnt"};
    for (size_t i = 0; i < ARRAY_LEN(places); i++)
        refused(places[i]);
    allowed("/usr");
    allowed("/opt/tools");
    allowed("/srv/data");
    allowed("/mnt/disk/project");
}

Test(protect, a_home_folder_is_refused_but_a_project_in_it_is_not)
{
    refused(in_home(""));
    make("project");
    allowed(in_home("project"));
    make("project/src");
    allowed(in_home("project/src"));
}

Test(protect, credentials_in_a_home)
{
    static const char *const names[] = {
        ".ssh",           ".ssh/id_ed25519", ".aws",          ".aws/credentials",
        ".config/gcloud", ".gnupg",          ".kube",         ".docker",
        ".netrc",         ".npmrc",          ".bash_history", ".config/gh/hosts.yml"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        refused(in_home(names[i]));
    allowed(in_home(".sshd-notes"));
    allowed(in_home(".config/editor"));
}

Test(protect, a_folder_around_credentials_that_exist)
{
    make(".config");
    allowed(in_home(".config"));
    make(".config/gcloud");
    refused(in_home(".config"));
}

Test(protect, other_homes_are_known_by_their_place)
{
    unsetenv("HOME");
    refused("/home/somebody");
    refused("/home/somebody/.ssh");
    refused("/home/somebody/.aws/credentials");
    allowed("/home/somebody/project");
    refused("/root/.ssh");
    allowed("/root/project");
}

Test(protect, home_is_taken_where_its_links_lead)
{
    make("project");
    cr_assert_eq(symlink("project", in_home("link")), 0);
    setenv("HOME", in_home("link"), 1);
    refused(in_home("project"));
    allowed(in_home(""));
}

Test(protect, strange_homes_do_no_harm)
{
    static const char *const homes[] = {"", "relative", "/no/such/home", "/", "/etc/passwd"};
    for (size_t i = 0; i < ARRAY_LEN(homes); i++) {
        setenv("HOME", homes[i], 1);
        allowed("/opt/tools");
        refused("/etc/shadow");
    }
}

Test(protect, a_home_that_cannot_be_opened_is_no_missing_one)
{
    struct rlimit files, none = {0};
    struct err err = ERR_INIT;
    make(".ssh");
    cr_assert_eq(setenv("HOME", home, 1), 0);
    refused(in_home(".ssh"));
    cr_assert_eq(getrlimit(RLIMIT_NOFILE, &files), 0);
    none.rlim_max = files.rlim_max;
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
    int result = protect_check(in_home(".ssh"), &err);
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &files), 0);
    cr_expect_lt(result, 0);
}
