/* Review mode where nothing can be mounted: the code gets a copy of the project. Blocks are shared
 * where the file system can do that; inodes never are. */
#include "review/copy.h"

#include "base/cleanup.h"
#include "os/fd.h"
#include "os/sys.h"
#include "review/review.h"

#include <dirent.h>
#include <errno.h>
#include <linux/fs.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

struct copying {
    struct review_copy *c;
    dev_t dev;
    struct buf base;
    char path[REVIEW_PATH_MAX + 1];
    size_t len;
    unsigned depth;
};

static int copy_folder(struct copying *w, int from, int to, struct err *err);

static int copy_bytes(int from, int to, const char *path, struct err *err)
{
    static char block[256 * 1024];
    ssize_t n;
    if (ioctl(to, FICLONE, from) == 0)
        return 0;
    while ((n = copy_file_range(from, NULL, to, NULL, 1u << 30, 0)) > 0)
        ;
    if (n == 0)
        return 0;
    while ((n = read(from, block, sizeof block)) > 0)
        if (write(to, block, (size_t)n) != n)
            return err_sys(err, "copy %s", path);
    return n < 0 ? err_sys(err, "copy %s", path) : 0;
}

/* Owner first: a change of owner drops bits of the mode. */
static int settle(const struct copying *w, int fd, const struct stat *sb, struct err *err)
{
    const struct timespec times[2] = {sb->st_atim, sb->st_mtim};
    if ((w->c->own && fchown(fd, w->c->uid, w->c->gid) < 0) || fchmod(fd, sb->st_mode & 0777) < 0 ||
        futimens(fd, times) < 0)
        return err_sys(err, "set the mode of the copy of %s", w->path);
    return 0;
}

static void note(struct copying *w, const struct stat *host, const struct stat *copy)
{
    struct review_stamp a, b;
    review_stamp(host, &a);
    review_stamp(copy, &b);
    review_base_add(&w->base, w->path, &a, &b);
    w->c->bytes += (uint64_t)copy->st_blocks * 512u;
    w->c->inodes++;
}

static int copy_file(struct copying *w, int from, int to, const char *name, struct err *err)
{
    struct stat host, copy;
    cleanup_fd int in = openat(from, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (in < 0 && errno == EACCES)
        return 0; /* what the caller may not read the code does not get */
    if (in < 0 || fstat(in, &host) < 0)
        return err_sys(err, "read %s", w->path);
    if (!S_ISREG(host.st_mode))
        return err_set(err, ERR_REFUSED, "%s was replaced while it was copied", w->path);
    cleanup_fd int out = openat(to, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (out < 0)
        return err_sys(err, "copy %s", w->path);
    if (copy_bytes(in, out, w->path, err) < 0 || settle(w, out, &host, err) < 0)
        return err_number(err);
    if (fstat(out, &copy) < 0)
        return err_sys(err, "look at the copy of %s", w->path);
    note(w, &host, &copy);
    return 0;
}

static int copy_link(struct copying *w, int from, int to, const char *name, const struct stat *host,
                     struct err *err)
{
    char target[REVIEW_PATH_MAX + 1];
    struct stat copy;
    ssize_t n = readlinkat(from, name, target, sizeof target);
    if (n < 0 || n > REVIEW_PATH_MAX)
        return err_sys(err, "read the link %s", w->path);
    target[n] = '\0';
    if (symlinkat(target, to, name) < 0 ||
        (w->c->own && fchownat(to, name, w->c->uid, w->c->gid, AT_SYMLINK_NOFOLLOW) < 0) ||
        fstatat(to, name, &copy, AT_SYMLINK_NOFOLLOW) < 0)
        return err_sys(err, "copy the link %s", w->path);
    note(w, host, &copy);
    return 0;
}

static int copy_below(struct copying *w, int from, int to, const char *name,
                      const struct stat *host, struct err *err)
{
    struct stat copy;
    cleanup_fd int in = openat(from, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (in < 0)
        return errno == EACCES ? 0 : err_sys(err, "open %s", w->path);
    if (mkdirat(to, name, 0700) < 0)
        return err_sys(err, "copy the folder %s", w->path);
    cleanup_fd int out = openat(to, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (out < 0)
        return err_sys(err, "copy the folder %s", w->path);
    /* What is mounted on a folder of the project is not part of it. */
    if (host->st_dev == w->dev && copy_folder(w, in, out, err) < 0)
        return err_number(err);
    if (settle(w, out, host, err) < 0)
        return err_number(err);
    if (fstat(out, &copy) < 0)
        return err_sys(err, "look at the copy of %s", w->path);
    note(w, host, &copy);
    return 0;
}

static int copy_entry(struct copying *w, int from, int to, const char *name, struct err *err)
{
    struct stat host;
    if (w->c->inodes >= REVIEW_COPY_MAX || w->depth >= REVIEW_DEPTH_MAX) {
        err_set(err, ERR_LIMIT, "the project is too large or too deep to be copied");
        return err_hint(err, "use the container tier, which copies nothing");
    }
    if (fstatat(from, name, &host, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? 0 : err_sys(err, "look at %s", w->path);
    if (S_ISREG(host.st_mode))
        return copy_file(w, from, to, name, err);
    if (S_ISLNK(host.st_mode))
        return copy_link(w, from, to, name, &host, err);
    return S_ISDIR(host.st_mode) ? copy_below(w, from, to, name, &host, err) : 0;
}

static int copy_folder(struct copying *w, int from, int to, struct err *err)
{
    int result = 0;
    size_t len = w->len;
    DIR *list = folder_open(from, ".");
    if (!list)
        return err_sys(err, "list %s", w->path);
    w->depth++;
    struct dirent *e;
    int next = 0;
    while (result >= 0 && (next = folder_next(list, &e)) > 0) {
        size_t more = strlen(e->d_name) + (len > 0);
        if (len + more >= sizeof w->path) {
            result = err_set(err, ERR_LIMIT, "the paths of the project are too long to be copied");
            break;
        }
        if (len)
            w->path[len] = '/';
        memcpy(w->path + len + (len > 0), e->d_name, strlen(e->d_name) + 1);
        w->len = len + more;
        result = copy_entry(w, from, to, e->d_name, err);
        w->len = len;
        w->path[len] = '\0';
    }
    if (result >= 0 && next < 0)
        result = err_sys(err, "list %s", w->path);
    w->depth--;
    closedir(list);
    return result;
}

static int write_base(const struct copying *w, struct err *err)
{
    cleanup_fd int fd = openat(w->c->dir, "base", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    size_t done = 0;
    while (fd >= 0 && done < w->base.len) {
        ssize_t n = write(fd, w->base.data + done, w->base.len - done);
        if (n <= 0)
            return err_sys(err, "write the record of the copy");
        done += (size_t)n;
    }
    if (fd < 0 || w->base.failed)
        return err_sys(err, "keep the record of the copy");
    return 0;
}

int review_copy(struct review_copy *c, struct err *err)
{
    struct stat sb;
    struct copying w = {.c = c};
    if (fstat(c->project, &sb) < 0 || mkdirat(c->dir, "tree", 0700) < 0)
        return err_sys(err, "make the copy of the project");
    cleanup_fd int tree = openat(c->dir, "tree", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (tree < 0)
        return err_sys(err, "make the copy of the project");
    w.dev = sb.st_dev;
    buf_init(&w.base, 256u << 20);
    int r = copy_folder(&w, c->project, tree, err);
    if (r >= 0)
        r = settle(&w, tree, &sb, err);
    if (r >= 0)
        r = write_base(&w, err);
    buf_done(&w.base);
    return r;
}
