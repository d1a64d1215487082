/* Requests of the guest's kernel for files (the FUSE protocol, over a virtqueue). A request is
 * copied, then checked; names, numbers, sizes and owners in it are claims. */
#include "base/cleanup.h"
#include "engines/vm/fs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/fuse.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#define DEVICE_FS     26u
#define REQUEST_MAX   16384u
#define ANSWER_MAX    65536u
#define DATA_MAX      (1u << 20) /* of one read or write */
#define VALID_SECONDS 1          /* how long the guest may believe a name or an attribute */
#define MODE_KEPT     01777u     /* VM-12: no set-id bits */

/* One request, taken apart. */
struct request {
    struct fs *fs;
    const struct chain *chain;
    struct fuse_in_header head;
    struct fs_node *node;
    const uint8_t *arg; /* what comes after the header */
    size_t len;
    uint8_t *out; /* room for the answer */
    size_t room;
};
/* The length of the answer in `out`, or a negative errno. */
typedef int handler(struct request *r);

static int put(struct request *r, const void *answer, size_t len)
{
    if (len > r->room)
        return -EINVAL;
    memcpy(r->out, answer, len);
    return (int)len;
}

/* The structure at the front of the arguments; false if it is not there. */
static bool get(const struct request *r, void *to, size_t len)
{
    if (r->len < len)
        return false;
    memcpy(to, r->arg, len);
    return true;
}

/* VM-8: one name, at an offset of the arguments. NULL: there is none. */
static const char *name_at(const struct request *r, size_t at, size_t *end)
{
    const uint8_t *stop = at < r->len ? memchr(r->arg + at, 0, r->len - at) : NULL;
    const char *name = (const char *)r->arg + at;
    if (!stop || stop == r->arg + at || strchr(name, '/') || strcmp(name, ".") == 0 ||
        strcmp(name, "..") == 0)
        return NULL;
    if (end)
        *end = (size_t)(stop - r->arg) + 1;
    return (size_t)(stop - r->arg) - at > NAME_MAX ? NULL : name;
}

static void fill_attr(struct fuse_attr *a, const struct stat *sb)
{
    /* One file system there, several here: the number says which. */
    uint64_t ino = (uint64_t)sb->st_ino ^ (uint64_t)sb->st_dev << 40;
    *a = (struct fuse_attr){.ino = ino,
                            .size = (uint64_t)sb->st_size,
                            .blocks = (uint64_t)sb->st_blocks,
                            .atime = (uint64_t)sb->st_atim.tv_sec,
                            .mtime = (uint64_t)sb->st_mtim.tv_sec,
                            .ctime = (uint64_t)sb->st_ctim.tv_sec,
                            .atimensec = (uint32_t)sb->st_atim.tv_nsec,
                            .mtimensec = (uint32_t)sb->st_mtim.tv_nsec,
                            .ctimensec = (uint32_t)sb->st_ctim.tv_nsec,
                            .mode = sb->st_mode,
                            .nlink = (uint32_t)sb->st_nlink,
                            .uid = sb->st_uid,
                            .gid = sb->st_gid,
                            .blksize = (uint32_t)sb->st_blksize};
}

/* VM-16 */
bool fs_served(int fd)
{
    static const unsigned long closed[] = {
        0x9fa0,     /* proc */
        0x62656572, /* sysfs */
        0x64626720, /* debugfs */
        0x73636673, /* securityfs */
        0x1cd1,     /* devpts */
        0x27e0eb,   /* cgroup */
        0x63677270, /* cgroup2 */
    };
    struct statfs sf;
    if (fstatfs(fd, &sf) < 0)
        return false;
    for (size_t i = 0; i < ARRAY_LEN(closed); i++)
        if ((unsigned long)sf.f_type == closed[i])
            return false;
    return true;
}

void fs_share(struct fs *fs, bool shared)
{
    fs->shared = shared;
}

/* May the guest go by what it knows of such a file? Not where others write beside it. */
static bool believed(const struct request *r, int fd)
{
    struct statfs sf;
    return !r->fs->shared || (fstatfs(fd, &sf) == 0 && (sf.f_flags & ST_RDONLY));
}

static uint64_t seconds_valid(const struct request *r, int fd)
{
    return believed(r, fd) ? VALID_SECONDS : 0;
}

/* The file of that name in the folder, as a node that the guest now knows once more. */
static int enter(struct request *r, const struct fs_node *folder, const char *name,
                 struct fuse_entry_out *e)
{
    struct stat sb = {0};
    memset(e, 0, sizeof *e);
    int fd = openat(folder->fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    e->entry_valid = e->attr_valid = seconds_valid(r, fd);
    bool closed = fstat(fd, &sb) < 0 || (sb.st_dev != folder->dev && !fs_served(fd));
    if (closed && !S_ISDIR(sb.st_mode)) {
        close(fd);
        return -EACCES;
    }
    int64_t id = fs_remember(r->fs, fd, closed);
    if (id < 0)
        return (int)id;
    fill_attr(&e->attr, &sb);
    e->nodeid = (uint64_t)id;
    return 0;
}

static int answer_entry(struct request *r, const char *name)
{
    struct fuse_entry_out e;
    if (r->room < sizeof e)
        return -EINVAL;
    int result = enter(r, r->node, name, &e);
    return result < 0 ? result : put(r, &e, sizeof e);
}

static int do_lookup(struct request *r)
{
    const char *name = name_at(r, 0, NULL);
    if (!name)
        return -EINVAL;
    int result = answer_entry(r, name);
    if (result != -ENOENT)
        return result;
    /* The guest may remember that there is nothing. */
    struct fuse_entry_out none = {.entry_valid = seconds_valid(r, r->node->fd)};
    return put(r, &none, sizeof none);
}

static int answer_attr(struct request *r, int fd)
{
    struct stat sb;
    struct fuse_attr_out a = {.attr_valid = seconds_valid(r, fd)};
    if (fstat(fd, &sb) < 0)
        return -errno;
    fill_attr(&a.attr, &sb);
    return put(r, &a, sizeof a);
}

static int do_getattr(struct request *r)
{
    return answer_attr(r, r->node->fd);
}

static int set_mode(struct request *r, uint32_t mode)
{
    char name[16];
    struct stat sb;
    if (fstat(r->node->fd, &sb) < 0)
        return -errno;
    if (S_ISLNK(sb.st_mode))
        return -EOPNOTSUPP;
    snprintf(name, sizeof name, "%d", r->node->fd);
    return fchmodat(r->fs->self_fd, name, mode & MODE_KEPT, 0) < 0 ? -errno : 0;
}

static int set_size(struct request *r, const struct fuse_setattr_in *in)
{
    struct fs_handle *handle = in->valid & FATTR_FH ? fs_handle(r->fs, in->fh, false) : NULL;
    if (in->size > INT64_MAX)
        return -EFBIG;
    if (handle)
        return ftruncate(handle->fd, (off_t)in->size) < 0 ? -errno : 0;
    cleanup_fd int fd = fs_open_node(r->fs, r->node, O_WRONLY);
    if (fd < 0)
        return fd;
    return ftruncate(fd, (off_t)in->size) < 0 ? -errno : 0;
}

static struct timespec stamp(uint32_t valid, uint32_t set, uint32_t now, uint64_t sec,
                             uint32_t nsec)
{
    if (!(valid & set))
        return (struct timespec){.tv_nsec = UTIME_OMIT};
    if ((valid & now) || nsec > 999999999)
        return (struct timespec){.tv_nsec = UTIME_NOW};
    return (struct timespec){.tv_sec = (time_t)sec, .tv_nsec = nsec};
}

static int set_times(struct request *r, const struct fuse_setattr_in *in)
{
    char name[16];
    struct stat sb;
    struct timespec times[2] = {
        stamp(in->valid, FATTR_ATIME, FATTR_ATIME_NOW, in->atime, in->atimensec),
        stamp(in->valid, FATTR_MTIME, FATTR_MTIME_NOW, in->mtime, in->mtimensec)};
    if (fstat(r->node->fd, &sb) < 0)
        return -errno;
    if (S_ISLNK(sb.st_mode))
        return -EOPNOTSUPP;
    snprintf(name, sizeof name, "%d", r->node->fd);
    return utimensat(r->fs->self_fd, name, times, 0) < 0 ? -errno : 0;
}

static int do_setattr(struct request *r)
{
    struct fuse_setattr_in in;
    struct stat sb;
    int result = 0;
    if (!get(r, &in, sizeof in))
        return -EINVAL;
    if (in.valid & (FATTR_UID | FATTR_GID)) {
        /* VM-12: there is one owner; to give it what it has is nothing to do. */
        if (fstat(r->node->fd, &sb) < 0)
            return -errno;
        if (((in.valid & FATTR_UID) && in.uid != sb.st_uid) ||
            ((in.valid & FATTR_GID) && in.gid != sb.st_gid))
            return -EPERM;
    }
    if (in.valid & FATTR_MODE)
        result = set_mode(r, in.mode);
    if (result >= 0 && (in.valid & FATTR_SIZE))
        result = set_size(r, &in);
    if (result >= 0 && (in.valid & (FATTR_ATIME | FATTR_MTIME)))
        result = set_times(r, &in);
    return result < 0 ? result : answer_attr(r, r->node->fd);
}

static int do_readlink(struct request *r)
{
    size_t most = r->room < 4096 ? r->room : 4096;
    ssize_t n = readlinkat(r->node->fd, "", (char *)r->out, most);
    return n < 0 ? -errno : (int)n;
}

static int do_symlink(struct request *r)
{
    size_t end = 0;
    const char *name = name_at(r, 0, &end);
    if (!name || end >= r->len || !memchr(r->arg + end, 0, r->len - end))
        return -EINVAL;
    const char *target = (const char *)r->arg + end;
    if (!target[0])
        return -ENOENT;
    return symlinkat(target, r->node->fd, name) < 0 ? -errno : answer_entry(r, name);
}

/* VM-9, VM-12 */
static int do_mknod(struct request *r)
{
    struct fuse_mknod_in in;
    const char *name = get(r, &in, sizeof in) ? name_at(r, sizeof in, NULL) : NULL;
    if (!name)
        return -EINVAL;
    if (!S_ISREG(in.mode))
        return -EPERM;
    cleanup_fd int fd =
        openat(r->node->fd, name, O_CREAT | O_EXCL | O_WRONLY | O_NOFOLLOW | O_CLOEXEC,
               in.mode & MODE_KEPT);
    return fd < 0 ? -errno : answer_entry(r, name);
}

static int do_mkdir(struct request *r)
{
    struct fuse_mkdir_in in;
    const char *name = get(r, &in, sizeof in) ? name_at(r, sizeof in, NULL) : NULL;
    if (!name)
        return -EINVAL;
    return mkdirat(r->node->fd, name, in.mode & MODE_KEPT) < 0 ? -errno : answer_entry(r, name);
}

static int remove_name(struct request *r, int flags)
{
    const char *name = name_at(r, 0, NULL);
    if (!name)
        return -EINVAL;
    return unlinkat(r->node->fd, name, flags) < 0 ? -errno : 0;
}

static int do_unlink(struct request *r)
{
    return remove_name(r, 0);
}

static int do_rmdir(struct request *r)
{
    return remove_name(r, AT_REMOVEDIR);
}

static int rename_to(struct request *r, uint64_t to, size_t at, uint32_t flags)
{
    size_t end = 0;
    const char *from_name = name_at(r, at, &end);
    const char *to_name = from_name ? name_at(r, end, NULL) : NULL;
    struct fs_node *folder = fs_node_open(r->fs, to);
    if (!to_name || (flags & ~3u)) /* RENAME_NOREPLACE, RENAME_EXCHANGE */
        return -EINVAL;
    if (!folder)
        return -ESTALE;
    long result = flags ? syscall(SYS_renameat2, r->node->fd, from_name, folder->fd, to_name, flags)
                        : renameat(r->node->fd, from_name, folder->fd, to_name);
    return result < 0 ? -errno : 0;
}

static int do_rename(struct request *r)
{
    struct fuse_rename_in in;
    return get(r, &in, sizeof in) ? rename_to(r, in.newdir, sizeof in, 0) : -EINVAL;
}

static int do_rename2(struct request *r)
{
    struct fuse_rename2_in in;
    return get(r, &in, sizeof in) ? rename_to(r, in.newdir, sizeof in, in.flags) : -EINVAL;
}

static int do_link(struct request *r)
{
    struct fuse_link_in in;
    char old[16];
    const char *name = get(r, &in, sizeof in) ? name_at(r, sizeof in, NULL) : NULL;
    if (!name)
        return -EINVAL;
    struct fs_node *file = fs_node_open(r->fs, in.oldnodeid);
    if (!file)
        return -ESTALE;
    snprintf(old, sizeof old, "%d", file->fd);
    if (linkat(r->fs->self_fd, old, r->node->fd, name, AT_SYMLINK_FOLLOW) < 0)
        return -errno;
    return answer_entry(r, name);
}

/* Of what the guest asks for, what has a meaning here. */
static int open_flags(uint32_t asked)
{
    return (int)(asked & (O_ACCMODE | O_TRUNC));
}

static int answer_open(struct request *r, int fd, bool folder, uint64_t node)
{
    int64_t id = fs_handle_new(r->fs, fd, folder, node);
    if (id < 0)
        return (int)id;
    struct fuse_open_out o = {.fh = (uint64_t)id,
                              .open_flags = believed(r, fd) ? FOPEN_KEEP_CACHE : 0};
    return put(r, &o, sizeof o);
}

static int do_open(struct request *r)
{
    struct fuse_open_in in;
    struct stat sb;
    if (!get(r, &in, sizeof in) || r->room < sizeof(struct fuse_open_out))
        return -EINVAL;
    if (fstat(r->node->fd, &sb) < 0)
        return -errno;
    if (!S_ISREG(sb.st_mode))
        return S_ISDIR(sb.st_mode) ? -EISDIR : -EACCES;
    int fd = fs_open_node(r->fs, r->node, open_flags(in.flags));
    return fd < 0 ? fd : answer_open(r, fd, false, r->head.nodeid);
}

static int do_opendir(struct request *r)
{
    if (r->room < sizeof(struct fuse_open_out))
        return -EINVAL;
    int fd = fs_open_node(r->fs, r->node, O_RDONLY | O_DIRECTORY);
    return fd < 0 ? fd : answer_open(r, fd, true, r->head.nodeid);
}

static int do_create(struct request *r)
{
    struct fuse_create_in in;
    struct fuse_entry_out e;
    struct fuse_open_out o = {.open_flags = r->fs->shared ? 0 : FOPEN_KEEP_CACHE};
    const char *name = get(r, &in, sizeof in) ? name_at(r, sizeof in, NULL) : NULL;
    if (!name || r->room < sizeof e + sizeof o)
        return -EINVAL;
    /* VM-9: what is there already is not opened here, whatever it is; the guest then opens it. */
    int fd =
        openat(r->node->fd, name, open_flags(in.flags) | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
               in.mode & MODE_KEPT);
    if (fd < 0 && errno == EEXIST && !(in.flags & O_EXCL))
        fd = -1;
    else if (fd < 0)
        return -errno;
    int result = enter(r, r->node, name, &e);
    if (result >= 0 && fd < 0) {
        struct fs_node *node = fs_node(r->fs, e.nodeid);
        struct stat sb;
        if (fstat(node->fd, &sb) < 0 || !S_ISREG(sb.st_mode))
            result = -EACCES;
        else if ((fd = fs_open_node(r->fs, node, open_flags(in.flags))) < 0)
            result = fd;
        if (result < 0)
            fs_forget(r->fs, e.nodeid, 1);
    }
    if (result < 0) {
        if (fd >= 0)
            close(fd);
        return result;
    }
    int64_t id = fs_handle_new(r->fs, fd, false, e.nodeid);
    if (id < 0) {
        fs_forget(r->fs, e.nodeid, 1);
        return (int)id;
    }
    o.fh = (uint64_t)id;
    memcpy(r->out, &e, sizeof e);
    memcpy(r->out + sizeof e, &o, sizeof o);
    return (int)(sizeof e + sizeof o);
}

static int do_release(struct request *r)
{
    struct fuse_release_in in;
    if (!get(r, &in, sizeof in))
        return -EINVAL;
    fs_handle_drop(r->fs, in.fh, false);
    return 0;
}

static int do_releasedir(struct request *r)
{
    struct fuse_release_in in;
    if (!get(r, &in, sizeof in))
        return -EINVAL;
    fs_handle_drop(r->fs, in.fh, true);
    return 0;
}

static int do_statfs(struct request *r)
{
    struct statvfs v;
    if (fstatvfs(r->node->fd, &v) < 0)
        return -errno;
    struct fuse_statfs_out o = {.st = {.blocks = v.f_blocks,
                                       .bfree = v.f_bfree,
                                       .bavail = v.f_bavail,
                                       .files = v.f_files,
                                       .ffree = v.f_ffree,
                                       .bsize = (uint32_t)v.f_bsize,
                                       .namelen = (uint32_t)v.f_namemax,
                                       .frsize = (uint32_t)v.f_frsize}};
    return put(r, &o, sizeof o);
}

static int do_fsync(struct request *r)
{
    struct fuse_fsync_in in;
    struct fs_handle *handle = get(r, &in, sizeof in) ? fs_handle(r->fs, in.fh, false) : NULL;
    if (!handle)
        return -EBADF;
    return fsync(handle->fd) < 0 ? -errno : 0;
}

static int do_fallocate(struct request *r)
{
    struct fuse_fallocate_in in;
    struct fs_handle *handle = get(r, &in, sizeof in) ? fs_handle(r->fs, in.fh, false) : NULL;
    if (!handle)
        return -EBADF;
    if (in.offset > INT64_MAX || in.length > INT64_MAX - in.offset)
        return -EFBIG;
    return fallocate(handle->fd, (int)in.mode, (off_t)in.offset, (off_t)in.length) < 0 ? -errno : 0;
}

static int do_lseek(struct request *r)
{
    struct fuse_lseek_in in;
    struct fs_handle *handle = get(r, &in, sizeof in) ? fs_handle(r->fs, in.fh, false) : NULL;
    if (!handle)
        return -EBADF;
    if (in.whence != SEEK_DATA && in.whence != SEEK_HOLE)
        return -EINVAL;
    off_t at = lseek(handle->fd, (off_t)in.offset, (int)in.whence);
    struct fuse_lseek_out o = {.offset = (uint64_t)at};
    return at < 0 ? -errno : put(r, &o, sizeof o);
}

/* As the kernel lays entries out. */
struct entry {
    uint64_t ino;
    int64_t next;
    uint16_t len;
    uint8_t type;
    char name[];
};

static int do_readdir(struct request *r)
{
    struct fuse_read_in in;
    struct fs_handle *handle = get(r, &in, sizeof in) ? fs_handle(r->fs, in.fh, true) : NULL;
    if (!handle)
        return -EBADF;
    size_t room = in.size < r->room ? in.size : r->room, used = 0;
    _Alignas(8) uint8_t read[8192];
    if (lseek(handle->fd, (off_t)in.offset, SEEK_SET) < 0)
        return -errno;
    for (;;) {
        long n = syscall(SYS_getdents64, handle->fd, read, sizeof read);
        if (n < 0)
            return -errno;
        if (n == 0)
            return (int)used;
        for (long at = 0; at < n;) {
            const struct entry *e = (const void *)(read + at);
            size_t len = strlen(e->name), need = FUSE_DIRENT_ALIGN(FUSE_NAME_OFFSET + len);
            at += e->len;
            if (need > room - used)
                return (int)used;
            struct fuse_dirent d = {
                .ino = e->ino, .off = (uint64_t)e->next, .namelen = (uint32_t)len, .type = e->type};
            memset(r->out + used, 0, need);
            memcpy(r->out + used, &d, FUSE_NAME_OFFSET);
            memcpy(r->out + used + FUSE_NAME_OFFSET, e->name, len);
            used += need;
        }
    }
}

static int do_init(struct request *r)
{
    struct fuse_init_in in = {0};
    uint32_t want = FUSE_ASYNC_READ | FUSE_PARALLEL_DIROPS | FUSE_MAX_PAGES | FUSE_CACHE_SYMLINKS |
                    FUSE_AUTO_INVAL_DATA | FUSE_BIG_WRITES;
    if (r->len < 16)
        return -EINVAL;
    memcpy(&in, r->arg, r->len < sizeof in ? r->len : sizeof in);
    if (in.major != 7)
        return -EPROTO;
    struct fuse_init_out o = {.major = 7,
                              .minor = 36,
                              .max_readahead = DATA_MAX,
                              .flags = in.flags & want,
                              .max_background = 16,
                              .congestion_threshold = 12,
                              .max_write = DATA_MAX,
                              .time_gran = 1,
                              .max_pages = 256};
    return put(r, &o, sizeof o);
}

static int do_nothing(struct request *r)
{
    (void)r;
    return 0;
}

static handler *const handlers[] = {
    [FUSE_LOOKUP] = do_lookup,       [FUSE_GETATTR] = do_getattr, [FUSE_SETATTR] = do_setattr,
    [FUSE_READLINK] = do_readlink,   [FUSE_SYMLINK] = do_symlink, [FUSE_MKNOD] = do_mknod,
    [FUSE_MKDIR] = do_mkdir,         [FUSE_UNLINK] = do_unlink,   [FUSE_RMDIR] = do_rmdir,
    [FUSE_RENAME] = do_rename,       [FUSE_RENAME2] = do_rename2, [FUSE_LINK] = do_link,
    [FUSE_OPEN] = do_open,           [FUSE_CREATE] = do_create,   [FUSE_RELEASE] = do_release,
    [FUSE_OPENDIR] = do_opendir,     [FUSE_READDIR] = do_readdir, [FUSE_RELEASEDIR] = do_releasedir,
    [FUSE_STATFS] = do_statfs,       [FUSE_FSYNC] = do_fsync,     [FUSE_FSYNCDIR] = do_nothing,
    [FUSE_FALLOCATE] = do_fallocate, [FUSE_LSEEK] = do_lseek,     [FUSE_INIT] = do_init,
    [FUSE_DESTROY] = do_nothing,
};

/* Data passes between the file and the guest's pages: nothing of it is looked at. */
static int do_read(struct request *r)
{
    struct fuse_read_in in;
    struct iovec parts[QUEUE_PARTS_MAX];
    struct fs_handle *handle = get(r, &in, sizeof in) ? fs_handle(r->fs, in.fh, false) : NULL;
    if (!handle)
        return -EBADF;
    if (in.offset > INT64_MAX)
        return -EINVAL;
    size_t len = in.size < DATA_MAX ? in.size : DATA_MAX;
    unsigned count = chain_room(r->chain, sizeof(struct fuse_out_header), len, parts);
    if (count == 0)
        return 0;
    ssize_t n = preadv(handle->fd, parts, (int)count, (off_t)in.offset);
    return n < 0 ? -errno : (int)n;
}

static int do_write(struct request *r)
{
    struct fuse_write_in in;
    struct iovec parts[QUEUE_PARTS_MAX];
    struct fs_handle *handle = get(r, &in, sizeof in) ? fs_handle(r->fs, in.fh, false) : NULL;
    if (!handle)
        return -EBADF;
    size_t at = sizeof(struct fuse_in_header) + sizeof in;
    if (in.size > DATA_MAX || in.size > r->chain->in_len - at || in.offset > INT64_MAX)
        return -EINVAL;
    unsigned count = chain_data(r->chain, at, in.size, parts);
    ssize_t n = count == 0 ? 0 : pwritev(handle->fd, parts, (int)count, (off_t)in.offset);
    struct fuse_write_out o = {.size = (uint32_t)n};
    return n < 0 ? -errno : put(r, &o, sizeof o);
}

static void forget_many(struct request *r)
{
    struct fuse_batch_forget_in b;
    struct fuse_forget_one one;
    if (!get(r, &b, sizeof b))
        return;
    for (uint32_t i = 0; i < b.count && (r->len - sizeof b) / sizeof one > i; i++) {
        memcpy(&one, r->arg + sizeof b + i * sizeof one, sizeof one);
        fs_forget(r->fs, one.nodeid, one.nlookup);
    }
}

/* True: the request has no answer. */
static bool forget(struct request *r)
{
    struct fuse_forget_in in;
    if (r->head.opcode == FUSE_FORGET && get(r, &in, sizeof in))
        fs_forget(r->fs, r->head.nodeid, in.nlookup);
    else if (r->head.opcode == FUSE_BATCH_FORGET)
        forget_many(r);
    return r->head.opcode == FUSE_FORGET || r->head.opcode == FUSE_BATCH_FORGET ||
           r->head.opcode == FUSE_INTERRUPT;
}

static int perform(struct request *r)
{
    uint32_t op = r->head.opcode;
    bool file = op != FUSE_INIT && op != FUSE_DESTROY;
    r->node = fs_node(r->fs, r->head.nodeid);
    if (file && !r->node)
        return -ESTALE;
    if (file && r->node->closed && op != FUSE_GETATTR && op != FUSE_STATFS)
        return -EACCES;
    if (op == FUSE_READ)
        return do_read(r);
    if (op == FUSE_WRITE)
        return do_write(r);
    if (op >= ARRAY_LEN(handlers) || !handlers[op])
        return -ENOSYS; /* asked once, as a rule, and never again */
    return handlers[op](r);
}

/* The length of what was written into the chain. */
static uint32_t serve(struct fs *fs, const struct chain *c)
{
    struct request r = {.fs = fs, .chain = c, .out = fs->out};
    size_t len = chain_read(c, 0, fs->in, REQUEST_MAX);
    if (len < sizeof r.head)
        return 0;
    memcpy(&r.head, fs->in, sizeof r.head);
    if (r.head.len != c->in_len || (c->in_len > REQUEST_MAX && r.head.opcode != FUSE_WRITE))
        return 0;
    r.arg = fs->in + sizeof r.head;
    r.len = len - sizeof r.head;
    fs->requests++;
    struct fuse_out_header o = {.unique = r.head.unique};
    if (forget(&r) || c->out_len < sizeof o)
        return 0;
    r.room = c->out_len - sizeof o < ANSWER_MAX ? c->out_len - sizeof o : ANSWER_MAX;
    int result = perform(&r);
    uint32_t written = result > 0 ? (uint32_t)result : 0;
    if (written > 0 && r.head.opcode != FUSE_READ)
        chain_write(c, sizeof o, fs->out, written);
    o.error = result < 0 ? result : 0;
    o.len = (uint32_t)sizeof o + written;
    chain_write(c, 0, &o, sizeof o);
    return o.len;
}

static void notify(struct device *d, unsigned queue)
{
    struct fs *fs = (struct fs *)(void *)d; /* its first member */
    struct chain c;
    for (unsigned i = 0; i < QUEUE_SIZE_MAX && device_take(d, queue, &c); i++)
        queue_give(&d->queues[queue], c.head, serve(fs, &c));
    device_tell(d, queue);
}

void fs_device_init(struct fs *fs, const struct guest_memory *memory);
void fs_device_init(struct fs *fs, const struct guest_memory *memory)
{
    fs->device.id = DEVICE_FS;
    fs->device.queue_count = 2; /* one for what must not wait, one for all else */
    memcpy(fs->device.config, "view", 4);
    fs->device.config[36] = 1;
    fs->device.notify = notify;
    device_init(&fs->device, memory);
}
