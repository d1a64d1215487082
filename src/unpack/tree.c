/* The folder that is filled: names, links on the way, replacing, marks. One process works on it,
 * and nobody else does, so that what was looked at stays as it was. */
#include "unpack/unpack.h"

#include "base/cleanup.h"
#include "base/layer_marks.h"
#include "base/quote.h"
#include "base/text.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define LINKS_MAX 40

/* ---- names ---- */

static int bad_name(const char *name, const char *why, struct err *err)
{
    struct quoted q;
    return err_set(err, ERR_REFUSED, "the entry %s %s", quote(&q, name), why);
}

int tree_name(const char *name, char ret[static UNPACK_NAME_MAX], struct err *err)
{
    size_t len = 0;
    unsigned depth = 0;
    const char *at = name;
    if (*at == '/')
        return bad_name(name, "has an absolute name", err);
    ret[0] = '\0';
    while (*at) {
        size_t part = strcspn(at, "/");
        bool here = part == 0 || (part == 1 && at[0] == '.');
        if (part == 2 && at[0] == '.' && at[1] == '.')
            return bad_name(name, "climbs out of the image", err);
        if (part > NAME_MAX || len + part + 2 > UNPACK_NAME_MAX)
            return bad_name(name, "has too long a name", err);
        if (!here && ++depth > UNPACK_DEPTH_MAX)
            return bad_name(name, "lies too deep", err);
        if (!here) {
            if (len)
                ret[len++] = '/';
            memcpy(ret + len, at, part);
            ret[len += part] = '\0';
        }
        at += part + (at[part] == '/');
    }
    return 0;
}

int tree_init(struct tree *t, int root, bool marks, uint64_t most, struct err *err)
{
    *t = (struct tree){.root = root, .marks = marks, .most = most, .parent = -1};
    t->parent = openat(root, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return t->parent < 0 ? err_sys(err, "open the folder to unpack to") : 0;
}

int tree_count(struct tree *t, struct err *err)
{
    if (t->entries < t->most) {
        t->entries++;
        return 0;
    }
    err_set(err, ERR_LIMIT, "it has more than the %" PRIu64 " entries that are left for it",
            t->most);
    return err_hint(err, "if it is meant to have that many: --max-entries");
}

/* Of a path below the root: what was walked has no link in it, so that going up is a matter of
 * text. */
struct walk {
    int dir;
    unsigned links;
    char done[UNPACK_NAME_MAX];
    char left[UNPACK_NAME_MAX];
};

static void walk_done(struct walk *w)
{
    if (w->dir >= 0)
        close(w->dir);
}

/* From the root again, with `first` before what is left. */
static int walk_again(struct walk *w, const struct tree *t, const char *first, struct err *err)
{
    char left[2 * UNPACK_NAME_MAX];
    int len = snprintf(left, sizeof left, "%s/%s", first, w->left);
    if (len < 0 || (size_t)len >= sizeof w->left)
        return err_set(err, ERR_REFUSED, "a link on the way is too long");
    memcpy(w->left, left, (size_t)len + 1);
    w->done[0] = '\0';
    if (w->dir >= 0)
        close(w->dir);
    w->dir = openat(t->root, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return w->dir < 0 ? err_sys(err, "open the folder to unpack to") : 0;
}

static int walk_up(struct walk *w, const struct tree *t, struct err *err)
{
    char up[UNPACK_NAME_MAX];
    snprintf(up, sizeof up, "%s", w->done);
    char *slash = strrchr(up, '/');
    *(slash ? slash : up) = '\0';
    return walk_again(w, t, up, err);
}

/* A link counts as inside the image: an absolute one begins at its root, and nothing is above it.
 */
static int walk_link(struct walk *w, const struct tree *t, const char *name, struct err *err)
{
    char target[PATH_MAX], path[PATH_MAX + UNPACK_NAME_MAX];
    ssize_t n = readlinkat(w->dir, name, target, sizeof target - 1);
    if (n <= 0 || w->links++ == LINKS_MAX)
        return err_set(err, ERR_REFUSED, "too many links on the way to an entry");
    target[n] = '\0';
    snprintf(path, sizeof path, "%s/%s", target[0] == '/' ? "" : w->done, target);
    return walk_again(w, t, path, err);
}

int tree_mark(int dir, const char *name, struct err *err)
{
    cleanup_fd int fd =
        openat(dir, name, O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
    return fd < 0 ? err_sys(err, "mark what a layer hides") : 0;
}

/* A folder that no entry names is one more to whoever keeps, hashes or copies the tree: a name may
 * bring hundreds of them (IM-5). */
static int walk_make(struct tree *t, const struct walk *w, const char *name, struct err *err)
{
    char via[NAME_MAX + sizeof "/" LAYER_VIA];
    if (tree_count(t, err) < 0)
        return err_number(err);
    if (mkdirat(w->dir, name, 0755) < 0)
        return err_sys(err, "make a folder of the image");
    snprintf(via, sizeof via, "%s/" LAYER_VIA, name);
    return t->marks ? tree_mark(w->dir, via, err) : 0;
}

/* A mark is nothing that an entry could lie in. */
static bool is_mark(const struct tree *t, const char *name)
{
    return t->marks && text_begins(name, LAYER_WHITEOUT);
}

static int walk_into(struct walk *w, struct tree *t, const char *name, struct err *err)
{
    size_t len = strlen(w->done);
    int next = openat(w->dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (next < 0 && errno == ENOENT) {
        if (walk_make(t, w, name, err) < 0)
            return err_number(err);
        next = openat(w->dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    }
    if (next < 0)
        return errno == ENOTDIR ? err_set(err, ERR_REFUSED, "an entry lies below a file")
                                : err_sys(err, "enter a folder of the image");
    close(w->dir);
    w->dir = next;
    if (len + strlen(name) + 2 > sizeof w->done)
        return err_set(err, ERR_REFUSED, "a link on the way is too long");
    snprintf(w->done + len, sizeof w->done - len, "%s%s", len ? "/" : "", name);
    return 0;
}

static int walk_step(struct walk *w, struct tree *t, struct err *err)
{
    char name[NAME_MAX + 1];
    struct stat sb;
    size_t skip = strspn(w->left, "/"), len = strcspn(w->left + skip, "/");
    if (len > NAME_MAX)
        return err_set(err, ERR_REFUSED, "a link on the way has too long a name");
    memcpy(name, w->left + skip, len);
    name[len] = '\0';
    memmove(w->left, w->left + skip + len, strlen(w->left + skip + len) + 1);
    if (len == 0 || strcmp(name, ".") == 0)
        return 0;
    if (strcmp(name, "..") == 0)
        return walk_up(w, t, err);
    if (is_mark(t, name))
        return err_set(err, ERR_REFUSED, "an entry lies below a whiteout");
    if (fstatat(w->dir, name, &sb, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(sb.st_mode))
        return walk_link(w, t, name, err);
    return walk_into(w, t, name, err);
}

int tree_parent(struct tree *t, const char *name, const char **leaf, struct err *err)
{
    struct walk w = {.dir = -1};
    const char *slash = strrchr(name, '/');
    size_t len = slash ? (size_t)(slash - name) : 0;
    *leaf = slash ? slash + 1 : name;
    if (strlen(t->parent_name) == len && memcmp(t->parent_name, name, len) == 0)
        return t->parent;
    snprintf(w.left, sizeof w.left, "%.*s", (int)len, name);
    int result = walk_again(&w, t, "", err);
    while (result == 0 && w.left[strspn(w.left, "/")])
        result = walk_step(&w, t, err);
    if (result < 0) {
        walk_done(&w);
        return result;
    }
    close(t->parent);
    t->parent = w.dir;
    memcpy(t->parent_name, name, len);
    t->parent_name[len] = '\0';
    return t->parent;
}

/* ---- removing ---- */

static int remove_inside(int dir, struct err *err);

static int remove_one(int dir, const char *name, struct err *err)
{
    struct stat sb;
    if (fstatat(dir, name, &sb, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? 0 : err_sys(err, "look at what is there already");
    if (!S_ISDIR(sb.st_mode))
        return unlinkat(dir, name, 0) == 0 ? 0 : err_sys(err, "remove a file");
    cleanup_fd int inner = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (inner < 0)
        return err_sys(err, "open a folder that is to be replaced");
    if (remove_inside(inner, err) < 0)
        return err_number(err);
    return unlinkat(dir, name, AT_REMOVEDIR) == 0 ? 0 : err_sys(err, "remove a folder");
}

static int remove_inside(int dir, struct err *err)
{
    int copy = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *list = copy < 0 ? NULL : fdopendir(copy);
    int result = 0;
    if (!list) {
        err_sys(err, "list a folder of the image");
        if (copy >= 0)
            close(copy);
        return err_number(err);
    }
    for (struct dirent *e; result == 0 && (errno = 0, e = readdir(list));)
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            result = remove_one(dir, e->d_name, err);
    if (result == 0 && errno) /* the list broke off: this is not its end */
        result = err_sys(err, "list a folder of the image");
    closedir(list);
    return result;
}

int tree_clear(int dir, const char *leaf, bool keep_folder, struct err *err)
{
    struct stat sb;
    if (fstatat(dir, leaf, &sb, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? 0 : err_sys(err, "look at what is there already");
    return S_ISDIR(sb.st_mode) && keep_folder ? 0 : remove_one(dir, leaf, err);
}
