/* FS-5: places that never enter a sandbox, whoever asks: credentials, other people's homes, host
 * sockets, kernel files, what is brig's own. A grant that is one of them, lies in one, or contains
 * one is refused; the message names which. */
#include "base/cleanup.h"
#include "base/text.h"
#include "filesystem/filesystem.h"
#include "os/fd.h"
#include "os/keep.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The place and all below it. */
static const char *const closed[] = {
    "/proc",
    "/sys",
    "/dev",
    "/boot",
    "/run",
    "/var/run",
    "/etc/shadow",
    "/etc/gshadow",
    "/etc/ssh",
    "/etc/ssl/private",
    "/etc/sudoers",
    "/etc/sudoers.d",
    "/etc/security",
    "/var/lib/brig",
    "/var/lib/docker",
    "/var/lib/containerd",
    "/var/lib/kubelet",
    "/var/spool/cron",
};

/* The place itself, but not every folder below it. */
static const char *const too_wide[] = {"/",    "/home",    "/root",    "/etc", "/var",
                                       "/tmp", "/var/tmp", "/var/lib", "/mnt", "/media"};

/* In anybody's home. */
static const char *const in_home[] = {
    ".ssh",
    ".aws",
    ".azure",
    ".config/gcloud",
    ".config/gh",
    ".config/hub",
    ".kube",
    ".docker",
    ".gnupg",
    ".netrc",
    ".git-credentials",
    ".config/git/credentials",
    ".npmrc",
    ".pypirc",
    ".cargo/credentials.toml",
    ".cargo/credentials",
    ".password-store",
    ".local/share/keyrings",
    ".local/state/brig",
    ".config/op",
    ".vault-token",
    ".terraform.d",
    ".mozilla",
    ".config/google-chrome",
    ".config/chromium",
    ".bash_history",
    ".zsh_history",
    ".gem/credentials",
    ".config/rclone",
    ".m2/settings.xml",
    ".gradle/gradle.properties",
};

static int refuse(const char *path, const char *place, const char *why, struct err *err)
{
    err_set(err, ERR_REFUSED, "%s cannot be granted: %s%s%s", path, place, *place ? " " : "", why);
    err_at(err, BOUNDARY_FILESYSTEM);
    return err_hint(err, "grant a narrower folder, or copy what is needed into one");
}

/* What the caller may not see the sandbox does not either, which has no more rights. Of what cannot
 * be looked at for another reason nobody knows that it is not there. */
static bool may_be_there(const char *place)
{
    struct stat sb;
    return lstat(place, &sb) == 0 || (!path_is_absent(errno) && errno != EACCES);
}

static int check_home(const char *path, const char *home, struct err *err)
{
    char place[PATH_MAX];
    if (strcmp(path, home) == 0)
        return refuse(path, "", "it is a home folder, where credentials live", err);
    for (size_t i = 0; i < ARRAY_LEN(in_home); i++) {
        if (snprintf(place, sizeof place, "%s/%s", home, in_home[i]) >= (int)sizeof place)
            continue;
        if (path_covered(path, place))
            return refuse(path, place, "holds credentials and never enters a sandbox", err);
        if (path_covered(place, path) && may_be_there(place))
            return refuse(path, place, "is inside it and never enters a sandbox", err);
    }
    return 0;
}

static int canonical_path(int fd, char out[PATH_MAX], struct err *err)
{
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, out, PATH_MAX - 1);
    if (n <= 0 || n >= PATH_MAX - 1)
        return err_sys(err, "find the canonical path of a grant");
    out[n] = '\0';
    return 0;
}

/* Canonical text of an environment path, or empty. */
static int canonical_home(const char *home, char out[PATH_MAX], struct err *err)
{
    out[0] = '\0';
    if (!home || home[0] != '/')
        return 0;
    cleanup_fd int fd = open(home, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0)
        return canonical_path(fd, out, err);
    return path_is_absent(errno) || errno == EACCES ? 0 : err_sys(err, "look where home is");
}

/* A folder directly below /home is somebody's home, also where $HOME says otherwise. */
static bool home_of_path(const char *path, char out[PATH_MAX])
{
    if (!text_begins(path, "/home/"))
        return false;
    const char *end = strchr(path + 6, '/');
    size_t len = end ? (size_t)(end - path) : strlen(path);
    memcpy(out, path, len);
    out[len] = '\0';
    return true;
}

int protect_check(const char *path, struct err *err)
{
    char home[PATH_MAX];
    for (size_t i = 0; i < ARRAY_LEN(too_wide); i++)
        if (strcmp(path, too_wide[i]) == 0)
            return refuse(path, "", "it holds more than one project should see", err);
    for (size_t i = 0; i < ARRAY_LEN(closed); i++) {
        if (path_covered(path, closed[i]))
            return refuse(path, closed[i], "never enters a sandbox", err);
        if (path_covered(closed[i], path) && may_be_there(closed[i]))
            return refuse(path, closed[i], "is inside it and never enters a sandbox", err);
    }
    if (canonical_home(getenv("HOME"), home, err) < 0)
        return err_number(err);
    if (home[0] && strcmp(home, "/") != 0 && check_home(path, home, err) < 0)
        return err_number(err);
    if (home_of_path(path, home) && check_home(path, home, err) < 0)
        return err_number(err);
    return check_home(path, "/root", err);
}

/* brig's own state, wherever it was put. */
static int check_own(const char *path, struct err *err)
{
    char place[PATH_MAX];
    if (!keep_holds(path, place))
        return 0;
    refuse(path, place, "holds keys and records of brig and never enters a sandbox", err);
    return err_hint(err, "keep the state outside of what you grant (--state, XDG_STATE_HOME); if "
                         "nothing there is brig's, remove the file " KEEP_MARK);
}

int protect_folder(int fd, struct err *err)
{
    char canonical[PATH_MAX];
    int result = canonical_path(fd, canonical, err);
    if (result >= 0)
        result = protect_check(canonical, err);
    return result < 0 ? result : check_own(canonical, err);
}
