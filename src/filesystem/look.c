#include "filesystem/look.h"

#include "base/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

#define LINKS_MAX    16
#define AUTOFS_MAGIC 0x0187
#define PROCFS_MAGIC 0x9fa0
#define SYSFS_MAGIC  0x62656572

/* A walk: the folder that is held, its canonical text, and what is left to go. */
struct walk {
    int dir;
    char at[PATH_MAX];   /* "" for the root */
    char left[PATH_MAX]; /* without a leading slash */
    unsigned links;
};

static int open_root(struct walk *w)
{
    if (w->dir >= 0)
        close(w->dir);
    w->at[0] = '\0';
    w->dir = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    return w->dir < 0 ? -errno : 0;
}

/* "" at the end. Dots are gone: paths come cleaned, and links are cleaned by step(). */
static bool next_name(struct walk *w, char name[NAME_MAX + 1])
{
    size_t skip = strspn(w->left, "/");
    size_t len = strcspn(w->left + skip, "/");
    if (len == 0 || len > NAME_MAX)
        return false;
    memcpy(name, w->left + skip, len);
    name[len] = '\0';
    memmove(w->left, w->left + skip + len, strlen(w->left + skip + len) + 1);
    return true;
}

static int append(char path[PATH_MAX], const char *name)
{
    size_t used = strlen(path), len = strlen(name);
    if (used + len + 2 > PATH_MAX)
        return -ENAMETOOLONG;
    path[used] = '/';
    memcpy(path + used + 1, name, len + 1);
    return 0;
}

static int follow(struct walk *w, int link)
{
    char target[PATH_MAX], rest[PATH_MAX];
    ssize_t n = readlinkat(link, "", target, sizeof target - 1);
    if (n <= 0 || n >= (ssize_t)sizeof target - 1 || ++w->links > LINKS_MAX)
        return -ELOOP;
    target[n] = '\0';
    if ((size_t)n + strlen(w->left) + 2 > PATH_MAX)
        return -ENAMETOOLONG;
    memcpy(rest, w->left, strlen(w->left) + 1);
    memcpy(w->left, target, (size_t)n + 1);
    append(w->left, rest);
    return target[0] == '/' ? open_root(w) : 0;
}

static int go_up(struct walk *w)
{
    int up = openat(w->dir, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (up < 0)
        return -errno;
    close(w->dir);
    w->dir = up;
    char *slash = strrchr(w->at, '/');
    if (slash)
        *slash = '\0';
    return 0;
}

/* Behind these somebody may answer, or something happen, when one looks. */
static bool is_strange(int fd)
{
    struct statfs s;
    if (fstatfs(fd, &s) < 0)
        return true;
    return s.f_type == AUTOFS_MAGIC || s.f_type == PROCFS_MAGIC || s.f_type == SYSFS_MAGIC;
}

static void describe(struct look *ret, const struct stat *sb)
{
    ret->exists = true;
    ret->is_dir = S_ISDIR(sb->st_mode);
    ret->is_file = S_ISREG(sb->st_mode);
    ret->is_socket = S_ISSOCK(sb->st_mode);
}

/* What is not there has the name that it would have. */
static int stop_at(struct walk *w, const char *name, struct look *ret)
{
    ret->parent_exists = w->left[strspn(w->left, "/")] == '\0';
    char more[NAME_MAX + 1];
    int r = append(w->at, name);
    while (r == 0 && next_name(w, more))
        r = strcmp(more, "..") == 0 ? -ENOENT : append(w->at, more);
    return r;
}

/* 1: go on; 0: the end; negative: cannot be said. */
static int step(struct walk *w, const char *name, struct look *ret)
{
    struct stat sb;
    if (strcmp(name, ".") == 0)
        return 1;
    if (strcmp(name, "..") == 0)
        return go_up(w) < 0 ? -EIO : 1;
    cleanup_fd int fd = openat(w->dir, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT || errno == ENOTDIR ? stop_at(w, name, ret) : -errno;
    if (fstat(fd, &sb) < 0 || is_strange(fd))
        return -EXDEV;
    if (S_ISLNK(sb.st_mode)) {
        if (!ret->link[0] && snprintf(ret->link, PATH_MAX, "%s/%s", w->at, name) >= PATH_MAX)
            return -ENAMETOOLONG;
        return follow(w, fd) < 0 ? -ELOOP : 1;
    }
    if (append(w->at, name) < 0)
        return -ENAMETOOLONG;
    if (w->left[strspn(w->left, "/")] == '\0') {
        ret->parent_exists = true;
        describe(ret, &sb);
        return 0;
    }
    if (!S_ISDIR(sb.st_mode))
        return -ENOTDIR;
    close(w->dir);
    w->dir = fd_steal(&fd);
    return 1;
}

static int walk(struct walk *w, struct look *ret)
{
    char name[NAME_MAX + 1];
    int r = open_root(w);
    for (r = r < 0 ? r : 1; r > 0;) {
        if (next_name(w, name))
            r = step(w, name, ret);
        else if (w->left[strspn(w->left, "/")])
            r = -ENAMETOOLONG;
        else
            break;
    }
    /* The last step was a link that led to where the walk already stood, or to the root. */
    if (r > 0) {
        ret->exists = ret->parent_exists = ret->is_dir = true;
        r = 0;
    }
    return r;
}

int look_up(const char *path, struct look *ret)
{
    struct walk w = {.dir = -1};
    *ret = (struct look){0};
    if (path[0] != '/' || strlen(path) >= sizeof w.left)
        return -EINVAL;
    memcpy(w.left, path, strlen(path) + 1);
    int r = walk(&w, ret);
    if (w.dir >= 0)
        close(w.dir);
    memcpy(ret->path, w.at[0] ? w.at : "/", strlen(w.at[0] ? w.at : "/") + 1);
    return r;
}
