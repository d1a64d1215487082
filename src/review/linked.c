/* RV-6, for what the host trusts under another name: where Makefile is a link to build/rules, or
 * .claude one to tools/agents, the file that a run changed has neither name.
 *
 * Links are looked for in the project's own folder and in the folders there that the host trusts as
 * a whole, and among the changes. They are followed by their words, from the project's descriptor,
 * and nothing is opened through them (RV-2). */
#include "base/cleanup.h"
#include "base/text.h"
#include "os/fd.h"
#include "os/sys.h"
#include "review/review.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HOPS_MAX    16 /* of links that lead to links */
#define DEPTH_MAX   3  /* of folders that are looked into: .git/hooks/pre-commit is in the second */
#define ENTRIES_MAX 20000 /* of trusted folders */
#define TARGETS_MAX 1024

static const char linked[] = "a link that the host trusts leads to it";
static const char too_many[] = "links that the host trusts lead to more than can be looked at";

struct target {
    char *path;  /* below the project */
    bool passed; /* by "..": nothing below it is used, but a link in its place leads elsewhere */
};

struct targets {
    struct review *r;
    struct target items[TARGETS_MAX];
    size_t count, entries;
    bool *followed; /* of the changes */
    bool full;      /* what is led to is not known */
    int failed;     /* an errno: something could not be looked at that can be another time */
};

/* What a name is that could not be read as a link. True: no link, or nothing. What the caller
 * cannot see may be anything. */
static bool is_no_link(struct targets *t, int why)
{
    bool none = why == EINVAL || path_is_absent(why);
    if (why == EACCES || why == EPERM || why == EXDEV)
        t->full = true;
    else if (!none)
        t->failed = why;
    return none;
}

static void add(struct targets *t, const char *path, bool passed)
{
    for (size_t i = 0; i < t->count; i++)
        if (t->items[i].passed == passed && strcmp(t->items[i].path, path) == 0)
            return;
    char *copy = t->count < TARGETS_MAX ? strdup(path) : NULL;
    t->full |= !copy;
    if (copy)
        t->items[t->count++] = (struct target){copy, passed};
}

/* ---- where a link leads ---- */

struct way {
    char done[REVIEW_PATH_MAX + 1];     /* no link in it */
    char left[2 * REVIEW_PATH_MAX + 2]; /* still to be followed */
    unsigned hops;
};

static void drop_last(char *path)
{
    char *slash = strrchr(path, '/');
    *(slash ? slash : path) = '\0';
}

/* An absolute one may lead into the project too. False: it leads out of it, or is too long. */
static bool put_first(struct way *w, const struct review *r, const char *text)
{
    char rest[sizeof w->left];
    size_t len = strlen(r->meta.source);
    if (text[0] == '/') {
        if (strncmp(text, r->meta.source, len) != 0 || (text[len] && text[len] != '/'))
            return false;
        text += len;
        w->done[0] = '\0';
    }
    int n = snprintf(rest, sizeof rest, "%s/%s", text, w->left);
    if (n < 0 || (size_t)n >= sizeof rest)
        return false;
    memcpy(w->left, rest, (size_t)n + 1);
    return true;
}

static bool go_up(struct way *w, struct targets *t)
{
    if (!w->done[0])
        return false;
    add(t, w->done, true);
    drop_last(w->done);
    return true;
}

/* One name more. A link on the way counts like the end of it: a file in its place is what is found
 * then, and another link leads elsewhere. So it does where the way leads out in the end. */
static bool take_part(struct way *w, struct targets *t, const char *part)
{
    char text[REVIEW_PATH_MAX + 1];
    size_t used = strlen(w->done), len = strlen(part);
    if (strcmp(part, "..") == 0)
        return go_up(w, t);
    if (used + len + 2 > sizeof w->done)
        return false;
    snprintf(w->done + used, sizeof w->done - used, "%s%s", used ? "/" : "", part);
    int n = review_read_link(t->r->project, w->done, text);
    if (n < 0) {
        is_no_link(t, -n);
        return true; /* no link, or not there yet */
    }
    add(t, w->done, false);
    drop_last(w->done);
    return ++w->hops <= HOPS_MAX && put_first(w, t->r, text);
}

/* `folder`: that of the link, which has none in its path. */
static bool follow(struct way *w, struct targets *t, const char *folder, const char *text)
{
    *w = (struct way){.hops = 0};
    snprintf(w->done, sizeof w->done, "%s", folder);
    bool inside = put_first(w, t->r, text);
    while (inside && w->left[0]) {
        char part[REVIEW_PATH_MAX + 1];
        size_t len = strcspn(w->left, "/"), skip = len + (w->left[len] == '/');
        snprintf(part, sizeof part, "%.*s", (int)len, w->left);
        memmove(w->left, w->left + skip, strlen(w->left + skip) + 1);
        if (len && strcmp(part, ".") != 0)
            inside = len < sizeof part && take_part(w, t, part);
    }
    return inside && w->done[0];
}

static int add_target(struct targets *t, const char *folder, const char *text, struct err *err)
{
    cleanup_free struct way *w = malloc(sizeof *w);
    if (!w)
        return err_memory(err);
    if (follow(w, t, folder, text))
        add(t, w->done, false);
    errno = t->failed;
    return t->failed ? err_sys(err, "follow a link to %s", text) : 0;
}

/* ---- the links ---- */

static int look_into(struct targets *t, const char *folder, unsigned depth, struct err *err);

static int look_at_entry(struct targets *t, const char *folder, const char *name, unsigned depth,
                         struct err *err)
{
    char path[REVIEW_PATH_MAX + 2], text[REVIEW_PATH_MAX + 1];
    int n = snprintf(path, sizeof path - 1, "%s%s%s", folder, *folder ? "/" : "", name);
    if (n < 0 || (size_t)n >= sizeof path - 1 || !review_trust(path))
        return 0;
    int got = review_read_link(t->r->project, path, text);
    if (got >= 0)
        return add_target(t, folder, text, err);
    if (!is_no_link(t, -got))
        return 0;
    /* No link of a repository's lies among its objects. */
    if (depth >= DEPTH_MAX || strcmp(name, "objects") == 0)
        return 0;
    /* With a slash behind it only the names of folders count: `build` is one of a file. */
    memcpy(path + n, "/", 2);
    bool deeper = review_trust(path) != NULL;
    path[n] = '\0';
    return deeper ? look_into(t, path, depth + 1, err) : 0;
}

static int look_into(struct targets *t, const char *folder, unsigned depth, struct err *err)
{
    int result = 0;
    cleanup_fd int fd = review_open_at(t->r->project, folder, O_RDONLY | O_DIRECTORY);
    DIR *dir = fd < 0 ? NULL : folder_open(fd, ".");
    struct dirent *e;
    int more = 0;
    if (!dir)
        is_no_link(t, errno);
    while (dir && result >= 0 && (more = folder_next(dir, &e)) > 0) {
        if (depth && ++t->entries > ENTRIES_MAX)
            break;
        if (e->d_type == DT_LNK || e->d_type == DT_DIR || e->d_type == DT_UNKNOWN)
            result = look_at_entry(t, folder, e->d_name, depth, err);
    }
    if (result >= 0 && more < 0)
        result = err_sys(err, "list %s", folder);
    if (dir)
        closedir(dir);
    errno = t->failed;
    return result >= 0 && t->failed ? err_sys(err, "look into %s for links", folder) : result;
}

/* One that is to be applied. */
static int follow_change(struct targets *t, const struct review_change *c, struct err *err)
{
    char folder[REVIEW_PATH_MAX + 1], text[REVIEW_PATH_MAX + 1];
    bool *followed = &t->followed[c - t->r->changes];
    bool wanted = S_ISLNK(c->new.mode) && !*followed && !t->full;
    int n = wanted ? review_held(t->r, c, text, sizeof text - 1) : -EFBIG;
    *followed = true;
    errno = -n;
    if (n < 0)
        return n == -EFBIG ? 0 : err_sys(err, "read where %s leads to", c->path);
    text[n] = '\0';
    snprintf(folder, sizeof folder, "%s", c->path);
    drop_last(folder);
    return add_target(t, folder, text, err);
}

/* ---- what they lead to ---- */

/* A link in the place of a folder on the way leads elsewhere. */
static bool is_led_to(const struct target *t, const struct review_change *c)
{
    return (!t->passed && path_within(c->path, t->path)) ||
           (S_ISLNK(c->new.mode) && path_within(t->path, c->path));
}

/* A link among them leads on: where to is one of the targets that are still to be looked at. */
static int mark_led_to(struct targets *t, const struct target *target, struct err *err)
{
    int result = 0;
    for (size_t i = 0; result >= 0 && i < t->r->count; i++) {
        struct review_change *c = &t->r->changes[i];
        if (!is_led_to(target, c))
            continue;
        if (!c->trust)
            c->trust = linked;
        result = follow_change(t, c, err);
    }
    return result;
}

static int mark_all(struct targets *t, struct err *err)
{
    int result = look_into(t, "", 0, err);
    for (size_t i = 0; result >= 0 && i < t->r->count; i++)
        if (review_trust(t->r->changes[i].path))
            result = follow_change(t, &t->r->changes[i], err);
    for (size_t i = 0; result >= 0 && i < t->count; i++)
        result = mark_led_to(t, &t->items[i], err);
    for (size_t i = 0; t->full && i < t->r->count; i++)
        if (!t->r->changes[i].trust)
            t->r->changes[i].trust = too_many;
    return result;
}

int review_mark_linked(struct review *r, struct err *err)
{
    cleanup_free struct targets *t = calloc(1, sizeof *t);
    cleanup_free bool *followed = calloc(r->count + 1, sizeof *followed);
    if (!t || !followed)
        return err_memory(err);
    t->r = r;
    t->followed = followed;
    int result = mark_all(t, err);
    for (size_t i = 0; i < t->count; i++)
        free(t->items[i].path);
    return result;
}
