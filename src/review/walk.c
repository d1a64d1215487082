/* Which files differ: the upper layer of an overlay, or a copy, against the project as it is now.
 * Contents are not read here. */
#include "base/cleanup.h"
#include "base/text.h"
#include "os/fd.h"
#include "os/sys.h"
#include "review/review.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>

static const char changed_meanwhile[] = "it was changed on the host after the run began";
static const char made_meanwhile[] = "it was made on the host after the run began";
const char review_gone[] = "it was removed on the host after the run began";

struct walk {
    struct review *r;
    struct err *err;
    char path[REVIEW_PATH_MAX + 1];
    size_t len;
    unsigned depth;
};

/* Where the walk stands in both trees. */
struct place {
    int layer;
    int host;    /* -1: there is no such folder */
    bool opaque; /* what the host has here and the layer has not is deleted */
    bool shaken; /* somebody has changed the nearest folder of the host since the run began */
};

static int walk_folder(struct walk *w, const struct place *at);

/* ---- the list ---- */

struct review_change *review_add(struct review *r, const char *path, enum review_kind kind,
                                 const struct review_stamp *old, const struct review_stamp *new,
                                 struct err *err)
{
    if (r->count == REVIEW_CHANGES_MAX) {
        err_set(err, ERR_LIMIT, "more than %d files were changed", REVIEW_CHANGES_MAX);
        return NULL;
    }
    if (r->count == r->room) {
        size_t room = r->room * 2 + 64;
        struct review_change *more = realloc(r->changes, room * sizeof *more);
        if (!more) {
            err_memory(err);
            return NULL;
        }
        r->changes = more;
        r->room = room;
    }
    struct review_change *c = &r->changes[r->count];
    *c = (struct review_change){.path = strdup(path), .kind = kind, .twin = SIZE_MAX};
    if (!c->path) {
        err_memory(err);
        return NULL;
    }
    c->content = true;
    if (old)
        c->old = *old;
    if (new)
        c->new = *new;
    r->count++;
    return c;
}

static bool push(struct walk *w, const char *name)
{
    size_t more = strlen(name) + (w->len > 0);
    if (w->len + more >= sizeof w->path)
        return false;
    if (w->len)
        w->path[w->len] = '/';
    memcpy(w->path + w->len + (w->len > 0), name, strlen(name) + 1);
    w->len += more;
    return true;
}

static void pop(struct walk *w, size_t len)
{
    w->len = len;
    w->path[len] = '\0';
}

/* ---- RV-4: is the host's file what the code began with? ---- */

/* What cannot be asked is taken for marked. */
static bool says_no_mark(int why)
{
    return why == ENODATA || why == ENOTSUP || path_is_absent(why);
}

/* The overlay marks what it copied up. Where nothing lies below any more, the code has moved it, or
 * the host has removed it meanwhile. */
static bool was_copied_up(int layer, const char *name)
{
    char path[64 + 256];
    snprintf(path, sizeof path, "/proc/self/fd/%d/%s", layer, name);
    return lgetxattr(path, "user.overlay.origin", NULL, 0) >= 0 || !says_no_mark(errno);
}

/* What an apply of brig's own did to the folder is known. */
static bool is_shaken(const struct walk *w, int host)
{
    struct stat sb;
    struct review_stamp now;
    if (w->r->meta.copy || fstat(host, &sb) < 0)
        return false;
    review_stamp(&sb, &now);
    const struct review_base_entry *e =
        review_base_find(&w->r->forgiven, w->path[0] ? w->path : ".");
    return now.ctime_ns > w->r->meta.started_ns && !(e && e->host.ctime_ns == now.ctime_ns);
}

static bool is_forgiven(const struct walk *w, const struct review_stamp *old)
{
    const struct review_base_entry *e = review_base_find(&w->r->forgiven, w->path);
    return e && review_stamp_same(old, &e->host);
}

static const char *conflict_of_copy(struct walk *w, const struct review_stamp *old)
{
    const struct review_base_entry *base = review_base_find(&w->r->base, w->path);
    if (is_forgiven(w, old))
        return NULL;
    if (!base)
        return old->mode ? made_meanwhile : NULL;
    if (!old->mode)
        return review_gone;
    if (S_ISDIR(old->mode) && S_ISDIR(base->host.mode))
        return NULL;
    return review_stamp_same(old, &base->host) ? NULL : changed_meanwhile;
}

/* An overlay keeps no record of what lay below when it was copied up; the time of the last change
 * of the host's inode, which nobody can set back, says whether it was changed since. */
static const char *conflict_of(struct walk *w, const struct review_stamp *old)
{
    if (w->r->meta.copy)
        return conflict_of_copy(w, old);
    if (!old->mode || S_ISDIR(old->mode))
        return NULL;
    return old->ctime_ns > w->r->meta.started_ns && !is_forgiven(w, old) ? changed_meanwhile : NULL;
}

/* A name that could not be looked at is not there (0), or the review cannot be made. */
static int absent(const struct walk *w)
{
    return path_is_absent(errno) ? 0 : err_sys(w->err, "look at %s", w->path);
}

/* ---- deletions ---- */

static int delete_entry(struct walk *w, const struct place *at, const char *name);

static int delete_below(struct walk *w, const struct place *at, const char *name)
{
    int result = 0;
    int fd = openat(at->host, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *list = folder_take(fd);
    if (!list)
        return err_sys(w->err, "list %s", w->path);
    struct place below = {.layer = -1, .host = dirfd(list)};
    struct dirent *e;
    int more = 0;
    while (result >= 0 && (more = folder_next(list, &e)) > 0)
        result = delete_entry(w, &below, e->d_name);
    if (result >= 0 && more < 0)
        result = err_sys(w->err, "list %s", w->path);
    closedir(list);
    return result;
}

static int delete_known(struct walk *w, const struct place *at, const char *name,
                        const struct review_stamp *old, bool itself)
{
    if (itself) {
        struct review_change *c = review_add(w->r, w->path, REVIEW_DELETED, old, NULL, w->err);
        if (!c)
            return -1;
        c->conflict = conflict_of(w, old);
    }
    return S_ISDIR(old->mode) ? delete_below(w, at, name) : 0;
}

static int delete_entry(struct walk *w, const struct place *at, const char *name)
{
    struct stat sb;
    struct review_stamp old;
    size_t len = w->len;
    if (fstatat(at->host, name, &sb, AT_SYMLINK_NOFOLLOW) < 0)
        return path_is_absent(errno) ? 0 : err_sys(w->err, "look at %s in %s", name, w->path);
    if (!push(w, name) || w->depth >= 4 * REVIEW_DEPTH_MAX) {
        pop(w, len);
        return err_set(w->err, ERR_LIMIT, "the paths of the project are too long");
    }
    w->depth++;
    review_stamp(&sb, &old);
    int result = delete_known(w, at, name, &old, true);
    w->depth--;
    pop(w, len);
    return result;
}

/* ---- what is there ---- */

static const char *refuse_kind(mode_t mode)
{
    if (S_ISREG(mode) || S_ISDIR(mode) || S_ISLNK(mode))
        return NULL;
    return S_ISFIFO(mode) ? "it is a FIFO" : S_ISSOCK(mode) ? "it is a socket" : "it is a device";
}

static int add_entry(struct walk *w, const struct place *at, const char *name,
                     const struct review_stamp *old, const struct review_stamp *new)
{
    enum review_kind kind = old->mode ? REVIEW_MODIFIED : REVIEW_ADDED;
    struct review_change *c = review_add(w->r, w->path, kind, old, new, w->err);
    if (!c)
        return -1;
    c->conflict = conflict_of(w, old);
    c->refused = refuse_kind(new->mode);
    c->lost = !old->mode && at->shaken && S_ISREG(new->mode) && was_copied_up(at->layer, name);
    if (S_ISREG(new->mode) && new->size > w->r->meta.limit)
        c->refused = "it is larger than the run's limit for the disk";
    if (text_begins(w->path, REVIEW_STAGING))
        c->refused = "its name is one of brig's own";
    return 0;
}

static int refuse_folder(struct walk *w, const struct review_stamp *new, const char *why)
{
    struct review_change *c = w->r->count ? &w->r->changes[w->r->count - 1] : NULL;
    if (!c || strcmp(c->path, w->path) != 0)
        c = review_add(w->r, w->path, REVIEW_MODIFIED, new, new, w->err);
    if (c)
        c->refused = why;
    return c ? 0 : -1;
}

static bool marked(int fd, const char *name)
{
    char value[4];
    ssize_t n = fgetxattr(fd, name, value, sizeof value);
    return n > 0 || (n < 0 && !says_no_mark(errno));
}

static int is_top_opaque(const struct review *r, struct err *err)
{
    char value[4];
    ssize_t n = r->meta.copy ? 0 : fgetxattr(r->layer, "user.overlay.opaque", value, sizeof value);
    if (n < 0 && errno != ERANGE && !says_no_mark(errno))
        return err_sys(err, "look at what the run changed");
    return n > 0 || (n < 0 && errno == ERANGE);
}

/* RV-3: an overlay as brig mounts it makes no such marks; what they would say is not obeyed. */
static bool is_redirected(int fd)
{
    return marked(fd, "user.overlay.redirect") || marked(fd, "user.overlay.metacopy");
}

static int walk_below(struct walk *w, const struct place *at, const char *name,
                      const struct review_stamp *new, bool merged)
{
    struct place below = *at;
    cleanup_fd int layer = openat(at->layer, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (layer < 0)
        return refuse_folder(w, new, "it cannot be read");
    if (w->depth >= REVIEW_DEPTH_MAX)
        return refuse_folder(w, new, "it lies too deep");
    cleanup_fd int host =
        merged ? openat(at->host, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) : -1;
    if (merged && host < 0)
        return err_sys(w->err, "open %s of the project", w->path);
    if (!w->r->meta.copy && is_redirected(layer))
        return refuse_folder(w, new, "it carries a mark that brig does not make");
    below.layer = layer;
    below.host = host;
    below.opaque = at->opaque || (!w->r->meta.copy && marked(layer, "user.overlay.opaque"));
    if (host >= 0)
        below.shaken = is_shaken(w, host);
    w->depth++;
    int result = walk_folder(w, &below);
    w->depth--;
    return result;
}

static int take_folder(struct walk *w, const struct place *at, const char *name,
                       const struct review_stamp *old, const struct review_stamp *new)
{
    bool merged = S_ISDIR(old->mode);
    uint32_t mode = old->mode;
    const struct review_base_entry *base =
        w->r->meta.copy ? review_base_find(&w->r->base, w->path) : NULL;
    bool was_there = base && S_ISDIR(base->layer.mode);
    if (was_there)
        mode = base->layer.mode;
    if (!merged && !was_there && add_entry(w, at, name, old, new) < 0)
        return -1;
    if (merged && ((mode ^ new->mode) & 0777)) {
        if (add_entry(w, at, name, old, new) < 0)
            return -1;
        w->r->changes[w->r->count - 1].content = false;
    }
    return walk_below(w, at, name, new, merged);
}

/* Gone again, for the code still runs; or the code keeps us from looking at it. */
static int unseen(struct walk *w)
{
    const struct review_stamp none = {.mode = S_IFREG};
    return errno == EACCES ? refuse_folder(w, &none, "it cannot be read") : absent(w);
}

static bool is_whiteout(const struct stat *sb)
{
    return S_ISCHR(sb->st_mode) && sb->st_rdev == 0;
}

/* The copy's: as it was made? */
static bool is_untouched(struct walk *w, const struct review_stamp *new)
{
    struct review_base_entry *base = review_base_find(&w->r->base, w->path);
    if (!base)
        return false;
    base->seen = true;
    return !S_ISDIR(new->mode) && review_stamp_same(&base->layer, new);
}

static int take_entry(struct walk *w, const struct place *at, const char *name)
{
    struct stat sb;
    struct review_stamp old = {0}, new;
    if (fstatat(at->layer, name, &sb, AT_SYMLINK_NOFOLLOW) < 0)
        return unseen(w);
    review_stamp(&sb, &new);
    bool whiteout = !w->r->meta.copy && is_whiteout(&sb);
    if (w->r->meta.copy && is_untouched(w, &new))
        return 0;
    if (at->host >= 0 && fstatat(at->host, name, &sb, AT_SYMLINK_NOFOLLOW) == 0)
        review_stamp(&sb, &old);
    else if (at->host >= 0 && absent(w) < 0)
        return -1;
    if (whiteout)
        return old.mode ? delete_known(w, at, name, &old, true) : 0;
    if (S_ISDIR(new.mode))
        return take_folder(w, at, name, &old, &new);
    if (S_ISDIR(old.mode) && !w->r->meta.copy && delete_known(w, at, name, &old, false) < 0)
        return -1;
    return add_entry(w, at, name, &old, &new);
}

/* An opaque folder covers all of the host's, also what it does not have itself. */
static int take_missing(struct walk *w, const struct place *at)
{
    int result = 0;
    struct stat sb;
    DIR *list = folder_open(at->host, ".");
    if (!list)
        return err_sys(w->err, "list %s", w->path);
    struct dirent *e;
    int more = 0;
    while (result >= 0 && (more = folder_next(list, &e)) > 0)
        if (fstatat(at->layer, e->d_name, &sb, AT_SYMLINK_NOFOLLOW) < 0)
            result = errno == EACCES ? 0 : absent(w) < 0 ? -1 : delete_entry(w, at, e->d_name);
    if (result >= 0 && more < 0)
        result = err_sys(w->err, "list %s", w->path);
    closedir(list);
    return result;
}

static int walk_folder(struct walk *w, const struct place *at)
{
    int result = 0;
    size_t len = w->len;
    DIR *list = folder_open(at->layer, ".");
    if (!list)
        return err_sys(w->err, "list %s", w->path);
    struct dirent *e;
    int more = 0;
    while (result >= 0 && (more = folder_next(list, &e)) > 0) {
        if (!push(w, e->d_name)) {
            struct review_stamp none = {.mode = S_IFDIR};
            result = refuse_folder(w, &none, "paths in it are too long");
            break;
        }
        result = take_entry(w, at, e->d_name);
        pop(w, len);
    }
    if (result >= 0 && more < 0)
        result = err_sys(w->err, "list %s", w->path);
    closedir(list);
    return result < 0 || !at->opaque || at->host < 0 ? result : take_missing(w, at);
}

/* What the host has made since in a folder that the code has removed. */
static int take_strangers(struct walk *w, int parent, const char *leaf)
{
    int result = 0;
    int fd = openat(parent, leaf, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *list = folder_take(fd);
    if (!list && absent(w) < 0)
        result = -1;
    size_t len = w->len = strlen(w->path);
    struct place here = {.layer = -1, .host = list ? dirfd(list) : -1};
    struct dirent *e;
    int more = 0;
    while (list && result >= 0 && (more = folder_next(list, &e)) > 0) {
        if (!push(w, e->d_name))
            continue;
        bool known = review_base_find(&w->r->base, w->path);
        pop(w, len);
        result = known ? 0 : delete_entry(w, &here, e->d_name);
    }
    if (result >= 0 && more < 0)
        result = err_sys(w->err, "list %s", w->path);
    if (list)
        closedir(list);
    return result;
}

/* What was copied and is not there any more. */
static int take_unseen(struct walk *w)
{
    for (size_t i = 0; i < w->r->base.count; i++) {
        const struct review_base_entry *base = &w->r->base.items[i];
        struct stat sb;
        struct review_stamp old;
        const char *leaf;
        if (base->seen || strlen(base->path) >= sizeof w->path)
            continue;
        memcpy(w->path, base->path, strlen(base->path) + 1);
        cleanup_fd int parent = review_parent_at(w->r->project, base->path, &leaf);
        if (parent < 0 || fstatat(parent, leaf, &sb, AT_SYMLINK_NOFOLLOW) < 0) {
            if (errno != EXDEV && absent(w) < 0)
                return -1;
            continue;
        }
        review_stamp(&sb, &old);
        struct review_change *c = review_add(w->r, w->path, REVIEW_DELETED, &old, NULL, w->err);
        if (!c)
            return -1;
        c->conflict = conflict_of_copy(w, &old);
        if (S_ISDIR(old.mode) && take_strangers(w, parent, leaf) < 0)
            return -1;
    }
    return 0;
}

static int by_path(const void *a, const void *b)
{
    return strcmp(((const struct review_change *)a)->path, ((const struct review_change *)b)->path);
}

struct review_change *review_get(const struct review *r, const char *path)
{
    struct review_change key = {.path = (char *)path};
    return r->count ? bsearch(&key, r->changes, r->count, sizeof key, by_path) : NULL;
}

int review_walk(struct review *r, struct err *err)
{
    struct err mine = ERR_INIT;
    struct walk w = {.r = r, .err = &mine};
    int result = is_top_opaque(r, &mine);
    struct place top = {.layer = r->layer,
                        .host = r->project,
                        .opaque = result > 0,
                        .shaken = is_shaken(&w, r->project)};
    if (result >= 0)
        result = walk_folder(&w, &top);
    if (result >= 0 && r->meta.copy)
        result = take_unseen(&w);
    if (r->count)
        qsort(r->changes, r->count, sizeof *r->changes, by_path);
    if (result < 0 && err)
        *err = mine;
    return result < 0 ? -(mine.code ? mine.code : ERR_INTERNAL) : 0;
}
