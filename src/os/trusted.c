/* Opens files that brig obeys, after checking that nobody but root and the caller can change or
 * replace them. */
#include "os/trusted.h"

#include "base/cleanup.h"
#include "base/quote.h"
#include "os/procfs.h"
#include "os/reach.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#define OVERFLOW_UID 65534

static bool is_ours(uid_t uid)
{
    return uid == 0 || uid == geteuid();
}

/* In a user namespace each owner that it has no number for is shown as this one; where the number
 * is somebody's, it may be that user: `surely` not. */
static bool is_unmapped(uid_t uid, bool surely)
{
    char map[1024];
    struct err ignored = ERR_INIT;
    bool some = false;
    if (uid != OVERFLOW_UID || procfs_id_map(getpid(), "uid_map", map, sizeof map, &ignored) < 0)
        return false;
    for (char *at = map; *at;) {
        unsigned long first = strtoul(at, &at, 10), outside = strtoul(at, &at, 10);
        unsigned long count = strtoul(at, &at, 10);
        if (!count || (surely && uid >= first && uid - first < count))
            return false;
        some |= first != outside || count < UINT32_MAX;
    }
    return some;
}

/* ---- FS-10 ---- */

static int refuse_owner(const char *what, const char *path, const struct stat *sb, struct err *err)
{
    struct quoted q;
    err_set(err, ERR_REFUSED, "%s %s belongs to another user (uid %u)", what, quote(&q, path),
            (unsigned)sb->st_uid);
    return err_hint(err, "use a file of your own, or of root: copy it, and look at the copy");
}

static int check_file(const char *what, const char *path, enum trusted_kind kind,
                      const struct stat *sb, struct err *err)
{
    struct quoted q;
    unsigned mode = sb->st_mode & 07777;
    if (!S_ISREG(sb->st_mode)) {
        err_set(err, ERR_REFUSED, "%s %s is %s, not a regular file", what, quote(&q, path),
                S_ISFIFO(sb->st_mode)  ? "a FIFO"
                : S_ISDIR(sb->st_mode) ? "a folder"
                                       : "a device or a socket");
        return err_hint(err, "write it into a file");
    }
    if (!is_ours(sb->st_uid) && (kind != TRUSTED_STRICTER || !is_unmapped(sb->st_uid, false)))
        return refuse_owner(what, path, sb, err);
    if (kind == TRUSTED_PRIVATE && (mode & 077)) {
        err_set(err, ERR_REFUSED, "%s %s is open to others (mode %04o)", what, quote(&q, path),
                mode);
        return err_hint(err, "chmod 600 %.200s; it may have been read by others already", path);
    }
    if (mode & 022) {
        err_set(err, ERR_REFUSED, "%s %s can be changed by others (mode %04o)", what,
                quote(&q, path), mode);
        return err_hint(err, "chmod go-w %.200s, if what it says is yours", path);
    }
    return 0;
}

/* ---- FS-11 ---- */

/* With an access list the group's bits are the most that anyone named in it may have. */
static bool has_access_list(int fd)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    ssize_t size = getxattr(path, "system.posix_acl_access", NULL, 0);
    return size >= 0 || (errno != ENODATA && errno != ENOTSUP);
}

/* A group of one's own, as most distributions give to each user, or root's. */
static bool is_private_group(gid_t gid)
{
    return gid == 0 || (gid == getegid() && gid == (gid_t)geteuid());
}

static bool others_write(int fd, const struct stat *sb)
{
    if (sb->st_mode & S_ISVTX)
        return false;
    return (sb->st_mode & S_IWOTH) ||
           ((sb->st_mode & S_IWGRP) && (!is_private_group(sb->st_gid) || has_access_list(fd)));
}

static int check_folder(int fd, const char *what, const char *path, enum trusted_kind kind,
                        struct err *err)
{
    struct quoted q;
    struct stat sb;
    if (fstat(fd, &sb) < 0)
        return err_sys(err, "look at the folder %s", quote(&q, path));
    if (!is_ours(sb.st_uid) && !is_unmapped(sb.st_uid, kind != TRUSTED_STRICTER)) {
        err_set(err, ERR_REFUSED,
                "%s lies in the folder %s, which belongs to another user (uid %u)", what,
                quote(&q, path), (unsigned)sb.st_uid);
        return err_hint(err, "who owns the folder can put another in its place: keep it in one of "
                             "your own");
    }
    if (!others_write(fd, &sb))
        return 0;
    err_set(err, ERR_REFUSED, "%s lies in the folder %s, which others can write (mode %04o)", what,
            quote(&q, path), (unsigned)sb.st_mode & 07777);
    return err_hint(err,
                    "others can put another in its place: chmod go-w %.150s, or keep it "
                    "elsewhere",
                    path);
}

/* From the root to `folder`, which has no links. */
static int check_way(const char *folder, const char *what, enum trusted_kind kind, struct err *err)
{
    struct reach_walk w;
    char name[NAME_MAX + 1];
    int more = reach_begin(&w, folder);
    int r = more < 0 ? 0 : check_folder(w.dir, what, "/", kind, err);
    while (r >= 0 && more >= 0 && (more = reach_name(&w, name)) > 0) {
        int fd = openat(w.dir, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        more = fd < 0 ? -errno : reach_enter(&w, name, fd);
        if (more >= 0)
            r = check_folder(w.dir, what, w.at, kind, err);
    }
    reach_end(&w);
    errno = more < 0 ? -more : 0;
    return r >= 0 && more < 0 ? err_sys(err, "look at the folder %.200s", folder) : r;
}

/* ---- FS-9 ---- */

static int absolute(int dir, const char *path, char out[static PATH_MAX], struct err *err)
{
    char link[64], base[PATH_MAX] = "";
    if (path[0] != '/' && dir == AT_FDCWD && !getcwd(base, sizeof base))
        return err_sys(err, "find the current folder");
    if (path[0] != '/' && dir != AT_FDCWD) {
        snprintf(link, sizeof link, "/proc/self/fd/%d", dir);
        ssize_t n = readlink(link, base, sizeof base - 1);
        if (n <= 0)
            return err_sys(err, "find a folder");
        base[n] = '\0';
    }
    if (snprintf(out, PATH_MAX, "%s/%s", base, path) >= PATH_MAX)
        return err_set(err, ERR_LIMIT, "the path %.60s… is too long", path);
    return 0;
}

static int failed(const char *what, const char *path, int why, struct err *err)
{
    struct quoted q;
    errno = why;
    return err_sys(err, "%s %s", what, quote(&q, path));
}

/* In words that a person can act on; what is at the end of the link is not looked at. */
static int refuse_link(const char *path, const char *asked, const char *what, struct err *err)
{
    struct reached at;
    struct quoted q;
    int r = reach_open(path, &at);
    reach_close(&at);
    if (r == -ELOOP && at.link[0])
        return reach_refused(&at, what, asked, err);
    err_set(err, ERR_REFUSED, "%s %s is a link", what, quote(&q, asked));
    return err_hint(err, "name the file that it leads to");
}

/* The folder of `path`, or `path` itself, whose first `len` bytes it is; checked up to the root. */
static int reach_folder(const char *path, size_t len, const char *asked, const char *what,
                        enum trusted_kind kind, struct err *err)
{
    struct reached at;
    char folder[PATH_MAX];
    snprintf(folder, sizeof folder, "%.*s/", (int)len, path);
    int r = reach_open(folder, &at);
    if (r == -ELOOP && at.link[0])
        return refuse_link(path, asked, what, err);
    if (r < 0)
        return failed(what, asked, -r, err);
    if (check_way(at.path, what, kind, err) < 0) {
        reach_close(&at);
        return err_number(err);
    }
    return at.fd;
}

int trusted_open(int dir, const char *path, const char *what, enum trusted_kind kind,
                 struct err *err)
{
    char full[PATH_MAX];
    struct stat sb;
    if (absolute(dir, path, full, err) < 0)
        return err_number(err);
    const char *slash = strrchr(full, '/');
    cleanup_fd int folder = reach_folder(full, (size_t)(slash - full), path, what, kind, err);
    if (folder < 0)
        return folder;
    /* O_NONBLOCK: opening a FIFO must not wait for a writer, only to be refused then. */
    cleanup_fd int fd = openat(folder, slash[1] ? slash + 1 : ".",
                               O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0 && errno == ELOOP)
        return refuse_link(full, path, what, err);
    if (fd < 0 || fstat(fd, &sb) < 0)
        return failed(what, path, errno, err);
    return check_file(what, path, kind, &sb, err) < 0 ? err_number(err) : fd_steal(&fd);
}

int trusted_folder(int dir, const char *path, const char *what, struct err *err)
{
    char full[PATH_MAX];
    if (absolute(dir, path, full, err) < 0)
        return err_number(err);
    cleanup_fd int folder = reach_folder(full, strlen(full), path, what, TRUSTED_FILE, err);
    if (folder < 0)
        return folder;
    int fd = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 ? failed(what, path, errno, err) : fd;
}
