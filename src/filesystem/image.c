/* A folder as root. Its top-level entries are looked at one by one, never through a link. */
#include "base/cleanup.h"
#include "base/text.h"
#include "filesystem/filesystem.h"
#include "os/fd.h"
#include "os/reach.h"
#include "os/sys.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* brig puts its own there. */
static bool replaced(const struct filesystem *fs, const char *name)
{
    static const char *const ours[] = {".",   "..",  "dev",  "proc",      "sys",
                                       "tmp", "run", "home", "workspace", ".landlock"};
    for (size_t i = 0; i < ARRAY_LEN(ours); i++)
        if (strcmp(name, ours[i]) == 0)
            return true;
    if (fs->root_beside && strcmp(name, "root") == 0)
        return true;
    return text_begins(name, ".brig");
}

static int add_entry(struct filesystem *fs, int dir, const char *name, struct err *err)
{
    struct filesystem_host *host = &fs->host;
    struct stat sb;
    if (host->view_count == VIEW_MAX || strlen(name) + 2 > sizeof host->view[0].path)
        return err_set(err, ERR_LIMIT, "%s has too many or too long names to be a root", fs->root);
    struct view_entry *e = &host->view[host->view_count];
    *e = (struct view_entry){0};
    snprintf(e->path, sizeof e->path, "/%s", name);
    if (fstatat(dir, name, &sb, AT_SYMLINK_NOFOLLOW) < 0)
        return err_sys(err, "look at %s%s", fs->root, e->path);
    e->is_dir = S_ISDIR(sb.st_mode);
    e->foreign = !fs->privileged && (sb.st_uid != geteuid() || fs->root_beside);
    e->dev = sb.st_dev;
    e->ino = sb.st_ino;
    if (S_ISLNK(sb.st_mode)) {
        ssize_t n = readlinkat(dir, name, e->target, sizeof e->target);
        if (n <= 0 || (size_t)n >= sizeof e->target)
            return err_set(err, ERR_REFUSED, "%s%s is a link with a bad target", fs->root, e->path);
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

/* FS-6, FS-7: as a grant. */
static int open_root(struct filesystem *fs, struct err *err)
{
    const char *root = fs->root;
    struct reached at;
    int r = reach_open(root, &at);
    if (r == -ELOOP && at.link[0]) {
        reach_refused(&at, "cannot use as root", root, err);
        return err_at(err, BOUNDARY_FILESYSTEM);
    }
    errno = -r;
    if (r < 0 || !(fs->root_path = strdup(at.path))) {
        reach_close(&at);
        err_sys(err, "cannot use %s as root", root);
        return err_at(err, BOUNDARY_FILESYSTEM);
    }
    fs->root_fd = at.fd;
    return 0;
}

void image_close(struct filesystem *fs)
{
    if (fs->root_fd >= 0)
        close(fs->root_fd);
    fs->root_fd = -1;
    free(fs->root_path);
    fs->root_path = NULL;
}

int image_probe(struct filesystem *fs, struct err *err)
{
    if (open_root(fs, err) < 0)
        return err_number(err);
    DIR *list = folder_open(fs->root_fd, ".");
    if (!list) {
        err_sys(err, "cannot use %s as root", fs->root);
        return err_at(err, BOUNDARY_FILESYSTEM);
    }
    fs->host.view_count = 0;
    int result = fs->own_root ? 0 : protect_folder(dirfd(list), err);
    struct dirent *e;
    int more = 0;
    while (result == 0 && (more = folder_next(list, &e)) > 0)
        if (!replaced(fs, e->d_name))
            result = add_entry(fs, dirfd(list), e->d_name, err);
    if (result == 0 && more < 0)
        result = err_sys(err, "list %s", fs->root);
    closedir(list);
    qsort(fs->host.view, fs->host.view_count, sizeof fs->host.view[0], by_path);
    return result;
}

static int image_open(const struct filesystem *fs, const char *path, int flags)
{
    return sys_openat2(fs->root_fd, path + 1, (uint64_t)flags | O_PATH | O_CLOEXEC, 0,
                       RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
}

bool image_has_folder(const struct filesystem *fs, const char *path)
{
    cleanup_fd int fd = image_open(fs, path, O_DIRECTORY);
    return fd >= 0;
}

int image_tree(const struct filesystem *fs, struct idmap *map, const struct view_entry *e,
               uid_t host_uid, gid_t host_gid, struct err *err)
{
    struct stat sb;
    bool with_mounts = e->is_dir && fs->policy->submounts;
    cleanup_fd int fd = image_open(fs, e->path, 0);
    if (fd < 0 || fstat(fd, &sb) < 0)
        return err_sys(err, "open %s%s", fs->root, e->path);
    if (sb.st_dev != e->dev || sb.st_ino != e->ino)
        return err_set(err, ERR_REFUSED, "%s%s was replaced while the sandbox was being built",
                       fs->root, e->path);
    cleanup_fd int tree =
        sys_open_tree(fd, "",
                      SYS_OPEN_TREE_CLONE | SYS_OPEN_TREE_CLOEXEC | SYS_AT_EMPTY_PATH |
                          (with_mounts ? SYS_AT_RECURSIVE : 0));
    if (tree < 0)
        return err_sys(err, "open %s%s", fs->root, e->path);
    /* FS-13: the layer above never writes it, and this mount could not be written either. The files
     * of an image belong to whoever loaded it, and are to be the code's. */
    if (((fs->policy->writable_root && e->is_dir) || fs->own_root) &&
        tree_map(map, tree, fs->root_path, &sb, host_uid, host_gid, SYS_MOUNT_ATTR_RDONLY, err) < 0)
        return err_number(err);
    return fd_steal(&tree);
}
