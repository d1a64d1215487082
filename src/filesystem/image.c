/* A folder as root. Its top-level entries are looked at one by one, never through a link. */
#include "base/cleanup.h"
#include "filesystem/filesystem.h"
#include "os/sys.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* brig puts its own there. */
static bool replaced(const char *name)
{
    static const char *const ours[] = {".",   "..",  "dev",  "proc",      "sys",
                                       "tmp", "run", "home", "workspace", ".landlock"};
    for (size_t i = 0; i < ARRAY_LEN(ours); i++)
        if (strcmp(name, ours[i]) == 0)
            return true;
    return strncmp(name, ".brig", 5) == 0;
}

static int add_entry(struct filesystem *fs, int dir, const char *name, struct err *err)
{
    struct filesystem_host *host = &fs->host;
    struct stat sb;
    if (host->view_count == VIEW_MAX || strlen(name) + 2 > sizeof host->view[0].path)
        return err_set(err, ERR_LIMIT, "%s has too many or too long names to be a root",
                       fs->policy->root);
    struct view_entry *e = &host->view[host->view_count];
    *e = (struct view_entry){0};
    snprintf(e->path, sizeof e->path, "/%s", name);
    if (fstatat(dir, name, &sb, AT_SYMLINK_NOFOLLOW) < 0)
        return err_sys(err, "look at %s%s", fs->policy->root, e->path);
    e->is_dir = S_ISDIR(sb.st_mode);
    if (S_ISLNK(sb.st_mode)) {
        ssize_t n = readlinkat(dir, name, e->target, sizeof e->target);
        if (n <= 0 || (size_t)n >= sizeof e->target)
            return err_set(err, ERR_REFUSED, "%s%s is a link with a bad target", fs->policy->root,
                           e->path);
        e->target[n] = '\0';
    } else if (!S_ISDIR(sb.st_mode) && !S_ISREG(sb.st_mode)) {
        return 0; /* sockets, FIFOs and devices of an image are left out */
    }
    host->view_count++;
    return 0;
}

static int by_path(const void *a, const void *b)
{
    return strcmp(((const struct view_entry *)a)->path, ((const struct view_entry *)b)->path);
}

int image_probe(struct filesystem *fs, struct err *err)
{
    int dir = open(fs->policy->root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *list = dir < 0 ? NULL : fdopendir(dir);
    if (!list) {
        err_sys(err, "cannot use %s as root", fs->policy->root);
        return err_at(err, BOUNDARY_FILESYSTEM);
    }
    fs->host.view_count = 0;
    int result = protect_folder(dir, err);
    for (struct dirent *e; result == 0 && (e = readdir(list));)
        if (!replaced(e->d_name))
            result = add_entry(fs, dir, e->d_name, err);
    closedir(list);
    qsort(fs->host.view, fs->host.view_count, sizeof fs->host.view[0], by_path);
    return result;
}

bool image_has_folder(const struct filesystem *fs, const char *path)
{
    cleanup_fd int dir = open(fs->policy->root, O_PATH | O_DIRECTORY | O_CLOEXEC);
    cleanup_fd int fd = sys_openat2(dir, path + 1, O_PATH | O_DIRECTORY | O_CLOEXEC, 0,
                                    RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
    return fd >= 0;
}

int image_tree(const struct filesystem *fs, const struct view_entry *e, struct err *err)
{
    cleanup_fd int dir = open(fs->policy->root, O_PATH | O_DIRECTORY | O_CLOEXEC);
    int tree = sys_open_tree(dir, e->path + 1,
                             SYS_OPEN_TREE_CLONE | SYS_OPEN_TREE_CLOEXEC | AT_SYMLINK_NOFOLLOW |
                                 (e->is_dir ? SYS_AT_RECURSIVE : 0));
    return tree < 0 ? err_sys(err, "open %s%s", fs->policy->root, e->path) : tree;
}
