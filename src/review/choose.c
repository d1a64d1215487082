/* Which changes are meant, and whether they may be applied. */
#include "review/review.h"

#include <stdio.h>
#include <string.h>

static bool is_or_below(const char *path, const char *folder, size_t len)
{
    return strncmp(path, folder, len) == 0 && (path[len] == '\0' || path[len] == '/');
}

static bool changes_kind(const struct review_change *c)
{
    return c->kind == REVIEW_MODIFIED && ((c->old.mode ^ c->new.mode) & S_IFMT);
}

/* A folder by its name stands for all in it. */
static size_t choose_name(struct review *r, const char *name)
{
    size_t found = 0, len = strlen(name);
    while (len > 1 && name[len - 1] == '/')
        len--;
    while (len > 2 && name[0] == '.' && name[1] == '/')
        name += 2, len -= 2;
    for (size_t i = 0; i < r->count; i++)
        if (is_or_below(r->changes[i].path, name, len) || (len == 1 && name[0] == '.')) {
            r->changes[i].chosen = true;
            found++;
        }
    return found;
}

/* A folder that is new must come with what is in it. */
static void choose_parents(struct review *r, const char *path)
{
    char parent[REVIEW_PATH_MAX + 1];
    for (const char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
        memcpy(parent, path, (size_t)(slash - path));
        parent[slash - path] = '\0';
        struct review_change *c = review_get(r, parent);
        if (c && S_ISDIR(c->new.mode) && !S_ISDIR(c->old.mode))
            c->chosen = true;
    }
}

/* Sorted by path, what is in a folder comes after it. */
static void choose_below(struct review *r, size_t at)
{
    const char *folder = r->changes[at].path;
    size_t len = strlen(folder);
    for (size_t i = at + 1; i < r->count && strncmp(r->changes[i].path, folder, len) == 0; i++)
        if (is_or_below(r->changes[i].path, folder, len))
            r->changes[i].chosen = true;
}

static void complete(struct review *r)
{
    for (size_t i = 0; i < r->count; i++) {
        struct review_change *c = &r->changes[i];
        if (c->chosen && c->twin != SIZE_MAX)
            r->changes[c->twin].chosen = true;
    }
    for (size_t i = 0; i < r->count; i++) {
        struct review_change *c = &r->changes[i];
        if (!c->chosen)
            continue;
        if (c->new.mode)
            choose_parents(r, c->path);
        if (S_ISDIR(c->old.mode) && (c->kind == REVIEW_DELETED || changes_kind(c)))
            choose_below(r, i);
    }
}

static int choose(struct review *r, const struct review_choice *choice, struct err *err)
{
    for (size_t i = 0; i < r->count; i++)
        r->changes[i].chosen = choice->file_count == 0;
    for (size_t i = 0; i < choice->file_count; i++)
        if (choose_name(r, choice->files[i]) == 0) {
            err_set(err, ERR_USAGE, "%s has no change to %.200s", r->meta.id, choice->files[i]);
            return err_hint(err, "names are as `brig diff %s --stat` shows them", r->meta.id);
        }
    complete(r);
    return 0;
}

static bool is_trusted(const struct review_choice *choice, const char *path)
{
    for (size_t i = 0; i < choice->trust_count; i++)
        if (strcmp(choice->trust[i], path) == 0)
            return true;
    return false;
}

static int check_names(const struct review *r, const struct review_choice *choice, struct err *err)
{
    for (size_t i = 0; i < choice->trust_count; i++)
        if (!review_get(r, choice->trust[i])) {
            err_set(err, ERR_USAGE, "--trust %.200s: it was not changed", choice->trust[i]);
            return err_hint(err, "names are as `brig diff %s --stat` shows them", r->meta.id);
        }
    return 0;
}

/* The first one by name, and how many there are. */
struct objection {
    const struct review_change *first;
    size_t count;
};

static void object(struct objection *o, const struct review_change *c)
{
    if (!o->count++)
        o->first = c;
}

static int refuse(const struct objection *o, const char *why, const char *hint, struct err *err)
{
    char more[48] = "";
    if (o->count > 1)
        snprintf(more, sizeof more, " (and %zu more)", o->count - 1);
    err_set(err, ERR_REFUSED, "nothing was applied: %.250s%s: %s", o->first->path, more, why);
    err_at(err, BOUNDARY_FILESYSTEM);
    return err_hint(err, "%s", hint);
}

static int check(const struct review *r, const struct review_choice *choice, struct err *err)
{
    struct objection refused = {0}, conflict = {0}, trust = {0};
    char hint[300];
    for (size_t i = 0; i < r->count; i++) {
        const struct review_change *c = &r->changes[i];
        if (c->chosen && c->refused)
            object(&refused, c);
        if (c->chosen && c->conflict)
            object(&conflict, c);
        if (c->chosen && c->trust && !is_trusted(choice, c->path))
            object(&trust, c);
    }
    if (refused.count)
        return refuse(&refused, refused.first->refused, "name the files that you want", err);
    if (conflict.count)
        return refuse(&conflict, conflict.first->conflict,
                      "name other files, or discard the review and run again", err);
    if (!trust.count)
        return 0;
    snprintf(hint, sizeof hint,
             "look at it, then: --trust '%.150s'; or name the files that you want",
             trust.first->path);
    return refuse(&trust, trust.first->trust, hint, err);
}

int review_choose(struct review *r, const struct review_choice *choice, struct err *err)
{
    if (r->running && !choice->live) {
        err_set(err, ERR_REFUSED, "%s still runs, or somebody else works on it", r->meta.id);
        return err_hint(err, "wait for its end: what you looked at may change until then");
    }
    if (choice->digest && strcmp(choice->digest, r->digest) != 0) {
        err_set(err, ERR_REFUSED, "the changes are not those that were looked at");
        return err_hint(err, "look again, and give the new digest");
    }
    if (choose(r, choice, err) < 0 || check_names(r, choice, err) < 0)
        return err_number(err);
    return check(r, choice, err);
}
