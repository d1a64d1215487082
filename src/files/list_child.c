/* What is in a folder, and in the folders in it, to a depth and a number, in the order of names,
 * and what is in a folder right after it. One descriptor for each level; no link is followed below
 * the folder that was asked for. */
#include "files/worker_child.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct list {
    char *path; /* of the entry at hand */
    uint64_t left;
    unsigned level, depth;
    int error; /* the first that left something out */
};

static void descend(struct list *l, const char *name, size_t path_len, dev_t dev)
{
    struct files_dir *above = &files_dirs[l->level];
    int fd = files_dir_open(above->fd, name);
    /* What may not be read is an entry without content. */
    if (fd < 0)
        return;
    if (dev != above->dev && files_place_check(fd) < 0) {
        close(fd);
        return;
    }
    struct files_dir *d = &files_dirs[++l->level];
    files_dir_begin(d, fd);
    files_sorted_begin(l->level);
    d->dev = dev;
    d->path_len = path_len;
}

/* "/a" and "b" are "/a/b"; the root's own path is empty here. */
static size_t join(char *path, size_t len, const char *name)
{
    size_t more = strlen(name);
    if (len + 1 + more >= FILES_PATH_MAX)
        return 0;
    path[len] = '/';
    memcpy(path + len + 1, name, more + 1);
    return len + 1 + more;
}

static int list_entry(struct list *l, const char *name)
{
    struct files_dir *d = &files_dirs[l->level];
    mode_t mode;
    dev_t dev;
    size_t len = join(l->path, d->path_len, name);
    if (len == 0) {
        l->error = ENAMETOOLONG;
        return 0;
    }
    if (l->left == 0) {
        l->error = EFBIG;
        return 1;
    }
    int done = files_out_entry(d->fd, name, l->path, &mode, &dev);
    if (done < 0)
        return done == -EPIPE ? done : 0;
    l->left--;
    if (S_ISDIR(mode) && l->level + 1 < l->depth)
        descend(l, name, len, dev);
    return 0;
}

static int list_all(struct list *l)
{
    for (;;) {
        struct files_dir *d = &files_dirs[l->level];
        const char *name = files_sorted_next(l->level, d);
        int done = name ? list_entry(l, name) : 0;
        if (done != 0)
            return done;
        if (name)
            continue;
        files_dir_end(d);
        if (l->level-- == 0)
            return 0;
    }
}

int files_list_child(const struct files_request *r, char path[FILES_PATH_MAX + 1])
{
    struct stat sb;
    struct list l = {.path = path, .left = r->limit, .depth = r->depth ? r->depth : 1};
    if (l.left > FILES_ENTRIES_MAX)
        l.left = FILES_ENTRIES_MAX;
    if (l.depth > FILES_DEPTH_MAX)
        l.depth = FILES_DEPTH_MAX;
    int fd = files_path_open(AT_FDCWD, path, O_RDONLY | O_DIRECTORY | O_NONBLOCK);
    if (fd < 0)
        return fd;
    int bad = files_place_check(fd);
    if (bad < 0 || fstat(fd, &sb) < 0) {
        close(fd);
        return bad < 0 ? bad : -errno;
    }
    files_dir_begin(&files_dirs[0], fd);
    files_sorted_begin(0);
    files_dirs[0].dev = sb.st_dev;
    files_dirs[0].path_len = path[1] ? strlen(path) : 0;
    int done = files_out_head(0, 0);
    if (done == 0)
        done = list_all(&l);
    return done < 0 ? done : files_out_end(l.error);
}
