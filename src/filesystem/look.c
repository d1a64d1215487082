/* Looks up, after a run in learn mode, what the host has at a path that the code named, without
 * opening anything. */
#include "filesystem/look.h"

#include "base/cleanup.h"
#include "os/reach.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

#define AUTOFS_MAGIC 0x0187
#define PROCFS_MAGIC 0x9fa0
#define SYSFS_MAGIC  0x62656572

/* File systems on which a mere look-up may block or have an effect. */
static bool is_strange(int fd)
{
    struct statfs s;
    if (fstatfs(fd, &s) < 0)
        return true;
    return s.f_type == AUTOFS_MAGIC || s.f_type == PROCFS_MAGIC || s.f_type == SYSFS_MAGIC;
}

static void describe(struct look *ret, const struct stat *sb)
{
    ret->exists = true;
    ret->is_dir = S_ISDIR(sb->st_mode);
    ret->is_file = S_ISREG(sb->st_mode);
    ret->is_socket = S_ISSOCK(sb->st_mode);
}

/* For a file that does not exist, report the path that it would have. */
static int stop_at(struct reach_walk *w, const char *name, struct look *ret)
{
    ret->parent_exists = reach_is_last(w);
    char more[NAME_MAX + 1];
    int r = reach_enter(w, name, -1);
    while (r >= 0 && (r = reach_name(w, more)) > 0)
        r = strcmp(more, "..") == 0 ? -ENOENT : reach_enter(w, more, -1);
    return r;
}

/* 1: go on; 0: the end; negative: cannot be said. */
static int step(struct reach_walk *w, const char *name, struct look *ret)
{
    struct stat sb;
    if (strcmp(name, ".") == 0)
        return 1;
    if (strcmp(name, "..") == 0)
        return reach_up(w) < 0 ? -EIO : 1;
    cleanup_fd int fd = openat(w->dir, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT || errno == ENOTDIR ? stop_at(w, name, ret) : -errno;
    if (fstat(fd, &sb) < 0 || is_strange(fd))
        return -EXDEV;
    if (S_ISLNK(sb.st_mode)) {
        if (!ret->link[0] && snprintf(ret->link, PATH_MAX, "%s/%s", w->at, name) >= PATH_MAX)
            return -ENAMETOOLONG;
        return reach_follow(w, fd) < 0 ? -ELOOP : 1;
    }
    if (reach_is_last(w)) {
        ret->parent_exists = true;
        describe(ret, &sb);
        return reach_enter(w, name, -1);
    }
    if (!S_ISDIR(sb.st_mode))
        return -ENOTDIR;
    int r = reach_enter(w, name, fd_steal(&fd));
    return r < 0 ? r : 1;
}

int look_up(const char *path, struct look *ret)
{
    struct reach_walk w;
    char name[NAME_MAX + 1];
    bool ended = false;
    *ret = (struct look){0};
    int r = reach_begin(&w, path);
    while (r >= 0 && !ended) {
        r = reach_name(&w, name);
        /* The last step was a link that led to where the walk already stood, or to the root. */
        if (r == 0) {
            ret->exists = ret->parent_exists = ret->is_dir = true;
            break;
        }
        if (r > 0)
            r = step(&w, name, ret);
        ended = r == 0;
    }
    reach_end(&w);
    memcpy(ret->path, w.at[0] ? w.at : "/", strlen(w.at[0] ? w.at : "/") + 1);
    return r;
}
