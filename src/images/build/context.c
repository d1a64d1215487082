/* COPY and ADD: files of the context, or of another image, as a layer. Names are taken apart, each
 * step is one folder that is held; what lies there may be changed by somebody else meanwhile
 * (IM-15).
 */
#include "images/build/build.h"

#include "base/cleanup.h"
#include "base/quote.h"
#include "base/text.h"
#include "os/fd.h"
#include "os/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define DEPTH_MAX 200
#define FOUND_MAX 600000

/* ---- places ---- */

static void drop_last(char *path, size_t *len)
{
    while (*len > 1 && path[--*len] != '/')
        ;
    path[*len ? *len : 1] = '\0';
}

static int add_part(char *path, size_t *len, const char *part, size_t part_len, struct err *err)
{
    if (*len + part_len + 3 > PATH_MAX || part_len > NAME_MAX)
        return err_set(err, ERR_USAGE, "a path that is too long");
    if (*len > 1)
        path[(*len)++] = '/';
    memcpy(path + *len, part, part_len);
    *len += part_len;
    path[*len] = '\0';
    return 0;
}

static int add_parts(char *path, size_t *len, const char *text, struct err *err)
{
    for (size_t part; *text; text += part + (text[part] == '/')) {
        part = strcspn(text, "/");
        if (part == 2 && text[0] == '.' && text[1] == '.')
            drop_last(path, len);
        else if (part && !(part == 1 && text[0] == '.') && add_part(path, len, text, part, err) < 0)
            return err_number(err);
    }
    return 0;
}

int context_place(const char *folder, const char *path, char ret[static PATH_MAX], struct err *err)
{
    size_t len = 1, last = strlen(path);
    memcpy(ret, "/", 2);
    if (path[0] != '/' && add_parts(ret, &len, folder, err) < 0)
        return err_number(err);
    if (add_parts(ret, &len, path, err) < 0)
        return err_number(err);
    const char *leaf = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
    bool is_folder = !last || !*leaf || strcmp(leaf, ".") == 0 || strcmp(leaf, "..") == 0;
    if (is_folder && len > 1)
        memcpy(ret + len, "/", 2);
    return 0;
}

/* As the image sees it, where nothing is above its root. */
bool context_has_folder(int tree, const char *path)
{
    path += strspn(path, "/");
    cleanup_fd int fd = sys_openat2(tree, *path ? path : ".", O_PATH | O_DIRECTORY | O_CLOEXEC, 0,
                                    RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS);
    return fd >= 0;
}

/* ---- one entry ---- */

struct entry {
    int dir; /* in which it lies */
    const char *leaf;
    char from[PATH_MAX]; /* in the context, for the ignore file and for messages */
    char to[PATH_MAX];   /* in the image, without the first slash */
    unsigned depth;
};

static int copy_folder(struct copying *c, struct entry *e, int fd, struct err *err);

static int refuse(const struct entry *e, const char *why, struct err *err)
{
    struct quoted q;
    return err_set(err, ERR_REFUSED, "%s %s", quote(&q, e->from), why);
}

static mode_t mode_of(const struct copying *c, const struct stat *sb)
{
    return c->mode >= 0 ? (mode_t)c->mode : sb->st_mode & 0777;
}

static int count(struct copying *c, uint64_t bytes, struct err *err)
{
    if (!c->left_entries || bytes > c->left_bytes)
        return err_set(err, ERR_LIMIT, "%s has more than an image may have", c->of);
    c->left_entries--;
    c->left_bytes -= bytes;
    return 0;
}

static int copy_file(struct copying *c, const struct entry *e, struct err *err)
{
    struct stat sb;
    cleanup_fd int fd =
        openat(e->dir, e->leaf, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &sb) < 0)
        return err_sys(err, "read a file of %s", c->of);
    if (!S_ISREG(sb.st_mode))
        return refuse(e, "changed while it was read", err);
    if (count(c, (uint64_t)sb.st_size, err) < 0)
        return err_number(err);
    return tar_file(c->tar, e->to, fd, (uint64_t)sb.st_size, mode_of(c, &sb), sb.st_mtime, c->of,
                    err);
}

static int copy_link(struct copying *c, const struct entry *e, const struct stat *sb,
                     struct err *err)
{
    char target[PATH_MAX];
    ssize_t n = readlinkat(e->dir, e->leaf, target, sizeof target - 1);
    if (n <= 0 || count(c, 0, err) < 0)
        return n <= 0 ? err_sys(err, "read a link of %s", c->of) : err_number(err);
    target[n] = '\0';
    return tar_link(c->tar, e->to, target, sb->st_mtime, err);
}

/* A folder that the image has keeps its mode, and stays the link that it may be there. */
static int make_folder(struct copying *c, const char *to, mode_t mode, time_t time, struct err *err)
{
    if (!*to || context_has_folder(c->tree, to))
        return 0;
    return count(c, 0, err) < 0 ? err_number(err) : tar_folder(c->tar, to, mode, time, err);
}

static int copy_entry(struct copying *c, struct entry *e, struct err *err)
{
    struct stat sb;
    if (text_begins(e->leaf, ".wh."))
        return refuse(e, "has a name that means something else in a layer", err);
    if (fstatat(e->dir, e->leaf, &sb, AT_SYMLINK_NOFOLLOW) < 0)
        return err_sys(err, "look at a file of %s", c->of);
    if (S_ISREG(sb.st_mode))
        return copy_file(c, e, err);
    if (S_ISLNK(sb.st_mode))
        return copy_link(c, e, &sb, err);
    if (!S_ISDIR(sb.st_mode))
        return refuse(e, "is a device, a FIFO or a socket", err);
    cleanup_fd int fd = openat(e->dir, e->leaf, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return err_sys(err, "open a folder of %s", c->of);
    if (make_folder(c, e->to, mode_of(c, &sb), sb.st_mtime, err) < 0)
        return err_number(err);
    return copy_folder(c, e, fd, err);
}

static int join(char path[static PATH_MAX], const char *folder, const char *leaf, struct err *err)
{
    int len = snprintf(path, PATH_MAX, "%s%s%s", folder, *folder ? "/" : "", leaf);
    return len < 0 || len >= PATH_MAX ? err_set(err, ERR_LIMIT, "a path that is too long") : 0;
}

static bool is_ignored(const struct copying *c, const char *path)
{
    return c->ignore && ignore_has(c->ignore, path);
}

static int copy_member(struct copying *c, const struct entry *e, int fd, const char *leaf,
                       struct err *err)
{
    cleanup_free struct entry *inner = malloc(sizeof *inner);
    struct stat sb;
    if (!inner)
        return err_memory(err);
    inner->dir = fd;
    inner->leaf = leaf;
    inner->depth = e->depth + 1;
    if (join(inner->from, e->from, leaf, err) < 0 || join(inner->to, e->to, leaf, err) < 0)
        return err_number(err);
    if (!is_ignored(c, inner->from))
        return copy_entry(c, inner, err);
    /* What is in it may be an exception. */
    if (fstatat(fd, leaf, &sb, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISDIR(sb.st_mode))
        return 0;
    cleanup_fd int below = openat(fd, leaf, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return below < 0 ? 0 : copy_folder(c, inner, below, err);
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static int not_dots(const struct dirent *e)
{
    return strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
}

/* Sorted, so that the same context makes the same layer. */
static int list_folder(int fd, struct words *ret, struct err *err)
{
    char path[64];
    struct dirent **list = NULL;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    int n = scandir(path, &list, not_dots, by_name);
    int r = n < 0 ? err_sys(err, "list a folder") : 0;
    for (int i = 0; i < n; i++) {
        if (r >= 0)
            r = words_add(ret, list[i]->d_name, strlen(list[i]->d_name), err);
        free(list[i]);
    }
    free(list);
    return r;
}

static int copy_folder(struct copying *c, struct entry *e, int fd, struct err *err)
{
    struct words names = {.most = FOUND_MAX};
    if (e->depth > DEPTH_MAX)
        return refuse(e, "lies too deep", err);
    int r = list_folder(fd, &names, err);
    for (size_t i = 0; r >= 0 && i < names.count; i++)
        r = copy_member(c, e, fd, names.items[i], err);
    words_done(&names);
    return r;
}

/* ---- sources ---- */

/* A source as it is written, which may be a pattern: the paths that it stands for. */
struct finding {
    const struct copying *c;
    struct words paths;
};

static int find_below(struct finding *f, int dir, const char *done, const char *left,
                      struct err *err);

static int found(struct finding *f, int dir, const char *path, const char *leaf, const char *left,
                 struct err *err)
{
    left += strspn(left, "/");
    if (!*left)
        return words_add(&f->paths, path, strlen(path), err);
    cleanup_fd int fd = openat(dir, leaf, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd < 0 ? 0 : find_below(f, fd, path, left, err);
}

static int find_below(struct finding *f, int dir, const char *done, const char *left,
                      struct err *err)
{
    char part[NAME_MAX + 1], path[PATH_MAX];
    struct words names = {.most = FOUND_MAX};
    size_t len = strcspn(left, "/");
    if (len > NAME_MAX)
        return err_set(err, ERR_USAGE, "a source with too long a name");
    memcpy(part, left, len);
    part[len] = '\0';
    int r = list_folder(dir, &names, err);
    for (size_t i = 0; r >= 0 && i < names.count; i++)
        if (fnmatch(part, names.items[i], 0) == 0 &&
            (r = join(path, done, names.items[i], err)) >= 0)
            r = found(f, dir, path, names.items[i], left + len, err);
    words_done(&names);
    return r;
}

/* Without a slash at either end; nothing that climbs. */
static int clean_source(const char *source, char ret[static PATH_MAX], struct err *err)
{
    struct quoted q;
    size_t len = 1;
    for (const char *at = source; (at = strstr(at, "..")); at += 2)
        if ((at == source || at[-1] == '/') && (!at[2] || at[2] == '/')) {
            err_set(err, ERR_REFUSED, "%s climbs out of the context", quote(&q, source));
            return err_hint(err, "only what lies in the folder that is given to brig image build "
                                 "can be copied");
        }
    memcpy(ret, "/", 2);
    if (add_parts(ret, &len, source, err) < 0)
        return err_number(err);
    memmove(ret, ret + 1, len);
    return 0;
}

static int find_sources(struct finding *f, const char *source, struct err *err)
{
    char clean[PATH_MAX];
    struct quoted q;
    size_t before = f->paths.count;
    if (clean_source(source, clean, err) < 0)
        return err_number(err);
    if (!strpbrk(clean, "*?["))
        return words_add(&f->paths, clean, strlen(clean), err);
    if (find_below(f, f->c->from, "", clean, err) < 0)
        return err_number(err);
    return f->paths.count > before
               ? 0
               : err_set(err, ERR_REFUSED, "nothing in %s fits %s", f->c->of, quote(&q, source));
}

/* The folder that a path lies in. In the context no link on the way counts: it could have been put
 * there to lead out, and where it leads within can be written as well. */
static int open_parent(const struct copying *c, const char *path, const char **leaf,
                       struct err *err)
{
    char folder[PATH_MAX];
    struct quoted q;
    const char *slash = strrchr(path, '/');
    *leaf = slash ? slash + 1 : *path ? path : ".";
    snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - path) : 1, slash ? path : ".");
    int fd = sys_openat2(c->from, folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0,
                         c->is_image ? RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS
                                     : RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
    if (fd < 0 && errno == ELOOP) {
        err_set(err, ERR_REFUSED, "a link is on the way to %s", quote(&q, path));
        return err_hint(err, "write the path without it");
    }
    return fd < 0 ? err_set(err, ERR_REFUSED, "there is no %s in %s", quote(&q, path), c->of) : fd;
}

static int check_source(const struct copying *c, int dir, const char *leaf, const char *path,
                        struct stat *sb, struct err *err)
{
    struct quoted q;
    if (is_ignored(c, path) || fstatat(dir, leaf, sb, AT_SYMLINK_NOFOLLOW) < 0)
        return err_set(err, ERR_REFUSED, "there is no %s in %s%s", quote(&q, path), c->of,
                       is_ignored(c, path) ? ": .dockerignore leaves it out" : "");
    if (!S_ISLNK(sb->st_mode) || c->is_image)
        return 0;
    err_set(err, ERR_REFUSED, "%s is a link", quote(&q, path));
    return err_hint(err, "name what it leads to; links inside of a folder are copied as links");
}

/* Of a folder all that is in it is meant. */
static int copy_source(struct copying *c, const char *path, const char *dest, bool into,
                       struct err *err)
{
    const char *leaf;
    struct stat sb = {0};
    cleanup_free struct entry *e = calloc(1, sizeof *e);
    if (!e)
        return err_memory(err);
    cleanup_fd int dir = open_parent(c, path, &leaf, err);
    if (dir < 0 || check_source(c, dir, leaf, path, &sb, err) < 0)
        return err_number(err);
    e->dir = dir;
    e->leaf = leaf;
    snprintf(e->from, sizeof e->from, "%s", path);
    snprintf(e->to, sizeof e->to, "%s", dest + 1);
    size_t len = strlen(e->to);
    if (len && e->to[len - 1] == '/')
        e->to[len - 1] = '\0';
    if (!S_ISDIR(sb.st_mode) && into) {
        char folder[PATH_MAX];
        memcpy(folder, e->to, sizeof folder);
        if (join(e->to, folder, leaf, err) < 0)
            return err_number(err);
    }
    if (!S_ISDIR(sb.st_mode))
        return e->to[0] ? copy_entry(c, e, err) : refuse(e, "cannot be the root", err);
    cleanup_fd int fd = openat(dir, leaf, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return err_sys(err, "open a folder of %s", c->of);
    if (make_folder(c, e->to, c->mode >= 0 ? (mode_t)c->mode : 0755, sb.st_mtime, err) < 0)
        return err_number(err);
    return copy_folder(c, e, fd, err);
}

int context_copy(struct copying *c, const struct words *sources, const char *dest, struct err *err)
{
    struct finding f = {.c = c, .paths = {.most = FOUND_MAX}};
    int r = 0;
    for (size_t i = 0; r >= 0 && i < sources->count; i++)
        r = find_sources(&f, sources->items[i], err);
    bool is_folder = dest[strlen(dest) - 1] == '/';
    if (r >= 0 && f.paths.count > 1 && !is_folder)
        r = err_set(err, ERR_USAGE, "several sources: what they are copied to must end in /");
    bool into = is_folder || context_has_folder(c->tree, dest);
    for (size_t i = 0; r >= 0 && i < f.paths.count; i++)
        r = copy_source(c, f.paths.items[i], dest, into, err);
    words_done(&f.paths);
    return r;
}

int context_copy_all(struct copying *c, int from, const char *dest, struct err *err)
{
    cleanup_free struct entry *e = calloc(1, sizeof *e);
    if (!e)
        return err_memory(err);
    snprintf(e->to, sizeof e->to, "%s", dest + 1);
    size_t len = strlen(e->to);
    if (len && e->to[len - 1] == '/')
        e->to[len - 1] = '\0';
    if (make_folder(c, e->to, 0755, 0, err) < 0)
        return err_number(err);
    return copy_folder(c, e, from, err);
}

int context_open_file(const struct copying *c, const char *source)
{
    char clean[PATH_MAX];
    struct err ignored = ERR_INIT;
    struct stat sb;
    if (strpbrk(source, "*?[") || clean_source(source, clean, &ignored) < 0 || is_ignored(c, clean))
        return -1;
    cleanup_fd int fd = sys_openat2(c->from, clean, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0,
                                    RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
    return fd >= 0 && fstat(fd, &sb) == 0 && S_ISREG(sb.st_mode) ? fd_steal(&fd) : -1;
}
