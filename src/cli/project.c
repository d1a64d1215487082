/* Chooses the folder that level medium or --review works on, and refuses homes and folders of the
 * system. */
#include "cli/project.h"

#include "base/cleanup.h"
#include "cli/path.h"

#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>

/* Folders that belong to the system or to everybody; compared as objects, so that no link disguises
 * them. */
static const char *const shared_folders[] = {
    "/",     "/bin",  "/boot", "/dev",  "/etc", "/home", "/lib", "/lib64", "/opt",
    "/proc", "/root", "/run",  "/sbin", "/sys", "/tmp",  "/usr", "/var",   "/var/tmp",
};

static bool same(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* Is `folder` this home, or on the way from it to the root? */
static bool holds_home(const struct stat *folder, const char *home)
{
    int fd = open(home, O_PATH | O_DIRECTORY | O_CLOEXEC);
    struct stat now;
    struct stat below = {0};
    bool found = false;
    while (fd >= 0 && fstat(fd, &now) == 0 && !same(&now, &below)) {
        found = same(&now, folder);
        if (found)
            break;
        below = now;
        int up = openat(fd, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
        close(fd);
        fd = up;
    }
    if (fd >= 0)
        close(fd);
    return found;
}

static bool is_shared(const struct stat *folder)
{
    struct stat st;
    for (size_t i = 0; i < ARRAY_LEN(shared_folders); i++) {
        if (stat(shared_folders[i], &st) == 0 && same(&st, folder))
            return true;
    }
    return false;
}

static int refuse(const char *path, const char *what, struct err *err)
{
    err_set(err, ERR_REFUSED, "the project folder would be %s, %s", path, what);
    err_at(err, BOUNDARY_FILESYSTEM);
    return err_hint(err, "the program may change everything in it: cd into the project, or name it "
                         "with --project DIR");
}

static int check(const char *path, struct err *err)
{
    struct stat st;
    struct reached at;
    if (path_reach(path, "project folder", &at, err) < 0 || fstat(at.fd, &st) < 0) {
        if (err->code == ERR_SYSTEM)
            err->code = ERR_USAGE;
        return err_number(err);
    }
    reach_close(&at);
    if (!S_ISDIR(st.st_mode))
        return err_set(err, ERR_USAGE, "project folder %s: not a folder", path);
    const char *home = getenv("HOME");
    if (home && home[0] == '/' && holds_home(&st, home))
        return refuse(path, "which is or holds your home folder", err);
    if (is_shared(&st))
        return refuse(path, "which is not yours alone", err);
    return 0;
}

int project_choose(const struct policy *policy, const char *asked, struct buf *ret, struct err *err)
{
    if (!policy->project) {
        if (!asked)
            return 0;
        err_set(err, ERR_USAGE, "--project: level %s grants no project folder",
                level_name(policy->level));
        return err_hint(err, "use --level medium, or grant the folder with --rw %.200s", asked);
    }
    int r = path_resolve(asked ? asked : ".", ret, err);
    return r < 0 ? r : check(buf_text(ret), err);
}

int project_review(const char *spec, struct buf *ret, struct buf *ret_dest, struct err *err)
{
    const char *colon = strchr(spec, ':');
    cleanup_free char *dir = strndup(spec, colon ? (size_t)(colon - spec) : strlen(spec));
    if (!dir)
        return err_memory(err);
    if (!dir[0] || (colon && (colon[1] != '/' || strchr(colon + 1, ':')))) {
        err_set(err, ERR_USAGE, "--review: '%.60s' is not DIR or DIR:DEST", spec);
        return err_hint(err, "DEST, the place inside, is an absolute path");
    }
    if (path_resolve(dir, ret, err) < 0 || check(buf_text(ret), err) < 0)
        return err_number(err);
    path_join("/", colon ? colon + 1 : buf_text(ret), ret_dest);
    return 0;
}
