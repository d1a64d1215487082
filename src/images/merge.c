/* Lays the files of a layer, as names, over those of a root that is being made. Both folders are
 * the store's own, but what names and links stand in them came out of somebody's archive: nothing
 * is followed but by a walk that has the root above it, nothing is opened but folders, and no file
 * that is there is written (FICLONE and copies write new ones).
 *
 * IM-4   First all goes that the layer hides, then its entries come: so it hides nothing of its
 * own. IM-20  A file that images share is never written: a name of it is made or removed, no more.
 */
#include "images/merge.h"

#include "base/cleanup.h"
#include "base/layer_marks.h"
#include "base/quote.h"
#include "base/text.h"
#include "os/fd.h"
#include "os/remove.h"
#include "os/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#define DEPTH_MAX 300
#define LINKS_MAX 40

struct merge {
    int root;
    bool plain; /* a root, in which no name is a mark */
    struct merge_room *room;
    unsigned depth;
    bool lower_links;    /* there were some, which come last */
    char path[PATH_MAX]; /* of the folder of the root that is worked on, without links */
};

/* A folder of the layer, and the one of the root that its entries go to. */
struct place {
    int layer, root;
};

static void place_done(struct place *p)
{
    if (p->layer >= 0)
        close(p->layer);
    if (p->root >= 0)
        close(p->root);
}
#define cleanup_place __attribute__((cleanup(place_done)))

static bool is_mark(const struct merge *m, const char *name)
{
    return !m->plain && text_begins(name, LAYER_WHITEOUT);
}

static int count_entry(struct merge *m, struct err *err)
{
    if (!m->room->entries--) {
        m->room->entries = 0;
        err_set(err, ERR_LIMIT, "the image has more entries than are left for it");
        return err_hint(err, "if it is meant to have that many: --max-entries");
    }
    return 0;
}

static int count_bytes(struct merge *m, off_t size, struct err *err)
{
    if ((uint64_t)size > m->room->bytes) {
        err_set(err, ERR_LIMIT, "the image has more bytes than are left for it");
        return err_hint(err, "if it is meant to be that large: --max-size");
    }
    m->room->bytes -= (uint64_t)size;
    return 0;
}

static int open_folder(int dir, const char *name)
{
    return openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* ---- links on the way ---- */

struct walk {
    const struct merge *m;
    bool make; /* what is missing */
    unsigned links;
    char done[PATH_MAX], left[PATH_MAX];
};

static int open_done(const struct walk *w, int flags)
{
    return sys_openat2(w->m->root, w->done[0] ? w->done : ".",
                       (uint64_t)flags | O_DIRECTORY | O_CLOEXEC, 0,
                       RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS);
}

static int too_long(struct err *err)
{
    return err_set(err, ERR_REFUSED, "a link on the way is too long");
}

static int walk_link(struct walk *w, const char *target, struct err *err)
{
    char left[2 * PATH_MAX + 1];
    if (w->links++ == LINKS_MAX)
        return err_set(err, ERR_REFUSED, "too many links on the way to an entry");
    int len = snprintf(left, sizeof left, "%s/%s", target, w->left);
    if (len < 0 || (size_t)len >= sizeof w->left)
        return too_long(err);
    memcpy(w->left, left, (size_t)len + 1);
    if (target[0] == '/')
        w->done[0] = '\0';
    return 0;
}

static int walk_make(struct walk *w, int dir, const char *name, struct err *err)
{
    struct stat sb;
    if (fstatat(dir, name, &sb, AT_SYMLINK_NOFOLLOW) == 0)
        return 0; /* whether it really is a folder is seen when it is opened */
    if (errno != ENOENT)
        return err_sys(err, "look at a folder of the image");
    if (!w->make)
        return -ENOENT;
    if (count_entry((struct merge *)w->m, err) < 0)
        return err_number(err);
    return mkdirat(dir, name, 0755) == 0 ? 0 : err_sys(err, "make a folder of the image");
}

/* -ENOENT, without a word in `err`: it is not there. */
static int walk_step(struct walk *w, struct err *err)
{
    char name[NAME_MAX + 1], target[PATH_MAX];
    size_t skip = strspn(w->left, "/"), len = strcspn(w->left + skip, "/");
    if (len > NAME_MAX)
        return too_long(err);
    memcpy(name, w->left + skip, len);
    name[len] = '\0';
    memmove(w->left, w->left + skip + len, strlen(w->left + skip + len) + 1);
    if (len == 0 || strcmp(name, ".") == 0)
        return 0;
    if (strcmp(name, "..") == 0) {
        char *slash = strrchr(w->done, '/');
        *(slash ? slash : w->done) = '\0';
        return 0;
    }
    cleanup_fd int dir = open_done(w, O_PATH);
    if (dir < 0)
        return errno == ENOTDIR ? err_set(err, ERR_REFUSED, "an entry lies below a file")
                                : err_sys(err, "enter a folder of the image");
    ssize_t n = readlinkat(dir, name, target, sizeof target - 1);
    if (n > 0) {
        target[n] = '\0';
        return walk_link(w, target, err);
    }
    int r = walk_make(w, dir, name, err);
    size_t at = strlen(w->done);
    if (r == 0 && at + len + 2 > sizeof w->done)
        return too_long(err);
    if (r == 0)
        snprintf(w->done + at, sizeof w->done - at, "%s%s", at ? "/" : "", name);
    return r;
}

/* The folder that a path of the image leads to, its links counted as inside of it. `ret` gets the
 * path without them. -ENOENT as above. */
static int open_in_root(const struct merge *m, const char *path, bool make,
                        char ret[static PATH_MAX], struct err *err)
{
    cleanup_free struct walk *w = calloc(1, sizeof *w);
    if (!w)
        return err_memory(err);
    *w = (struct walk){.m = m, .make = make};
    if (snprintf(w->left, sizeof w->left, "%s", path) >= (int)sizeof w->left)
        return too_long(err);
    int r = 0;
    while (r == 0 && w->left[strspn(w->left, "/")])
        r = walk_step(w, err);
    if (r < 0)
        return r;
    int fd = open_done(w, O_RDONLY);
    if (fd < 0)
        return errno == ENOTDIR ? err_set(err, ERR_REFUSED, "an entry lies below a file")
                                : err_sys(err, "enter a folder of the image");
    snprintf(ret, PATH_MAX, "%s", w->done);
    return fd;
}

/* ---- going down ---- */

/* m->path with one name more; *before is what it was. (On the heap: there are many levels.) */
static int path_add(struct merge *m, const char *name, char **before, struct err *err)
{
    size_t len = strlen(m->path);
    if (!(*before = strdup(m->path)))
        return err_memory(err);
    if (len + strlen(name) + 2 > sizeof m->path)
        return err_set(err, ERR_REFUSED, "an entry lies too deep");
    snprintf(m->path + len, sizeof m->path - len, "%s%s", len ? "/" : "", name);
    return 0;
}

static bool is_via(const struct merge *m, int folder)
{
    struct stat sb;
    return !m->plain && fstatat(folder, LAYER_VIA, &sb, AT_SYMLINK_NOFOLLOW) == 0;
}

static int for_each(const struct merge *m, int dir,
                    int (*fn)(struct merge *m, const struct place *at, const char *name,
                              struct err *err),
                    const struct place *at, struct err *err)
{
    DIR *list = folder_open(dir, ".");
    struct dirent *e;
    int r = 0, more = 0;
    if (!list)
        return err_sys(err, "list a folder of a layer");
    while (r >= 0 && (more = folder_next(list, &e)) > 0)
        r = fn((struct merge *)m, at, e->d_name, err);
    if (r >= 0 && more < 0)
        r = err_sys(err, "list a folder of a layer");
    closedir(list);
    return r;
}

static int remove_name(int dir, const char *name, struct err *err)
{
    struct stat sb;
    if (fstatat(dir, name, &sb, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? 0 : err_sys(err, "look at what is to be replaced");
    if (!S_ISDIR(sb.st_mode))
        return unlinkat(dir, name, 0) == 0 ? 0 : err_sys(err, "remove a name of a root");
    cleanup_fd int inner = open_folder(dir, name);
    int r = inner < 0 ? -errno : remove_folder(dir, name, inner);
    errno = r < 0 ? -r : 0;
    return r < 0 ? err_sys(err, "remove a folder of a root") : 0;
}

/* ---- what the layer hides ---- */

static int hide_inside(struct merge *m, const struct place *at, struct err *err);

static int hide_marked(struct merge *m, const struct place *at, const char *name, struct err *err)
{
    if (!is_mark(m, name))
        return 0;
    if (strcmp(name, LAYER_OPAQUE) == 0) {
        int left = remove_contents(at->root);
        errno = -left;
        return left < 0 ? err_sys(err, "remove what a folder of the layer hides") : 0;
    }
    const char *hidden = name + strlen(LAYER_WHITEOUT);
    bool other = text_begins(name, LAYER_OTHER);
    return other || !hidden[0] ? 0 : remove_name(at->root, hidden, err);
}

/* A folder that the layer brings hides what is no folder; below it there is nothing to hide then.
 */
static int hide_below(struct merge *m, const struct place *at, const char *name, struct err *err)
{
    cleanup_free char *before = NULL;
    if (is_mark(m, name))
        return 0;
    cleanup_place struct place in = {.layer = open_folder(at->layer, name), .root = -1};
    if (in.layer < 0)
        return errno == ENOTDIR || errno == ELOOP ? 0 : err_sys(err, "open a folder of a layer");
    if (path_add(m, name, &before, err) < 0)
        return err_number(err);
    in.root = open_folder(at->root, name);
    if (in.root < 0 && is_via(m, in.layer)) {
        in.root = open_in_root(m, m->path, false, m->path, err);
        if (in.root < 0 && in.root != -ENOENT)
            return err_number(err);
    }
    int r = in.root < 0 ? 0 : hide_inside(m, &in, err);
    snprintf(m->path, sizeof m->path, "%s", before);
    return r;
}

static int hide_inside(struct merge *m, const struct place *at, struct err *err)
{
    if (++m->depth > DEPTH_MAX)
        return err_set(err, ERR_LIMIT, "the layer has folders that lie too deep");
    int r = for_each(m, at->layer, hide_marked, at, err);
    if (r >= 0)
        r = for_each(m, at->layer, hide_below, at, err);
    m->depth--;
    return r;
}

/* ---- what it brings ---- */

static int lay_inside(struct merge *m, const struct place *at, struct err *err);

/* Where the kernel does not copy between the two itself. */
static int copy_plainly(int in, int out, struct err *err)
{
    char chunk[16384];
    ssize_t n;
    while ((n = read(in, chunk, sizeof chunk)) != 0) {
        if (n < 0 && errno != EINTR)
            return err_sys(err, "read a file of the image");
        for (ssize_t at = 0, done; at < n; at += done)
            if ((done = write(out, chunk + at, (size_t)(n - at))) <= 0)
                return err_sys(err, "copy a file of the image");
    }
    return 0;
}

static int copy_bytes(int in, int out, struct err *err)
{
    if (ioctl(out, FICLONE, in) == 0)
        return 0;
    for (;;) {
        ssize_t n = copy_file_range(in, NULL, out, NULL, 1u << 30, 0);
        if (n == 0)
            return 0;
        if (n < 0 && (errno == EXDEV || errno == EOPNOTSUPP || errno == ENOSYS))
            return copy_plainly(in, out, err);
        if (n < 0 && errno != EINTR)
            return err_sys(err, "copy a file of the image");
    }
}

static int copy_file(struct merge *m, int from, const char *name, int to, const char *leaf,
                     const struct stat *sb, struct err *err)
{
    struct timespec times[2] = {sb->st_atim, sb->st_mtim};
    cleanup_fd int in = openat(from, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    cleanup_fd int out =
        in < 0 ? -1 : openat(to, leaf, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (out < 0)
        return err_sys(err, "copy a file of the image");
    if (count_bytes(m, sb->st_size, err) < 0 || copy_bytes(in, out, err) < 0)
        return err_number(err);
    if (fchmod(out, sb->st_mode & 0777) < 0 || futimens(out, times) < 0)
        return err_sys(err, "copy a file of the image");
    return 0;
}

static int copy_link(int from, const char *name, int to, const char *leaf, struct err *err)
{
    char target[PATH_MAX];
    ssize_t n = readlinkat(from, name, target, sizeof target - 1);
    if (n <= 0)
        return err_sys(err, "copy a link of the image");
    target[n] = '\0';
    return symlinkat(target, to, leaf) == 0 ? 0 : err_sys(err, "copy a link of the image");
}

/* IM-20. One more name of a file or link; where the file system cannot give it one, a copy. */
static int put_name(struct merge *m, int from, const char *name, int to, const char *leaf,
                    struct err *err)
{
    struct stat sb, there;
    if (fstatat(from, name, &sb, AT_SYMLINK_NOFOLLOW) < 0)
        return err_sys(err, "look at a file of a layer");
    if (!S_ISREG(sb.st_mode) && !S_ISLNK(sb.st_mode))
        return err_set(err, ERR_REFUSED, "a layer has a file that is none");
    /* brig-unpack sets no set-id bits; one that an attacker took over could have (IM-3). */
    if (sb.st_mode & (S_ISUID | S_ISGID))
        return err_set(err, ERR_REFUSED, "a layer has a file with set-id bits");
    if (fstatat(to, leaf, &there, AT_SYMLINK_NOFOLLOW) == 0) {
        if (there.st_ino == sb.st_ino && there.st_dev == sb.st_dev)
            return 0;
        if (remove_name(to, leaf, err) < 0)
            return err_number(err);
    }
    if (count_entry(m, err) < 0)
        return err_number(err);
    if (linkat(from, name, to, leaf, 0) == 0)
        return 0;
    if (errno != EMLINK && errno != EPERM && errno != EXDEV && errno != EOPNOTSUPP)
        return err_sys(err, "give a file of a layer its name");
    return S_ISLNK(sb.st_mode) ? copy_link(from, name, to, leaf, err)
                               : copy_file(m, from, name, to, leaf, &sb, err);
}

/* Opens the folder of the root that a folder of the layer goes to, and makes it where it is not
 * there. */
static int enter(struct merge *m, const struct place *at, const char *name, bool via,
                 struct err *err)
{
    int fd = open_folder(at->root, name);
    if (fd >= 0)
        return fd;
    if (via)
        return open_in_root(m, m->path, true, m->path, err);
    if (remove_name(at->root, name, err) < 0 || count_entry(m, err) < 0)
        return err_number(err);
    if (mkdirat(at->root, name, 0700) < 0 || (fd = open_folder(at->root, name)) < 0)
        return err_sys(err, "make a folder of the image");
    return fd;
}

static int lay_folder(struct merge *m, const char *name, const struct place *at, int layer,
                      struct err *err)
{
    cleanup_free char *before = NULL;
    struct stat sb;
    bool via = is_via(m, layer);
    struct place in = {.layer = layer, .root = -1};
    if (path_add(m, name, &before, err) < 0)
        return err_number(err);
    cleanup_fd int root = enter(m, at, name, via, err);
    if (root < 0)
        return err_number(err);
    in.root = root;
    if (lay_inside(m, &in, err) < 0)
        return err_number(err);
    snprintf(m->path, sizeof m->path, "%s", before);
    if (via)
        return 0;
    if (fstat(layer, &sb) < 0)
        return err_sys(err, "look at a folder of a layer");
    struct timespec times[2] = {sb.st_mtim, sb.st_mtim};
    if (fchmod(root, sb.st_mode & 01777) < 0 || futimens(root, times) < 0)
        return err_sys(err, "make a folder of the image");
    return 0;
}

static int lay_entry(struct merge *m, const struct place *at, const char *name, struct err *err)
{
    if (is_mark(m, name)) {
        m->lower_links = m->lower_links || text_begins(name, LAYER_LINK);
        return 0;
    }
    cleanup_fd int layer = open_folder(at->layer, name);
    if (layer >= 0)
        return lay_folder(m, name, at, layer, err);
    if (errno != ENOTDIR && errno != ELOOP)
        return err_sys(err, "open a folder of a layer");
    return put_name(m, at->layer, name, at->root, name, err);
}

static int lay_inside(struct merge *m, const struct place *at, struct err *err)
{
    if (++m->depth > DEPTH_MAX)
        return err_set(err, ERR_LIMIT, "the layer has folders that lie too deep");
    int r = for_each(m, at->layer, lay_entry, at, err);
    m->depth--;
    return r;
}

/* ---- hard links to files of lower layers ---- */

static int links_inside(struct merge *m, const struct place *at, struct err *err);

static int no_file(const char *name, struct err *err)
{
    struct quoted q;
    return err_set(err, ERR_REFUSED, "a hard link to %s, which is no file of the image",
                   quote(&q, name));
}

static int put_lower(struct merge *m, const struct place *at, const char *mark, struct err *err)
{
    char text[PATH_MAX], folder[PATH_MAX], ignored[PATH_MAX];
    struct stat sb;
    ssize_t n = readlinkat(at->layer, mark, text, sizeof text - 1);
    if (n <= 0)
        return err_sys(err, "read a mark of a layer");
    text[n] = '\0';
    const char *slash = strrchr(text, '/'), *leaf = slash ? slash + 1 : text;
    const char *name = mark + strlen(LAYER_LINK);
    if (!leaf[0] || strcmp(leaf, ".") == 0 || strcmp(leaf, "..") == 0 || !name[0] ||
        strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
        return no_file(text, err);
    snprintf(folder, sizeof folder, "%.*s", (int)(leaf - text), text);
    cleanup_fd int from = open_in_root(m, folder, false, ignored, err);
    if (from < 0)
        return from == -ENOENT ? no_file(text, err) : from;
    if (fstatat(from, leaf, &sb, AT_SYMLINK_NOFOLLOW) < 0 || S_ISDIR(sb.st_mode))
        return no_file(text, err);
    /* IM-5: as any other name of it. */
    if (count_bytes(m, sb.st_size, err) < 0)
        return err_number(err);
    return put_name(m, from, leaf, at->root, name, err);
}

/* By now each folder of the layer leads somewhere. */
static int links_entry(struct merge *m, const struct place *at, const char *name, struct err *err)
{
    cleanup_free char *before = NULL;
    if (is_mark(m, name))
        return text_begins(name, LAYER_LINK) ? put_lower(m, at, name, err) : 0;
    cleanup_place struct place in = {.layer = open_folder(at->layer, name), .root = -1};
    if (in.layer < 0)
        return errno == ENOTDIR || errno == ELOOP ? 0 : err_sys(err, "open a folder of a layer");
    if (path_add(m, name, &before, err) < 0)
        return err_number(err);
    in.root = open_in_root(m, m->path, false, m->path, err);
    if (in.root < 0)
        return in.root == -ENOENT ? 0 : in.root;
    int r = links_inside(m, &in, err);
    snprintf(m->path, sizeof m->path, "%s", before);
    return r;
}

static int links_inside(struct merge *m, const struct place *at, struct err *err)
{
    if (++m->depth > DEPTH_MAX)
        return err_set(err, ERR_LIMIT, "the layer has folders that lie too deep");
    int r = for_each(m, at->layer, links_entry, at, err);
    m->depth--;
    return r;
}

/* ---- all of it ---- */

int merge_layer(int layer, int root, struct merge_room *room, struct err *err)
{
    struct merge m = {.root = root, .room = room};
    const struct place at = {.layer = layer, .root = root};
    if (hide_inside(&m, &at, err) < 0 || lay_inside(&m, &at, err) < 0)
        return err_number(err);
    return m.lower_links ? links_inside(&m, &at, err) : 0;
}

int merge_root(int from, int root, struct merge_room *room, struct err *err)
{
    struct merge m = {.root = root, .plain = true, .room = room};
    const struct place at = {.layer = from, .root = root};
    return lay_inside(&m, &at, err);
}
