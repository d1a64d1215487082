/* Calls on a descriptor: reading, writing, places, sizes, times, the entries of a folder. */
#include "engines/wasm/wasi.h"

#include "engines/wasm/stat.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

/* As the host's own limit (IOV_MAX). */
#define PIECES_MAX 1024
#define ENTRY      24 /* of a folder, before its name */

/* The pieces of the module's memory that one call names. */
static uint32_t gather(struct wasi *w, uint64_t at, uint64_t count,
                       struct iovec pieces[static PIECES_MAX])
{
    if (count > PIECES_MAX)
        return WE_INVAL;
    for (uint64_t i = 0; i < count; i++) {
        uint32_t place, len;
        if (!wasi_get32(w, at + 8 * i, &place) || !wasi_get32(w, at + 8 * i + 4, &len))
            return WE_FAULT;
        if (!(pieces[i].iov_base = wasi_span(w, place, len)))
            return WE_FAULT;
        pieces[i].iov_len = len;
    }
    return WE_SUCCESS;
}

typedef ssize_t move_fn(int fd, const struct iovec *pieces, int count, off_t at);

static ssize_t move_read(int fd, const struct iovec *pieces, int count, off_t at)
{
    (void)at;
    return readv(fd, pieces, count);
}

static ssize_t move_write(int fd, const struct iovec *pieces, int count, off_t at)
{
    (void)at;
    return writev(fd, pieces, count);
}

/* a: descriptor, pieces, how many of them, …; the count of bytes goes to `ret`. */
static uint32_t move(struct wasi *w, const uint64_t *a, uint64_t rights, move_fn *fn, uint64_t at,
                     uint64_t ret)
{
    struct iovec pieces[PIECES_MAX];
    struct wasi_fd *f;
    uint32_t r = wasi_look(w, a[0], rights, &f);
    if (r == WE_SUCCESS)
        r = gather(w, a[1], a[2], pieces);
    if (r != WE_SUCCESS)
        return r;
    if (!wasi_span(w, ret, 4))
        return WE_FAULT;
    if (at > INT64_MAX)
        return WE_INVAL;
    ssize_t n = fn(f->fd, pieces, (int)a[2], (off_t)at);
    return n < 0 ? wasi_error(errno) : wasi_put32(w, ret, (uint32_t)n);
}

uint32_t wasi_fd_read(struct wasi *w, const uint64_t *a)
{
    return move(w, a, WR(WR_READ), move_read, 0, a[3]);
}

uint32_t wasi_fd_write(struct wasi *w, const uint64_t *a)
{
    return move(w, a, WR(WR_WRITE), move_write, 0, a[3]);
}

uint32_t wasi_fd_pread(struct wasi *w, const uint64_t *a)
{
    return move(w, a, WR(WR_READ) | WR(WR_SEEK), preadv, a[3], a[4]);
}

uint32_t wasi_fd_pwrite(struct wasi *w, const uint64_t *a)
{
    return move(w, a, WR(WR_WRITE) | WR(WR_SEEK), pwritev, a[3], a[4]);
}

uint32_t wasi_fd_seek(struct wasi *w, const uint64_t *a)
{
    static const int whences[] = {SEEK_SET, SEEK_CUR, SEEK_END},
                     older[] = {SEEK_CUR, SEEK_END, SEEK_SET};
    struct wasi_fd *f;
    uint32_t r = wasi_look(w, a[0], WR(WR_SEEK), &f);
    if (r != WE_SUCCESS)
        return r;
    if (a[2] > 2)
        return WE_INVAL;
    off_t at = lseek(f->fd, (off_t)a[1], (w->older ? older : whences)[a[2]]);
    return at < 0 ? wasi_error(errno) : wasi_put64(w, a[3], (uint64_t)at);
}

uint32_t wasi_fd_tell(struct wasi *w, const uint64_t *a)
{
    struct wasi_fd *f;
    uint32_t r = wasi_look(w, a[0], WR(WR_TELL), &f);
    if (r != WE_SUCCESS)
        return r;
    off_t at = lseek(f->fd, 0, SEEK_CUR);
    return at < 0 ? wasi_error(errno) : wasi_put64(w, a[1], (uint64_t)at);
}

static uint32_t done(int result)
{
    return result < 0 ? wasi_error(errno) : WE_SUCCESS;
}

uint32_t wasi_fd_sync(struct wasi *w, const uint64_t *a)
{
    struct wasi_fd *f;
    uint32_t r = wasi_look(w, a[0], WR(WR_SYNC), &f);
    return r ? r : done(fsync(f->fd));
}

uint32_t wasi_fd_datasync(struct wasi *w, const uint64_t *a)
{
    struct wasi_fd *f;
    uint32_t r = wasi_look(w, a[0], WR(WR_DATASYNC), &f);
    return r ? r : done(fdatasync(f->fd));
}

/* Advice need not be taken. */
uint32_t wasi_fd_advise(struct wasi *w, const uint64_t *a)
{
    struct wasi_fd *f;
    uint32_t r = wasi_look(w, a[0], WR(WR_ADVISE), &f);
    return r ? r : a[3] > 5 ? WE_INVAL : WE_SUCCESS;
}

uint32_t wasi_fd_allocate(struct wasi *w, const uint64_t *a)
{
    struct wasi_fd *f;
    uint32_t r = wasi_look(w, a[0], WR(WR_ALLOCATE), &f);
    if (r != WE_SUCCESS)
        return r;
    if (a[1] > INT64_MAX || a[2] > INT64_MAX)
        return WE_INVAL;
    return done(fallocate(f->fd, 0, (off_t)a[1], (off_t)a[2]));
}

uint32_t wasi_fd_fdstat_set_flags(struct wasi *w, const uint64_t *a)
{
    struct wasi_fd *f;
    uint32_t r = wasi_look(w, a[0], WR(WR_SET_FLAGS), &f);
    if (r != WE_SUCCESS)
        return r;
    /* The runner shares its standard descriptors with whoever started it. */
    if ((a[1] & ~5u) || f->fd < 3)
        return WE_NOTSUP;
    int flags = fcntl(f->fd, F_GETFL);
    flags = (flags & ~(O_APPEND | O_NONBLOCK)) | (a[1] & 1 ? O_APPEND : 0) |
            (a[1] & 4 ? O_NONBLOCK : 0);
    return done(fcntl(f->fd, F_SETFL, flags));
}

static uint64_t nanoseconds(const struct timespec *t)
{
    return (uint64_t)t->tv_sec * 1000000000u + (uint64_t)t->tv_nsec;
}

uint32_t wasi_put_stat(struct wasi *w, uint64_t at, const struct stat *sb)
{
    uint64_t kind = wasi_type_of(sb->st_mode), links = sb->st_nlink;
    uint64_t out[8] = {sb->st_dev, sb->st_ino};
    size_t n = 2;
    if (w->older) /* one byte, and four from the fourth on */
        out[n++] = kind | (links > UINT32_MAX ? UINT32_MAX : links) << 32;
    else {
        out[n++] = kind;
        out[n++] = links;
    }
    out[n++] = (uint64_t)sb->st_size;
    out[n++] = nanoseconds(&sb->st_atim);
    out[n++] = nanoseconds(&sb->st_mtim);
    out[n++] = nanoseconds(&sb->st_ctim);
    void *place = wasi_span(w, at, n * sizeof out[0]);
    if (!place)
        return WE_FAULT;
    memcpy(place, out, n * sizeof out[0]);
    return WE_SUCCESS;
}

uint32_t wasi_fd_filestat_get(struct wasi *w, const uint64_t *a)
{
    struct wasi_fd *f;
    struct stat sb;
    uint32_t r = wasi_look(w, a[0], WR(WR_STAT), &f);
    if (r != WE_SUCCESS)
        return r;
    return fstat(f->fd, &sb) < 0 ? wasi_error(errno) : wasi_put_stat(w, a[1], &sb);
}

uint32_t wasi_fd_filestat_set_size(struct wasi *w, const uint64_t *a)
{
    struct wasi_fd *f;
    uint32_t r = wasi_look(w, a[0], WR(WR_SET_SIZE), &f);
    if (r != WE_SUCCESS)
        return r;
    return a[1] > INT64_MAX ? WE_INVAL : done(ftruncate(f->fd, (off_t)a[1]));
}

static bool one_time(uint64_t value, bool set, bool now, struct timespec *ret)
{
    *ret = (struct timespec){.tv_nsec = now ? UTIME_NOW : set ? 0 : UTIME_OMIT};
    if (set && !now) {
        ret->tv_sec = (time_t)(value / 1000000000u);
        ret->tv_nsec = (long)(value % 1000000000u);
    }
    return !(set && now);
}

bool wasi_times(const uint64_t *a, uint64_t flags, struct timespec ret[static 2])
{
    return flags < 16 && one_time(a[0], flags & 1, flags & 2, &ret[0]) &&
           one_time(a[1], flags & 4, flags & 8, &ret[1]);
}

uint32_t wasi_fd_filestat_set_times(struct wasi *w, const uint64_t *a)
{
    struct timespec times[2];
    struct wasi_fd *f;
    uint32_t r = wasi_look(w, a[0], WR(WR_SET_TIMES), &f);
    if (r != WE_SUCCESS)
        return r;
    return wasi_times(a + 1, a[3], times) ? done(futimens(f->fd, times)) : WE_INVAL;
}

/* The stream is at the entry with this number: entries that were made or removed meanwhile are seen
 * or not, as with readdir itself. */
static uint32_t go_to(struct wasi_fd *f, uint64_t cookie)
{
    if (!f->dir) {
        int copy = openat(f->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (copy < 0)
            return wasi_error(errno);
        if (!(f->dir = fdopendir(copy))) {
            uint32_t r = wasi_error(errno);
            close(copy);
            return r;
        }
        f->at = 0;
    }
    if (cookie < f->at || cookie == 0) {
        rewinddir(f->dir);
        f->at = 0;
    }
    while (f->at < cookie && readdir(f->dir))
        f->at++;
    return WE_SUCCESS;
}

static enum wasi_type type_of_entry(const struct dirent *e)
{
    switch (e->d_type) {
    case DT_DIR:
        return WT_DIR;
    case DT_REG:
        return WT_FILE;
    case DT_LNK:
        return WT_LINK;
    case DT_CHR:
        return WT_CHARACTER;
    case DT_BLK:
        return WT_BLOCK;
    case DT_SOCK:
        return WT_STREAM;
    default:
        return WT_UNKNOWN;
    }
}

/* As a module has it; how long that is. */
static size_t describe(const struct dirent *e, uint64_t next, uint8_t *entry)
{
    uint32_t len = (uint32_t)strlen(e->d_name);
    uint64_t number = e->d_ino;
    memset(entry, 0, ENTRY);
    memcpy(entry, &next, 8);
    memcpy(entry + 8, &number, 8);
    memcpy(entry + 16, &len, 4);
    entry[20] = (uint8_t)type_of_entry(e);
    memcpy(entry + ENTRY, e->d_name, len);
    return ENTRY + len;
}

/* The last one may be cut off, by which a reader knows that there are more. It is read again next
 * time, from where it is: counted from the beginning it would be another one, if some of those
 * before it were removed meanwhile. */
uint32_t wasi_fd_readdir(struct wasi *w, const uint64_t *a)
{
    struct wasi_fd *f;
    uint32_t r = wasi_look(w, a[0], WR(WR_READDIR), &f);
    if (r != WE_SUCCESS)
        return r;
    uint8_t *out = wasi_span(w, a[1], a[2]);
    if (!out || !wasi_span(w, a[4], 4))
        return WE_FAULT;
    if (f->type != WT_DIR)
        return WE_NOTDIR;
    if ((r = go_to(f, a[3])) != WE_SUCCESS)
        return r;
    uint64_t used = 0;
    while (used < a[2]) {
        uint8_t entry[ENTRY + sizeof(struct dirent)];
        long here = telldir(f->dir);
        const struct dirent *e = readdir(f->dir);
        if (!e)
            break;
        size_t size = describe(e, f->at + 1, entry), room = a[2] - used;
        memcpy(out + used, entry, size < room ? size : room);
        if (size > room)
            seekdir(f->dir, here);
        else
            f->at++;
        used += size < room ? size : room;
    }
    return wasi_put32(w, a[4], (uint32_t)used);
}
