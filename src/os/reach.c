/* Walks a path step by step by descriptor, and refuses links that a sandbox may have made. */
#include "os/reach.h"

#include "base/cleanup.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define LINKS_MAX 16

/* ---- a walk ---- */

static int open_root(struct reach_walk *w)
{
    if (w->dir >= 0)
        close(w->dir);
    w->at[0] = '\0';
    w->dir = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    return w->dir < 0 ? -errno : 0;
}

int reach_begin(struct reach_walk *w, const char *path)
{
    w->dir = -1;
    w->at[0] = w->left[0] = '\0';
    w->links = 0;
    if (path[0] != '/')
        return -EINVAL;
    if (strlen(path) >= sizeof w->left)
        return -ENAMETOOLONG;
    memcpy(w->left, path, strlen(path) + 1);
    return open_root(w);
}

void reach_end(struct reach_walk *w)
{
    if (w->dir >= 0)
        close(w->dir);
    w->dir = -1;
}

bool reach_is_last(const struct reach_walk *w)
{
    return w->left[strspn(w->left, "/")] == '\0';
}

int reach_name(struct reach_walk *w, char name[static NAME_MAX + 1])
{
    size_t skip = strspn(w->left, "/");
    size_t len = strcspn(w->left + skip, "/");
    if (len > NAME_MAX)
        return -ENAMETOOLONG;
    memcpy(name, w->left + skip, len);
    name[len] = '\0';
    memmove(w->left, w->left + skip + len, strlen(w->left + skip + len) + 1);
    return len > 0;
}

static int append(char path[static PATH_MAX], const char *name)
{
    size_t used = strlen(path), len = strlen(name);
    if (used + len + 2 > PATH_MAX)
        return -ENAMETOOLONG;
    path[used] = '/';
    memcpy(path + used + 1, name, len + 1);
    return 0;
}

int reach_enter(struct reach_walk *w, const char *name, int fd)
{
    int r = append(w->at, name);
    if (fd >= 0) {
        close(w->dir);
        w->dir = fd;
    }
    return r;
}

int reach_up(struct reach_walk *w)
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

static int read_link(int link, char out[static PATH_MAX])
{
    ssize_t n = readlinkat(link, "", out, PATH_MAX);
    if (n < 0)
        return -errno;
    if (n == 0 || n >= PATH_MAX)
        return -ENAMETOOLONG;
    out[n] = '\0';
    return 0;
}

int reach_follow(struct reach_walk *w, int link)
{
    char target[PATH_MAX];
    if (++w->links > LINKS_MAX)
        return -ELOOP;
    int r = read_link(link, target);
    if (r >= 0)
        r = append(target, w->left);
    if (r < 0)
        return r;
    memcpy(w->left, target, strlen(target) + 1);
    return target[0] == '/' ? open_root(w) : 0;
}

/* ---- which links count ---- */

/* A home is never granted as a whole, whoever asks; nor are these. Not /mnt and /media: what is
 * mounted there may be granted under another name. */
bool reach_is_closed(const char *folder)
{
    static const char *const closed[] = {"", "/etc", "/home", "/root", "/run", "/var", "/var/lib"};
    for (size_t i = 0; i < ARRAY_LEN(closed); i++)
        if (strcmp(folder, closed[i]) == 0)
            return true;
    return text_begins(folder, "/home/") && !strchr(folder + 6, '/');
}

static bool may_follow(const struct reach_walk *w)
{
    struct stat sb;
    return reach_is_closed(w->at) && fstat(w->dir, &sb) == 0 && !(sb.st_mode & 022) &&
           (sb.st_uid == 0 || sb.st_uid == geteuid());
}

/* Resolves the link by its text alone, so that no object is touched that the code may have chosen.
 * `at` has no links. */
static int spell_out(const struct reach_walk *w, int link, char out[static PATH_MAX])
{
    char words[PATH_MAX];
    char *save = NULL;
    int r = read_link(link, words);
    if (r >= 0)
        r = append(words, w->left);
    if (r < 0)
        return r;
    snprintf(out, PATH_MAX, "%s", words[0] == '/' ? "" : w->at);
    for (char *name = strtok_r(words, "/", &save); r >= 0 && name;
         name = strtok_r(NULL, "/", &save)) {
        char *slash = strrchr(out, '/');
        if (strcmp(name, "..") == 0 && slash)
            *slash = '\0';
        else if (strcmp(name, ".") != 0 && strcmp(name, "..") != 0)
            r = append(out, name);
    }
    if (r >= 0 && !out[0])
        snprintf(out, PATH_MAX, "/");
    return r;
}

static int refuse(const struct reach_walk *w, const char *name, int link, struct reached *ret)
{
    if (snprintf(ret->link, sizeof ret->link, "%s/%s", w->at, name) >= (int)sizeof ret->link)
        return -ENAMETOOLONG;
    if (spell_out(w, link, ret->real) < 0)
        ret->real[0] = '\0';
    return -ELOOP;
}

/* /dev/stdin, /proc/self, /dev/fd/3: whatever they say is a link again. */
static bool is_kernels(const char *link)
{
    return text_begins(link, "/proc/") || text_begins(link, "/dev/");
}

int reach_refused(const struct reached *r, const char *what, const char *path, struct err *err)
{
    if (is_kernels(r->link)) {
        err_set(err, ERR_REFUSED, "%s %.180s: %.180s is a link of the kernel's", what, path,
                r->link);
        return err_hint(err, "give a file or folder by its own name");
    }
    err_set(err, ERR_REFUSED,
            "%s %.180s: %.180s is a link, in a folder that a sandbox may have written", what, path,
            r->link);
    return r->real[0] ? err_hint(err, "if that is what you mean, name it without the link: %.200s",
                                 r->real)
                      : err_hint(err, "name the place without the link");
}

/* ---- from a path to a descriptor ---- */

/* 1: go on; 0: there. */
static int step(struct reach_walk *w, const char *name, struct reached *ret)
{
    struct stat sb;
    if (strcmp(name, ".") == 0)
        return 1;
    if (strcmp(name, "..") == 0) {
        int r = reach_up(w);
        return r < 0 ? r : 1;
    }
    cleanup_fd int fd = openat(w->dir, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &sb) < 0)
        return -errno;
    if (S_ISLNK(sb.st_mode)) {
        int r = may_follow(w) ? reach_follow(w, fd) : refuse(w, name, fd, ret);
        return r < 0 ? r : 1;
    }
    bool last = reach_is_last(w);
    if (!last && !S_ISDIR(sb.st_mode))
        return -ENOTDIR;
    int r = reach_enter(w, name, fd_steal(&fd));
    return r < 0 ? r : !last;
}

int reach_open(const char *path, struct reached *ret)
{
    struct reach_walk w;
    char name[NAME_MAX + 1];
    ret->fd = -1;
    ret->path[0] = ret->link[0] = ret->real[0] = '\0';
    int r = reach_begin(&w, path);
    for (bool more = true; r >= 0 && more;) {
        r = reach_name(&w, name);
        more = r > 0;
        if (more) {
            r = step(&w, name, ret);
            more = r > 0;
        }
    }
    if (r >= 0) {
        ret->fd = w.dir;
        w.dir = -1;
        snprintf(ret->path, sizeof ret->path, "%s", w.at[0] ? w.at : "/");
    }
    reach_end(&w);
    return r < 0 ? r : 0;
}

void reach_close(struct reached *r)
{
    if (r->fd >= 0)
        close(r->fd);
    r->fd = -1;
}

int reach_reopen(const struct reached *r, int flags)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", r->fd);
    int fd = open(path, flags | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}
