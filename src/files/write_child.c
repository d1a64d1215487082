/* Writing one file: complete or not at all.
 *
 * FA-3  The bytes go to a file without a name (or, where the file system cannot do that, with one
 *       that nobody guesses), which gets its name when all of them are there. What stood under that
 *       name is replaced: a link is not followed, other names of the old file keep the old content.
 *       A worker that is killed leaves nothing behind.
 *
 * inotify tells of that only that a name appeared. Programs that watch a folder, inside and
 * outside, wait for a file to be written; so the complete file is touched once more under its name.
 */
#include "base/text.h"
#include "files/worker_child.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h> /* renameat */
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

#ifndef RENAME_EXCHANGE
#define RENAME_EXCHANGE 2
#endif

struct upload {
    int dir, fd;
    const char *leaf;
    bool exists;   /* something has the name already */
    bool replaces; /* and it is a file */
    mode_t mode;
    char temp[FILES_TEMP_LEN]; /* empty: the file has no name yet */
};

/* What is there now decides whether it can be replaced, and with which mode. */
static int look_at_old(struct upload *u)
{
    struct stat sb;
    u->mode = 0644;
    if (!*u->leaf)
        return -EISDIR;
    if (fstatat(u->dir, u->leaf, &sb, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? 0 : -errno;
    u->exists = true;
    u->replaces = S_ISREG(sb.st_mode);
    if (u->replaces)
        u->mode = sb.st_mode & 0777;
    else if (!S_ISLNK(sb.st_mode))
        return S_ISDIR(sb.st_mode) ? -EISDIR : -EINVAL;
    return 0;
}

static void temp_name(const struct upload *u, char ret[FILES_TEMP_LEN])
{
    if (u->replaces)
        files_temp_name_over(ret);
    else
        files_temp_name(ret);
}

/* By descriptor needs a capability before Linux 6.10; by /proc it needs /proc. */
static int give_name(const struct upload *u, const char *name)
{
    char path[FILES_FD_PATH];
    if (linkat(u->fd, "", u->dir, name, AT_EMPTY_PATH) == 0)
        return 0;
    if (errno != ENOENT && errno != EPERM)
        return -errno;
    files_fd_path(u->fd, path);
    return linkat(AT_FDCWD, path, u->dir, name, AT_SYMLINK_FOLLOW) < 0 ? -errno : 0;
}

/* Writable until it is in place: announce() opens it once more. */
static int open_new(struct upload *u)
{
    mode_t mode = u->mode | S_IWUSR;
    u->fd = openat(u->dir, ".", O_TMPFILE | O_WRONLY | O_CLOEXEC, mode);
    /* Could it get a name later? "." is taken, and what cannot be done is said before that. */
    if (u->fd >= 0 && give_name(u, ".") == -EEXIST)
        return 0;
    if (u->fd >= 0)
        close(u->fd);
    temp_name(u, u->temp);
    u->fd = openat(u->dir, u->temp, O_CREAT | O_EXCL | O_NOFOLLOW | O_WRONLY | O_CLOEXEC, mode);
    if (u->fd < 0)
        u->temp[0] = '\0';
    return u->fd < 0 ? -errno : 0;
}

/* Through memory of its own: splice would wait for the file with the pipe locked, and who writes
 * into it with it (K-18). */
static ssize_t copy_some(int in, int fd, uint64_t most)
{
    static char bytes[64 << 10];
    ssize_t n = read(in, bytes, most < sizeof bytes ? (size_t)most : sizeof bytes);
    for (ssize_t done = 0; n > 0 && done < n;) {
        ssize_t more = write(fd, bytes + done, (size_t)(n - done));
        if (more < 0 && errno != EINTR)
            return -1;
        done += more > 0 ? more : 0;
    }
    return n;
}

/* At the limit the next byte is one too many. */
static ssize_t one_more(int in)
{
    char byte;
    ssize_t n = read(in, &byte, 1);
    if (n > 0)
        errno = EFBIG;
    return n > 0 ? -1 : n;
}

static int receive(struct upload *u, int in, uint64_t limit, uint64_t *ret)
{
    uint64_t size = 0;
    for (;;) {
        uint64_t room = limit - size;
        ssize_t n = room == 0 ? one_more(in) : copy_some(in, u->fd, room);
        if (n == 0)
            break;
        if (n > 0)
            size += (uint64_t)n;
        else if (errno == EAGAIN && files_out_wait(in) < 0)
            return -EPIPE;
        else if (errno != EAGAIN && errno != EINTR)
            return -errno;
    }
    *ret = size;
    /* The end of `in` is the end of the file only if the other end of `out` is still open. */
    return files_out_gone() ? -EPIPE : 0;
}

static int set_metadata(int fd, const struct files_request *r)
{
    char name[sizeof FILES_META_PREFIX + FILES_META_NAME_MAX];
    memcpy(name, FILES_META_PREFIX, sizeof FILES_META_PREFIX);
    for (unsigned i = 0; i < r->metadata_count; i++) {
        const char *value = r->metadata[i].value;
        size_t len = strlen(r->metadata[i].name);
        memcpy(name + sizeof FILES_META_PREFIX - 1, r->metadata[i].name, len + 1);
        if (fsetxattr(fd, name, value, strlen(value), 0) < 0)
            return -errno;
    }
    return 0;
}

static int put_in_place(struct upload *u)
{
    if (!u->temp[0] && !u->exists) {
        int done = give_name(u, u->leaf);
        if (done != -EEXIST)
            return done;
    }
    if (!u->temp[0]) {
        char temp[FILES_TEMP_LEN];
        temp_name(u, temp);
        int done = give_name(u, temp);
        if (done < 0)
            return done;
        memcpy(u->temp, temp, sizeof temp);
    }
    if (renameat(u->dir, u->temp, u->dir, u->leaf) < 0)
        return -errno;
    u->temp[0] = '\0';
    return 0;
}

static bool is_same(int a, int b)
{
    struct stat one, other;
    return fstat(a, &one) == 0 && fstat(b, &other) == 0 && one.st_dev == other.st_dev &&
           one.st_ino == other.st_ino;
}

/* CHMOD and MODIFY. The descriptor that was written through has no name, or an older one, as far as
 * inotify is concerned: hence a second one, by the name. To allocate what is allocated counts as a
 * change and changes nothing; a file system that cannot do it tells of no MODIFY. */
static void announce(const struct upload *u, uint64_t size)
{
    int fd = openat(u->dir, u->leaf, O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    bool ours = fd >= 0 && is_same(fd, u->fd);
    fchmod(ours ? fd : u->fd, u->mode);
    if (ours && size > 0)
        fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, 1);
    if (fd >= 0)
        close(fd);
}

static void upload_end(struct upload *u)
{
    if (u->temp[0])
        unlinkat(u->dir, u->temp, 0);
    if (u->fd >= 0)
        close(u->fd);
}

static int upload(struct upload *u, const struct files_request *r, int in)
{
    uint64_t size = 0;
    int done = look_at_old(u);
    if (done == 0)
        done = open_new(u);
    if (done == 0)
        done = receive(u, in, r->limit, &size);
    if (done == 0)
        done = set_metadata(u->fd, r);
    if (done == 0)
        done = put_in_place(u);
    if (done == 0)
        announce(u, size);
    upload_end(u);
    if (done < 0)
        return done;
    done = files_out_head(0, size);
    return done < 0 ? done : files_out_end(0);
}

/* ---- a file that is moved from another file system ---- */

/* What the other file system does not take stays behind, as with mv; not what a client has said. */
static int copy_metadata(int from, int to)
{
    static char names[64 << 10], value[64 << 10];
    ssize_t len = flistxattr(from, names, sizeof names);
    for (ssize_t at = 0; at < len; at += (ssize_t)strlen(names + at) + 1) {
        const char *name = names + at;
        ssize_t size = fgetxattr(from, name, value, sizeof value);
        if (size < 0 || !text_begins(name, "user.") ||
            fsetxattr(to, name, value, (size_t)size, 0) == 0)
            continue;
        if (text_begins(name, FILES_META_PREFIX))
            return -errno;
    }
    return 0;
}

static int copy_stretch(int in, int fd, uint64_t at, uint64_t end)
{
    if (lseek(in, (off_t)at, SEEK_SET) < 0 || lseek(fd, (off_t)at, SEEK_SET) < 0)
        return -errno;
    for (unsigned round = 1; at < end; round++) {
        ssize_t n = copy_some(in, fd, end - at);
        if (n < 0 && errno != EINTR)
            return -errno;
        if (n == 0) /* it got shorter */
            break;
        at += n > 0 ? (uint64_t)n : 0;
        if (round % 64 == 0 && files_out_gone())
            return -EPIPE;
    }
    return 0;
}

/* Holes stay holes: a file of many gigabytes may hold nothing. */
static int copy_content(int in, int fd, uint64_t size)
{
    if (ftruncate(fd, (off_t)size) < 0)
        return -errno;
    for (uint64_t at = 0; at < size;) {
        off_t data = lseek(in, (off_t)at, SEEK_DATA);
        if (data < 0 && errno == ENXIO)
            break;
        off_t hole = data < 0 ? -1 : lseek(in, data, SEEK_HOLE);
        uint64_t end = hole < 0 || (uint64_t)hole > size ? size : (uint64_t)hole;
        int done = copy_stretch(in, fd, hole < 0 ? at : (uint64_t)data, end);
        if (done < 0)
            return done;
        at = end;
    }
    return files_out_gone() ? -EPIPE : 0;
}

/* Puts it in place; what stood there is `kept` under another name until it is certain. Where nobody
 * may make second names the two change places, which who watches sees as two moves. */
static int put_and_keep(struct upload *u, char kept[static FILES_TEMP_LEN])
{
    files_temp_name_over(kept);
    if (linkat(u->dir, u->leaf, u->dir, kept, 0) == 0)
        return put_in_place(u);
    kept[0] = '\0';
    if (u->exists && !u->temp[0]) {
        char temp[FILES_TEMP_LEN];
        temp_name(u, temp);
        if (give_name(u, temp) == 0)
            memcpy(u->temp, temp, sizeof temp);
    }
    if (!u->exists || !u->temp[0] ||
        syscall(SYS_renameat2, u->dir, u->temp, u->dir, u->leaf, RENAME_EXCHANGE) < 0)
        return put_in_place(u);
    memcpy(kept, u->temp, sizeof u->temp);
    u->temp[0] = '\0';
    return 0;
}

/* As it was before, unless somebody has put something else there since. */
static void put_back(const struct upload *u, char kept[static FILES_TEMP_LEN])
{
    int there = openat(u->dir, u->leaf, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    bool ours = there >= 0 && is_same(there, u->fd);
    if (ours && kept[0] && renameat(u->dir, kept, u->dir, u->leaf) == 0)
        kept[0] = '\0';
    else if (ours && !u->exists)
        unlinkat(u->dir, u->leaf, 0);
    if (there >= 0)
        close(there);
}

static int place(struct upload *u, const struct stat *as, int (*leave)(void *ctx), void *ctx)
{
    char kept[FILES_TEMP_LEN];
    int done = put_and_keep(u, kept);
    if (done == 0) {
        announce(u, (uint64_t)as->st_size);
        futimens(u->fd, (struct timespec[]){as->st_atim, as->st_mtim});
        done = leave(ctx);
        if (done < 0)
            put_back(u, kept);
    }
    if (kept[0])
        unlinkat(u->dir, kept, 0);
    return done;
}

int files_copy_child(int dir, const char *leaf, int in, const struct stat *as,
                     int (*leave)(void *ctx), void *ctx)
{
    struct upload u = {.dir = dir, .fd = -1, .leaf = leaf};
    int done = look_at_old(&u);
    u.mode = as->st_mode & 0777;
    if (done == 0)
        done = open_new(&u);
    if (done == 0)
        done = copy_content(in, u.fd, (uint64_t)as->st_size);
    if (done == 0)
        done = copy_metadata(in, u.fd);
    if (done == 0)
        done = place(&u, as, leave, ctx);
    upload_end(&u);
    return done;
}

int files_write_child(const struct files_request *r, const char *path, int in)
{
    struct upload u = {.fd = -1};
    if (in < 0)
        return -EBADF;
    fcntl(in, F_SETFL, O_NONBLOCK);
    u.dir = files_path_parent(path, true, &u.leaf);
    if (u.dir < 0)
        return u.dir;
    int done = upload(&u, r, in);
    close(u.dir);
    return done;
}
