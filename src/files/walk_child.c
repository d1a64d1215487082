/* A path, component by component, for sandboxes whose filter hides openat2 (a filter cannot look
 * into its argument, so it is absent where set-id bits must be kept from a folder of the host). It
 * needs no more than openat: each step opens without following; what is a link is read and laid in
 * front of the rest, and a link of /proc is taken for a magic one. */
#include "files/worker_child.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#define LINKS_MAX 40

static struct {
    int cur; /* the folder that has been reached */
    unsigned links;
    char *at; /* what is left */
    char rest[2 * FILES_PATH_MAX + 2];
} walk;

static int enter(int fd)
{
    if (walk.cur >= 0)
        close(walk.cur);
    walk.cur = fd;
    return fd < 0 ? -errno : 0;
}

static int enter_root(void)
{
    return enter(open("/", O_PATH | O_DIRECTORY | O_CLOEXEC));
}

/* Cuts the next component off; NULL at the end. */
static char *next_name(bool *last)
{
    walk.at += strspn(walk.at, "/");
    if (!*walk.at)
        return NULL;
    char *name = walk.at;
    walk.at += strcspn(walk.at, "/");
    if (*walk.at)
        *walk.at++ = '\0';
    *last = walk.at[strspn(walk.at, "/")] == '\0';
    return name;
}

static int follow(int link)
{
    static char target[FILES_PATH_MAX];
    struct statfs fs;
    if (++walk.links > LINKS_MAX || fstatfs(link, &fs) < 0 || fs.f_type == PROC_SUPER_MAGIC)
        return -ELOOP;
    ssize_t len = readlinkat(link, "", target, sizeof target);
    size_t left = strlen(walk.at);
    if (len <= 0)
        return len < 0 ? -errno : -ENOENT;
    if ((size_t)len == sizeof target || (size_t)len + 1 + left >= sizeof walk.rest)
        return -ENAMETOOLONG;
    memmove(walk.rest + len + 1, walk.at, left + 1);
    memcpy(walk.rest, target, (size_t)len);
    walk.rest[len] = '/';
    walk.at = walk.rest;
    return target[0] == '/' ? enter_root() : 0;
}

/* The last component: `fd` is what it names, without having been followed. */
static int arrive(int fd, const char *name, const struct stat *sb, int flags)
{
    if (!(flags & O_PATH)) {
        int opened = openat(walk.cur, name, flags | O_NOFOLLOW);
        int saved = errno;
        close(fd);
        return opened < 0 ? -saved : opened;
    }
    if ((flags & O_DIRECTORY) && !S_ISDIR(sb->st_mode)) {
        close(fd);
        return -ENOTDIR;
    }
    return fd;
}

/* 1 and *ret: arrived; 0: one step done. */
static int step(const char *name, bool last, int flags, int *ret)
{
    struct stat sb;
    int fd = openat(walk.cur, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    if (fstat(fd, &sb) == 0 && S_ISLNK(sb.st_mode) && !(last && (flags & O_NOFOLLOW))) {
        int done = follow(fd);
        close(fd);
        return done;
    }
    if (!last)
        return enter(fd);
    *ret = arrive(fd, name, &sb, flags);
    return 1;
}

int files_walk_open(int dir, const char *path, int flags)
{
    bool last = false;
    int ret = -ENOENT, done;
    size_t len = strlen(path);
    if (len > FILES_PATH_MAX)
        return -ENAMETOOLONG;
    memcpy(walk.rest, path, len + 1);
    walk.at = walk.rest;
    walk.links = 0;
    walk.cur = -1;
    done =
        path[0] == '/' ? enter_root() : enter(openat(dir, ".", O_PATH | O_DIRECTORY | O_CLOEXEC));
    while (done == 0) {
        char *name = next_name(&last);
        if (name) {
            done = step(name, last, flags, &ret);
            continue;
        }
        ret = openat(walk.cur, ".", flags);
        ret = ret < 0 ? -errno : ret;
        done = 1;
    }
    if (walk.cur >= 0)
        close(walk.cur);
    return done < 0 ? done : ret;
}
