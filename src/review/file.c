/* RV-2: files of the project and of the layer, from one descriptor each, never through a link, a
 * mount point or "..". */
#include "base/cleanup.h"
#include "os/sys.h"
#include "review/review.h"

#include <errno.h>
#include <string.h>

#define BENEATH (RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV)

void review_stamp(const struct stat *sb, struct review_stamp *ret)
{
    *ret = (struct review_stamp){
        .ino = sb->st_ino,
        .size = (uint64_t)sb->st_size,
        .mtime_ns = (int64_t)sb->st_mtim.tv_sec * 1000000000 + sb->st_mtim.tv_nsec,
        .ctime_ns = (int64_t)sb->st_ctim.tv_sec * 1000000000 + sb->st_ctim.tv_nsec,
        .mode = sb->st_mode};
}

bool review_stamp_same(const struct review_stamp *a, const struct review_stamp *b)
{
    if (S_ISDIR(a->mode) && S_ISDIR(b->mode))
        return a->mode == b->mode; /* what is in a folder has stamps of its own */
    return a->ino == b->ino && a->size == b->size && a->mtime_ns == b->mtime_ns &&
           a->ctime_ns == b->ctime_ns && a->mode == b->mode;
}

int review_open_at(int root, const char *path, int flags)
{
    return sys_openat2(root, *path ? path : ".", (uint64_t)flags | O_CLOEXEC, 0, BENEATH);
}

int review_parent_at(int root, const char *path, const char **leaf)
{
    char parent[REVIEW_PATH_MAX + 1];
    const char *slash = strrchr(path, '/');
    size_t len = slash ? (size_t)(slash - path) : 0;
    *leaf = slash ? slash + 1 : path;
    if (len >= sizeof parent || **leaf == '\0') {
        errno = ENAMETOOLONG;
        return -1;
    }
    memcpy(parent, path, len);
    parent[len] = '\0';
    return review_open_at(root, parent, O_PATH | O_DIRECTORY);
}

/* Opening a FIFO must not wait, and a device must not be touched: only what was a plain file when
 * it was looked at is opened, and it is looked at again. */
int review_open_file(int root, const char *path, const struct review_stamp *expected,
                     struct err *err)
{
    struct stat sb;
    cleanup_fd int fd = review_open_at(root, path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
    if (fd < 0 || fstat(fd, &sb) < 0)
        return err_sys(err, "open %s", path);
    if (!S_ISREG(sb.st_mode) || (expected && sb.st_ino != expected->ino))
        return err_set(err, ERR_REFUSED, "%s changed while it was looked at", path);
    return fd_steal(&fd);
}

int review_read_link(int root, const char *path, char out[static REVIEW_PATH_MAX + 1])
{
    const char *leaf;
    cleanup_fd int parent = review_parent_at(root, path, &leaf);
    if (parent < 0)
        return -errno;
    ssize_t n = readlinkat(parent, leaf, out, REVIEW_PATH_MAX + 1);
    if (n < 0)
        return -errno;
    if (n > REVIEW_PATH_MAX)
        return -ENAMETOOLONG;
    out[n] = '\0';
    return (int)n;
}
