/* Calls on paths (WA-1). A path is opened beneath its folder (beneath.h), every step of it and of
 * every link in it. Calls that have no such form act on
 * the last name alone, in its folder, which was opened that way. */
#include "engines/wasm/wasi.h"

#include "engines/wasm/beneath.h"
#include "engines/wasm/stat.h"
#include "os/weaken.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A path of the module's, copied out of its memory once. */
struct path {
    char text[PATH_MAX];
    int base; /* the folder's descriptor */
    uint64_t inherited;
};

static bool is_absolute(const char *path)
{
    return path[0] == '/' && !guard_left_out(GUARD_WASM_PATHS);
}

static uint32_t take_path(struct wasi *w, uint64_t number, uint64_t at, uint64_t len,
                          uint64_t rights, struct path *ret)
{
    struct wasi_fd *f;
    uint32_t r = wasi_look(w, number, 0, &f);
    if (r != WE_SUCCESS)
        return r;
    if (f->type != WT_DIR)
        return WE_NOTDIR;
    if (wasi_lacks(rights, f->rights))
        return rights & WR_CHANGES ? WE_ROFS : WE_NOTCAPABLE;
    const char *text = wasi_span(w, at, len);
    if (!text)
        return WE_FAULT;
    if (len >= sizeof ret->text)
        return WE_NAMETOOLONG;
    if (memchr(text, 0, len))
        return WE_ILSEQ;
    memcpy(ret->text, text, len);
    ret->text[len] = '\0';
    ret->base = f->fd;
    ret->inherited = f->inherited;
    if (!len)
        return WE_NOENT;
    return is_absolute(ret->text) ? WE_NOTCAPABLE : WE_SUCCESS;
}

/* The folder of the last name, and that name. */
struct last {
    int folder; /* the caller's to close */
    char *name;
    bool slash; /* it ended with one: it must be a folder */
};

/* A path that ends with "." or "..": what it leads to is there, and has no name here that could be
 * taken away, so the answer is known, if it leads to a folder inside. */
static uint32_t nameless(const struct path *p, uint32_t answer)
{
    int fd = open_beneath(p->base, p->text, O_PATH | O_DIRECTORY, 0);
    if (fd < 0)
        return wasi_error(errno);
    close(fd);
    return answer;
}

static uint32_t split(struct path *p, uint32_t dots, struct last *ret)
{
    size_t len = strlen(p->text);
    ret->slash = p->text[len - 1] == '/';
    while (len && p->text[len - 1] == '/')
        p->text[--len] = '\0';
    char *slash = strrchr(p->text, '/');
    ret->name = slash ? slash + 1 : p->text;
    if (strcmp(ret->name, ".") == 0 || strcmp(ret->name, "..") == 0)
        return nameless(p, dots);
    if (slash)
        *slash = '\0';
    ret->folder = open_beneath(p->base, slash ? p->text : ".", O_PATH | O_DIRECTORY, 0);
    return ret->folder < 0 ? wasi_error(errno) : WE_SUCCESS;
}

/* dots: what is said of a path that ends with "." or "..". */
static uint32_t take_last(struct wasi *w, const uint64_t *a, uint64_t rights, uint32_t dots,
                          struct path *p, struct last *ret)
{
    uint32_t r = take_path(w, a[0], a[1], a[2], rights, p);
    ret->folder = -1;
    return r ? r : split(p, dots, ret);
}

/* What the slash behind a name asks for. It is not handed to the kernel, which would follow a link
 * in front of it. */
static uint32_t is_folder(const struct last *l)
{
    struct stat sb;
    if (fstatat(l->folder, l->name, &sb, AT_SYMLINK_NOFOLLOW) < 0)
        return wasi_error(errno);
    return S_ISDIR(sb.st_mode) ? WE_SUCCESS : WE_NOTDIR;
}

/* Nothing but a folder can be made where the name ends with a slash. */
static uint32_t can_be_made(const struct last *l)
{
    uint32_t r = l->slash ? is_folder(l) : WE_SUCCESS;
    return l->slash && r != WE_NOENT ? WE_EXIST : r;
}

/* A call that was not made for want of something: `r` says of what. */
static uint32_t give_up(uint32_t r, int folder)
{
    close(folder);
    return r;
}

static uint32_t finish(int result, int folder)
{
    uint32_t r = result < 0 ? wasi_error(errno) : WE_SUCCESS;
    close(folder);
    return r;
}

/* Between two folders that were reached already: another file system, or Landlock, which answers as
 * if it were one. Programs copy then. */
static uint32_t finish_move(int result, int folder)
{
    bool apart = result < 0 && errno == EXDEV;
    uint32_t r = finish(result, folder);
    return apart ? WE_XDEV : r;
}

uint32_t wasi_path_create_directory(struct wasi *w, const uint64_t *a)
{
    struct path p;
    struct last l;
    uint32_t r = take_last(w, a, WR(WR_MAKE_DIR), WE_EXIST, &p, &l);
    return r ? r : finish(mkdirat(l.folder, l.name, 0777), l.folder);
}

uint32_t wasi_path_remove_directory(struct wasi *w, const uint64_t *a)
{
    struct path p;
    struct last l;
    uint32_t r = take_last(w, a, WR(WR_REMOVE_DIR), WE_INVAL, &p, &l);
    return r ? r : finish(unlinkat(l.folder, l.name, AT_REMOVEDIR), l.folder);
}

uint32_t wasi_path_unlink_file(struct wasi *w, const uint64_t *a)
{
    struct path p;
    struct last l;
    uint32_t r = take_last(w, a, WR(WR_UNLINK), WE_ISDIR, &p, &l);
    if (r != WE_SUCCESS)
        return r;
    if (l.slash && (r = is_folder(&l)) != WE_SUCCESS)
        return give_up(r, l.folder);
    return finish(unlinkat(l.folder, l.name, 0), l.folder);
}

uint32_t wasi_path_readlink(struct wasi *w, const uint64_t *a)
{
    struct path p;
    struct last l;
    char text[PATH_MAX];
    uint32_t r = take_last(w, a, WR(WR_READLINK), WE_INVAL, &p, &l);
    if (r != WE_SUCCESS)
        return r;
    if (l.slash && (r = is_folder(&l)) != WE_SUCCESS)
        return give_up(r, l.folder);
    ssize_t n = readlinkat(l.folder, l.name, text, sizeof text);
    if ((r = finish((int)n, l.folder)) != WE_SUCCESS)
        return r;
    size_t len = (uint64_t)n < a[4] ? (size_t)n : (size_t)a[4];
    void *place = wasi_span(w, a[3], len);
    if (!place)
        return WE_FAULT;
    memcpy(place, text, len);
    return wasi_put32(w, a[5], (uint32_t)len);
}

/* a: target and its length, folder, path and its length. A link that leads out could be followed by
 * others than this module, who do not look. */
uint32_t wasi_path_symlink(struct wasi *w, const uint64_t *a)
{
    struct path p;
    struct last l;
    char target[PATH_MAX];
    const char *text = wasi_span(w, a[0], a[1]);
    if (!text)
        return WE_FAULT;
    if (a[1] >= sizeof target)
        return WE_NAMETOOLONG;
    if (memchr(text, 0, a[1]))
        return WE_ILSEQ;
    memcpy(target, text, a[1]);
    target[a[1]] = '\0';
    uint32_t r = take_last(w, a + 2, WR(WR_SYMLINK), WE_EXIST, &p, &l);
    if (r != WE_SUCCESS)
        return r;
    r = is_absolute(target) ? WE_NOTCAPABLE : can_be_made(&l);
    return r ? give_up(r, l.folder) : finish(symlinkat(target, l.folder, l.name), l.folder);
}

static uint32_t rename_last(const struct last *from, const struct last *to)
{
    uint32_t r = from->slash || to->slash ? is_folder(from) : WE_SUCCESS;
    return r ? give_up(r, to->folder)
             : finish_move(renameat(from->folder, from->name, to->folder, to->name), to->folder);
}

uint32_t wasi_path_rename(struct wasi *w, const uint64_t *a)
{
    struct path from, to;
    struct last f, t;
    uint32_t r = take_last(w, a, WR(WR_RENAME_FROM), WE_BUSY, &from, &f);
    if (r != WE_SUCCESS)
        return r;
    r = take_last(w, a + 3, WR(WR_RENAME_TO), WE_BUSY, &to, &t);
    return give_up(r ? r : rename_last(&f, &t), f.folder);
}

static uint32_t link_last(const struct last *from, const struct last *to)
{
    uint32_t r = from->slash ? is_folder(from) : WE_SUCCESS;
    if (r == WE_SUCCESS)
        r = can_be_made(to);
    return r ? give_up(r, to->folder)
             : finish_move(linkat(from->folder, from->name, to->folder, to->name, 0), to->folder);
}

/* a: folder, flags, path and its length, folder, path and its length. */
uint32_t wasi_path_link(struct wasi *w, const uint64_t *a)
{
    const uint64_t source[] = {a[0], a[2], a[3]};
    struct path from, to;
    struct last f, t;
    /* Following would link what the link leads to; nobody needs it, and the kernel's way of doing
     * it does not stay beneath. */
    if (a[1] & 1)
        return WE_INVAL;
    uint32_t r = take_last(w, source, WR(WR_LINK_FROM), WE_PERM, &from, &f);
    if (r != WE_SUCCESS)
        return r;
    r = take_last(w, a + 4, WR(WR_LINK_TO), WE_EXIST, &to, &t);
    return give_up(r ? r : link_last(&f, &t), f.folder);
}

static uint64_t follow(uint64_t flags)
{
    return flags & 1 ? 0 : O_NOFOLLOW;
}

uint32_t wasi_path_filestat_get(struct wasi *w, const uint64_t *a)
{
    struct path p;
    struct stat sb;
    uint32_t r = take_path(w, a[0], a[2], a[3], WR(WR_PATH_STAT), &p);
    if (r != WE_SUCCESS)
        return r;
    int fd = open_beneath(p.base, p.text, O_PATH | follow(a[1]), 0);
    if (fd < 0)
        return wasi_error(errno);
    r = finish(fstat(fd, &sb), fd);
    return r ? r : wasi_put_stat(w, a[4], &sb);
}

/* a: folder, flags, path and its length, two times, flags. What it is need not be opened for that:
 * it may be one that can only be written, or that does something when it is read. */
uint32_t wasi_path_filestat_set_times(struct wasi *w, const uint64_t *a)
{
    struct path p;
    struct timespec times[2];
    uint32_t r = take_path(w, a[0], a[2], a[3], WR(WR_PATH_SET_TIMES), &p);
    if (r == WE_SUCCESS && !wasi_times(a + 4, a[6], times))
        r = WE_INVAL;
    if (r != WE_SUCCESS)
        return r;
    int fd = open_beneath(p.base, p.text, O_PATH | follow(a[1]), 0);
    return fd < 0 ? wasi_error(errno) : finish(utimensat(fd, "", times, AT_EMPTY_PATH), fd);
}

#define OPEN_CREATE    1u
#define OPEN_DIRECTORY 2u
#define OPEN_EXCLUSIVE 4u
#define OPEN_TRUNCATE  8u

#define READS  (WR(WR_READ) | WR(WR_READDIR))
#define WRITES (WR(WR_WRITE) | WR(WR_ALLOCATE) | WR(WR_SET_SIZE))

static uint64_t open_flags(const uint64_t *a, uint64_t rights)
{
    uint64_t flags = follow(a[1]) | O_NOCTTY | O_NONBLOCK;
    if (rights & WRITES)
        flags |= rights & READS ? O_RDWR : O_WRONLY;
    flags |= a[4] & OPEN_CREATE ? O_CREAT : 0;
    flags |= a[4] & OPEN_EXCLUSIVE ? O_EXCL : 0;
    flags |= a[4] & OPEN_TRUNCATE ? O_TRUNC : 0;
    flags |= a[7] & 1 ? O_APPEND : 0;
    flags |= a[7] & 2 ? O_DSYNC : 0;
    flags |= a[7] & 24 ? O_SYNC : 0;
    if (a[4] & OPEN_DIRECTORY)
        flags = (flags & ~(uint64_t)(O_RDWR | O_WRONLY)) | O_DIRECTORY;
    return flags;
}

/* What opening this way asks of the folder. */
static uint64_t open_needs(const uint64_t *a)
{
    return WR(WR_OPEN) | (a[4] & OPEN_CREATE ? WR(WR_MAKE_FILE) : 0) |
           (a[4] & OPEN_TRUNCATE ? WR(WR_PATH_SET_SIZE) : 0);
}

/* A file is opened without waiting, since a FIFO of somebody else's could hold the runner up; what
 * was opened then waits as the module wishes. */
static uint32_t settle(int fd, bool nonblock)
{
    struct stat sb;
    if (fstat(fd, &sb) < 0)
        return wasi_error(errno);
    /* Neither devices nor sockets of a granted folder are files to a module. */
    if (!S_ISREG(sb.st_mode) && !S_ISDIR(sb.st_mode) && !S_ISFIFO(sb.st_mode))
        return WE_ACCES;
    int flags = fcntl(fd, F_GETFL);
    if (!nonblock && fcntl(fd, F_SETFL, flags & ~O_NONBLOCK) < 0)
        return wasi_error(errno);
    return WE_SUCCESS;
}

static int open_it(const struct path *p, uint64_t flags)
{
    uint64_t mode = flags & O_CREAT ? 0666 : 0;
    int fd = open_beneath(p->base, p->text, flags, mode);
    /* Who asks for every right that there is means folders too; who would only write does not. */
    if (fd < 0 && errno == EISDIR && (flags & O_ACCMODE) == O_RDWR &&
        !(flags & (O_CREAT | O_TRUNC)))
        fd = open_beneath(p->base, p->text, (flags & ~(uint64_t)(O_RDWR | O_WRONLY)) | O_DIRECTORY,
                          0);
    return fd;
}

/* a: folder, lookup flags, path and its length, open flags, rights, inherited rights, descriptor
 * flags, where the number goes. */
uint32_t wasi_path_open(struct wasi *w, const uint64_t *a)
{
    struct path p;
    uint32_t number;
    uint32_t r = take_path(w, a[0], a[2], a[3], open_needs(a), &p);
    if (r != WE_SUCCESS)
        return r;
    if (a[4] > 15 || a[7] > 31)
        return WE_INVAL;
    if (!wasi_span(w, a[8], 4))
        return WE_FAULT;
    /* WA-3: no right that the folder does not hand on. */
    if (wasi_lacks(a[5] & WR_CHANGES, p.inherited))
        return a[4] & OPEN_DIRECTORY ? WE_NOTCAPABLE : WE_ROFS;
    uint64_t all = guard_left_out(GUARD_WASM_RIGHTS) ? WR_ALL : p.inherited;
    uint64_t rights = a[5] & all, inherited = a[6] & all;
    int fd = open_it(&p, open_flags(a, rights));
    if (fd < 0)
        return wasi_error(errno);
    if ((r = settle(fd, a[7] & 4)) != WE_SUCCESS) {
        close(fd);
        return r;
    }
    r = wasi_add(w, fd, rights, inherited, &number);
    return r ? r : wasi_put32(w, a[8], number);
}
