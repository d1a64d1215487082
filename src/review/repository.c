/* RV-6, for repositories that are not called .git: whoever starts git in a folder that has HEAD,
 * objects and refs is in a repository, and git obeys its config (fsmonitor, hooks, filters).
 *
 * What counts is what would be there if everything were applied: names of the changes, and names
 * that the host has already. So the change that completes one is marked, in whatever order, and in
 * how many runs, the parts come. */
#include "base/cleanup.h"
#include "os/fd.h"
#include "os/sys.h"
#include "review/review.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const char repository[] = "its folder is a git repository, whose config git obeys";

/* A folder in which a change has a name of git's. */
struct candidate {
    const char *path; /* of the change */
    size_t len;       /* of the folder's path; 0: the project itself */
    size_t change;
    unsigned bits;
};

struct candidates {
    struct candidate *items;
    size_t count, room;
};

static int add(struct candidates *all, const struct candidate *c, struct err *err)
{
    if (all->count == all->room) {
        size_t room = all->room * 2 + 64;
        struct candidate *more = reallocarray(all->items, room, sizeof *more);
        if (!more)
            return err_memory(err);
        all->items = more;
        all->room = room;
    }
    all->items[all->count++] = *c;
    return 0;
}

/* Each part of the path may be one of git's names in the folder before it. */
static int collect(struct candidates *all, const struct review *r, size_t i, struct err *err)
{
    const char *path = r->changes[i].path;
    int result = 0;
    for (const char *part = path; result >= 0 && *part;) {
        size_t len = strcspn(part, "/");
        struct candidate c = {.path = path, .change = i};
        c.len = part == path ? 0 : (size_t)(part - path) - 1;
        if (review_is_git_name(part, len, &c.bits))
            result = add(all, &c, err);
        part += len;
        part += strspn(part, "/");
    }
    return result;
}

static int by_folder(const void *a, const void *b)
{
    const struct candidate *x = a, *y = b;
    size_t len = x->len < y->len ? x->len : y->len;
    int order = memcmp(x->path, y->path, len);
    return order ? order : x->len < y->len ? -1 : x->len > y->len;
}

static bool on_host(const struct review *r, const struct candidate *c, const char *name)
{
    char folder[REVIEW_PATH_MAX + 1];
    struct stat sb;
    memcpy(folder, c->path, c->len);
    folder[c->len] = '\0';
    cleanup_fd int fd = review_open_at(r->project, folder, O_PATH | O_DIRECTORY);
    if (fd >= 0 && fstatat(fd, name, &sb, AT_SYMLINK_NOFOLLOW) == 0)
        return true;
    return !path_is_absent(errno); /* what cannot be looked at may be there */
}

/* As git decides it. */
static bool is_repository(const struct review *r, const struct candidate *c, unsigned bits)
{
    if (!(bits & REVIEW_GIT_HEAD) && !on_host(r, c, "HEAD"))
        return false;
    if ((bits & REVIEW_GIT_COMMONDIR) || on_host(r, c, "commondir"))
        return true;
    return ((bits & REVIEW_GIT_OBJECTS) || on_host(r, c, "objects")) &&
           ((bits & REVIEW_GIT_REFS) || on_host(r, c, "refs"));
}

static void mark_folder(struct review *r, const struct candidate *from, size_t count)
{
    unsigned bits = 0;
    for (size_t i = 0; i < count; i++)
        bits |= from[i].bits;
    if (!is_repository(r, from, bits))
        return;
    for (size_t i = 0; i < count; i++)
        if (!r->changes[from[i].change].trust)
            r->changes[from[i].change].trust = repository;
}

int review_mark_repositories(struct review *r, struct err *err)
{
    struct candidates all = {0};
    int result = 0;
    for (size_t i = 0; result >= 0 && i < r->count; i++)
        result = collect(&all, r, i, err);
    if (result >= 0 && all.count)
        qsort(all.items, all.count, sizeof *all.items, by_folder);
    for (size_t i = 0, next; result >= 0 && i < all.count; i = next) {
        for (next = i + 1; next < all.count && by_folder(&all.items[i], &all.items[next]) == 0;)
            next++;
        mark_folder(r, &all.items[i], next - i);
    }
    free(all.items);
    return result;
}
