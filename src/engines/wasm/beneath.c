/* Opens a path beneath a folder (WA-1). The kernel does it, with openat2 and RESOLVE_BENEATH, where
 * the sandbox's filter lets it. It does not where folders of the host can be written: what mode a
 * file gets stands in memory then, which no filter sees. There the steps are made one by one, each
 * from the descriptor of the one before, never through a link that was not read and taken apart
 * here, and never by the kernel's `..`: what was climbed down is remembered, and the folder itself
 * is the top. */
#include "engines/wasm/beneath.h"

#include "os/sys.h"
#include "os/weaken.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define DEPTH_MAX 128
#define LINKS_MAX 40

struct walk {
    int fds[DEPTH_MAX]; /* the folders that lead here; the first is the caller's */
    int depth;
    int links;
    char left[2 * PATH_MAX]; /* of the path */
};

static int here(const struct walk *w)
{
    return w->fds[w->depth];
}

static int enter(struct walk *w, int fd)
{
    if (fd < 0)
        return -errno;
    if (w->depth + 1 == DEPTH_MAX) {
        close(fd);
        return -ENAMETOOLONG;
    }
    w->fds[++w->depth] = fd;
    return 0;
}

static int climb(struct walk *w)
{
    if (w->depth == 0)
        return -EXDEV;
    close(w->fds[w->depth--]);
    return 0;
}

/* What the link says comes before the rest of the path. 0; -EINVAL if it is no link. */
static int expand(struct walk *w, const char *name, const char *rest)
{
    char text[PATH_MAX], joined[2 * PATH_MAX];
    ssize_t n = readlinkat(here(w), name, text, sizeof text - 1);
    if (n < 0)
        return -errno;
    text[n] = '\0';
    if (text[0] == '/')
        return -EXDEV;
    if (++w->links > LINKS_MAX)
        return -ELOOP;
    if ((size_t)snprintf(joined, sizeof joined, "%s%s", text, rest) >= sizeof joined)
        return -ENAMETOOLONG;
    memcpy(w->left, joined, strlen(joined) + 1);
    return 0;
}

static bool is_link(int fd)
{
    struct stat sb;
    return fstat(fd, &sb) == 0 && S_ISLNK(sb.st_mode);
}

/* The last name: a descriptor; -EAGAIN if it was a link, which is taken apart now. */
static int open_last(struct walk *w, const char *name, bool slash, uint64_t flags, uint64_t mode)
{
    if (slash && (flags & O_CREAT)) /* the kernel's answer, too */
        return -EISDIR;
    bool follow = !(flags & O_NOFOLLOW) || slash;
    uint64_t all = flags | O_NOFOLLOW | O_CLOEXEC | (slash ? O_DIRECTORY : 0);
    int fd = openat(here(w), name, (int)all, (mode_t)mode);
    int code = fd < 0 ? errno : 0;
    bool link = fd >= 0 ? (flags & O_PATH) && is_link(fd) : code == ELOOP || code == ENOTDIR;
    if (!follow || !link)
        return fd >= 0 ? fd : -code;
    if (fd >= 0)
        close(fd);
    int r = expand(w, name, slash ? "/" : "");
    if (r == -EINVAL) /* it is none (any more) */
        return code == ENOTDIR ? -ENOTDIR : -ELOOP;
    return r < 0 ? r : -EAGAIN;
}

/* A name in the middle: the folder, or what the link says. */
static int go_down(struct walk *w, const char *name, const char *rest)
{
    int r = enter(w, openat(here(w), name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (r != -ENOTDIR)
        return r;
    r = expand(w, name, rest);
    return r == -EINVAL ? -ENOTDIR : r;
}

/* One name of the path: a descriptor at its end, -EAGAIN to go on. */
static int step(struct walk *w, uint64_t flags, uint64_t mode)
{
    char name[NAME_MAX + 1], rest[2 * PATH_MAX];
    const char *at = w->left + strspn(w->left, "/");
    size_t len = strcspn(at, "/"), gap = strspn(at + len, "/");
    bool last = !at[len + gap];
    if (len > NAME_MAX)
        return -ENAMETOOLONG;
    memcpy(name, at, len);
    name[len] = '\0';
    memcpy(rest, at + len, strlen(at + len) + 1);
    memcpy(w->left, rest, strlen(rest) + 1);
    bool up = strcmp(name, "..") == 0, stay = !len || strcmp(name, ".") == 0;
    int r = up ? climb(w) : 0;
    if (r < 0)
        return r;
    if (!up && !stay) {
        if (last)
            return open_last(w, name, gap > 0, flags, mode);
        r = go_down(w, name, rest);
    } else if (last) {
        r = openat(here(w), ".", (int)(flags | O_CLOEXEC), (mode_t)mode);
        return r < 0 ? -errno : r;
    }
    return r < 0 ? r : -EAGAIN;
}

static int walk(int base, const char *path, uint64_t flags, uint64_t mode)
{
    struct walk w = {.fds = {base}};
    int r = -EAGAIN;
    if (path[0] == '/')
        return -EXDEV;
    if (strlen(path) >= sizeof w.left)
        return -ENAMETOOLONG;
    memcpy(w.left, path, strlen(path) + 1);
    while (r == -EAGAIN)
        r = step(&w, flags, mode);
    while (w.depth)
        climb(&w);
    return r;
}

static int ask_kernel(int base, const char *path, uint64_t flags, uint64_t mode)
{
    int fd = -1;
    /* A rename somewhere on the way makes the kernel ask for another try. */
    for (int i = 0; i < 100; i++) {
        fd = sys_openat2(base, path, flags | O_CLOEXEC, mode,
                         RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS);
        if (fd >= 0 || errno != EAGAIN)
            break;
    }
    return fd < 0 ? -errno : fd;
}

int open_beneath(int base, const char *path, uint64_t flags, uint64_t mode)
{
    if (guard_left_out(GUARD_WASM_PATHS))
        return openat(base, path, (int)(flags | O_CLOEXEC), (mode_t)mode);
    int fd = ask_kernel(base, path, flags, mode);
    if (fd == -ENOSYS)
        fd = walk(base, path, flags, mode);
    if (fd >= 0)
        return fd;
    errno = -fd;
    return -1;
}

int walk_beneath(int base, const char *path, uint64_t flags, uint64_t mode)
{
    int fd = walk(base, path, flags, mode);
    if (fd >= 0)
        return fd;
    errno = -fd;
    return -1;
}
