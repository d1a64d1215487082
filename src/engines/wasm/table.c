/* The module's descriptors: a table of its own, in which nothing of the runner's stands (WA-4). */
#include "engines/wasm/wasi.h"

#include "base/cleanup.h"
#include "os/weaken.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* What can be done with a stream. */
#define STREAM_RIGHTS                                                                              \
    (WR(WR_READ) | WR(WR_WRITE) | WR(WR_SEEK) | WR(WR_TELL) | WR(WR_STAT) | WR(WR_SET_FLAGS) |     \
     WR(WR_POLL))

static const struct wasi_call calls[] = {
#define X(name, takes) {#name, takes, wasi_##name},
    WASI_CALLS(X)
#undef X
};

const struct wasi_call *wasi_call_at(size_t i)
{
    return i < ARRAY_LEN(calls) ? &calls[i] : NULL;
}

uint32_t wasi_error(int code)
{
    static const uint8_t table[] = {
        [E2BIG] = WE_2BIG,
        [EACCES] = WE_ACCES,
        [EAGAIN] = WE_AGAIN,
        [EBADF] = WE_BADF,
        [EBUSY] = WE_BUSY,
        [EDQUOT] = WE_DQUOT,
        [EEXIST] = WE_EXIST,
        [EFAULT] = WE_FAULT,
        [EFBIG] = WE_FBIG,
        [EILSEQ] = WE_ILSEQ,
        [EINTR] = WE_INTR,
        [EINVAL] = WE_INVAL,
        [EIO] = WE_IO,
        [EISDIR] = WE_ISDIR,
        [ELOOP] = WE_LOOP,
        [EMFILE] = WE_MFILE,
        [EMLINK] = WE_MLINK,
        [ENAMETOOLONG] = WE_NAMETOOLONG,
        [ENFILE] = WE_NFILE,
        [ENODEV] = WE_NODEV,
        [ENOENT] = WE_NOENT,
        [ENOMEM] = WE_NOMEM,
        [ENOSPC] = WE_NOSPC,
        [ENOSYS] = WE_NOSYS,
        [ENOTDIR] = WE_NOTDIR,
        [ENOTEMPTY] = WE_NOTEMPTY,
        [EOPNOTSUPP] = WE_NOTSUP,
        [ENOTTY] = WE_NOTTY,
        [ENXIO] = WE_NXIO,
        [EOVERFLOW] = WE_OVERFLOW,
        [EPERM] = WE_PERM,
        [EPIPE] = WE_PIPE,
        [EROFS] = WE_ROFS,
        [ESPIPE] = WE_SPIPE,
        [ETXTBSY] = WE_TXTBSY,
        /* A path that leaves its folder, or names in two of them. */
        [EXDEV] = WE_NOTCAPABLE,
    };
    uint32_t found = code > 0 && (size_t)code < ARRAY_LEN(table) ? table[code] : 0;
    return found ? found : WE_IO;
}

enum wasi_type wasi_type_of(uint32_t mode)
{
    switch (mode & S_IFMT) {
    case S_IFDIR:
        return WT_DIR;
    case S_IFREG:
        return WT_FILE;
    case S_IFLNK:
        return WT_LINK;
    case S_IFCHR:
        return WT_CHARACTER;
    case S_IFBLK:
        return WT_BLOCK;
    case S_IFSOCK:
        return WT_STREAM;
    default:
        return WT_UNKNOWN;
    }
}

static enum wasi_type type_of_fd(int fd)
{
    struct stat sb;
    return fstat(fd, &sb) < 0 ? WT_UNKNOWN : wasi_type_of(sb.st_mode);
}

/* Programs take for a terminal what has characters and no places. */
static uint64_t stream_rights(int fd)
{
    return isatty(fd) ? STREAM_RIGHTS & ~(WR(WR_SEEK) | WR(WR_TELL)) : STREAM_RIGHTS;
}

void wasi_init(struct wasi *w)
{
    memset(w, 0, sizeof *w);
    for (size_t i = 0; i < WASI_FDS_MAX; i++)
        w->fds[i].fd = -1;
    for (int fd = 0; fd < 3; fd++)
        w->fds[fd] =
            (struct wasi_fd){.fd = fd, .type = type_of_fd(fd), .rights = stream_rights(fd)};
}

static void drop(struct wasi_fd *f)
{
    if (f->dir)
        closedir(f->dir);
    /* The runner itself writes to its standard descriptors. */
    if (f->fd > 2)
        close(f->fd);
    *f = (struct wasi_fd){.fd = -1};
}

void wasi_done(struct wasi *w)
{
    for (size_t i = 0; i < WASI_FDS_MAX; i++)
        drop(&w->fds[i]);
}

int wasi_preopen(struct wasi *w, int fd, const char *name, bool writable)
{
    uint64_t rights = writable ? WR_ALL : WR_ALL & ~WR_CHANGES;
    uint32_t number;
    if (wasi_add(w, fd, rights, rights, &number) != WE_SUCCESS)
        return -EMFILE;
    w->fds[number].preopen = name;
    return 0;
}

bool wasi_lacks(uint64_t wanted, uint64_t rights)
{
    return (wanted & ~rights) != 0 && !guard_left_out(GUARD_WASM_RIGHTS);
}

/* Without the table (os/weaken.h) a number means the runner's own descriptor. */
static struct wasi_fd *foreign(uint64_t number)
{
    static struct wasi_fd any;
    any = (struct wasi_fd){.fd = (int)number, .type = type_of_fd((int)number), .rights = WR_ALL};
    return &any;
}

uint32_t wasi_look(struct wasi *w, uint64_t number, uint64_t rights, struct wasi_fd **ret)
{
    bool known = number < WASI_FDS_MAX && w->fds[number].fd >= 0;
    if (!known && !guard_left_out(GUARD_WASM_TABLE))
        return WE_BADF;
    *ret = known ? &w->fds[number] : foreign(number);
    return wasi_lacks(rights, (*ret)->rights) ? WE_NOTCAPABLE : WE_SUCCESS;
}

uint32_t wasi_add(struct wasi *w, int fd, uint64_t rights, uint64_t inherited, uint32_t *ret)
{
    for (uint32_t i = 0; i < WASI_FDS_MAX; i++) {
        if (w->fds[i].fd >= 0)
            continue;
        w->fds[i] = (struct wasi_fd){
            .fd = fd, .type = type_of_fd(fd), .rights = rights, .inherited = inherited};
        *ret = i;
        return WE_SUCCESS;
    }
    close(fd);
    return WE_MFILE;
}

uint32_t wasi_fd_close(struct wasi *w, const uint64_t *a)
{
    struct wasi_fd *f;
    uint32_t r = wasi_look(w, a[0], 0, &f);
    if (r == WE_SUCCESS)
        drop(f);
    return r;
}

uint32_t wasi_fd_renumber(struct wasi *w, const uint64_t *a)
{
    struct wasi_fd *from = NULL, *to = NULL;
    uint32_t r = wasi_look(w, a[0], 0, &from);
    if (r == WE_SUCCESS)
        r = wasi_look(w, a[1], 0, &to);
    if (r != WE_SUCCESS || from == to)
        return r;
    /* What was given keeps its place: a name that wanders would be another grant. */
    if ((from->preopen || to->preopen) && !guard_left_out(GUARD_WASM_TABLE))
        return WE_NOTSUP;
    drop(to);
    *to = *from;
    *from = (struct wasi_fd){.fd = -1};
    return WE_SUCCESS;
}

uint32_t wasi_fd_prestat_get(struct wasi *w, const uint64_t *a)
{
    struct wasi_fd *f;
    uint32_t r = wasi_look(w, a[0], 0, &f);
    if (r != WE_SUCCESS || !f->preopen)
        return WE_BADF;
    r = wasi_put32(w, a[1], 0);
    return r ? r : wasi_put32(w, a[1] + 4, (uint32_t)strlen(f->preopen));
}

uint32_t wasi_fd_prestat_dir_name(struct wasi *w, const uint64_t *a)
{
    struct wasi_fd *f;
    uint32_t r = wasi_look(w, a[0], 0, &f);
    if (r != WE_SUCCESS || !f->preopen)
        return WE_BADF;
    size_t len = strlen(f->preopen);
    if (a[2] < len)
        return WE_NAMETOOLONG;
    void *place = wasi_span(w, a[1], len);
    if (!place)
        return WE_FAULT;
    memcpy(place, f->preopen, len);
    return WE_SUCCESS;
}

uint32_t wasi_fd_fdstat_get(struct wasi *w, const uint64_t *a)
{
    struct wasi_fd *f;
    uint32_t r = wasi_look(w, a[0], 0, &f);
    if (r != WE_SUCCESS)
        return r;
    int flags = fcntl(f->fd, F_GETFL);
    uint8_t stat[24] = {(uint8_t)f->type};
    uint16_t wasi_flags = (uint16_t)((flags & O_APPEND ? 1 : 0) | (flags & O_DSYNC ? 2 : 0) |
                                     (flags & O_NONBLOCK ? 4 : 0));
    memcpy(stat + 2, &wasi_flags, sizeof wasi_flags);
    memcpy(stat + 8, &f->rights, sizeof f->rights);
    memcpy(stat + 16, &f->inherited, sizeof f->inherited);
    void *place = wasi_span(w, a[1], sizeof stat);
    if (!place)
        return WE_FAULT;
    memcpy(place, stat, sizeof stat);
    return WE_SUCCESS;
}

/* WA-3 */
uint32_t wasi_fd_fdstat_set_rights(struct wasi *w, const uint64_t *a)
{
    struct wasi_fd *f;
    uint32_t r = wasi_look(w, a[0], a[1], &f);
    if (r != WE_SUCCESS)
        return r;
    if (wasi_lacks(a[2], f->inherited))
        return WE_NOTCAPABLE;
    f->rights = a[1];
    f->inherited = a[2];
    return WE_SUCCESS;
}
