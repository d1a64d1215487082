/* Files that the code asked for and did not get, as grants. */
#include "base/cleanup.h"
#include "base/text.h"
#include "filesystem/look.h"
#include "sandbox/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define READS  (ASKED_LOOK | ASKED_READ | ASKED_LIST | ASKED_RUN | ASKED_SOCKET)
#define WRITES (ASKED_WRITE | ASKED_CHANGE | ASKED_CREATE)

struct files {
    struct sandbox *s;
    struct learn *l;
    bool container;
    const char *work;  /* the sandbox's own working folder, NULL: it works in one of the host's */
    const char *cwd;   /* the caller's, which stands behind it; NULL: none that may be shown */
    bool mapped;       /* something in the working folder is missing that the caller's has */
    bool work_listed;  /* the working folder itself was listed */
    bool work_written; /* something was written there */
};

/* The whole of a writable root is no place of the view: it says nothing about what is there. */
static const struct kernel_place *place_of(const struct kernel *k, const char *path)
{
    const struct kernel_place *best = NULL;
    for (unsigned i = 0; i < k->place_count; i++)
        if (k->places[i].path[0] && path_within(path, k->places[i].path) &&
            (!best || strlen(k->places[i].path) >= strlen(best->path)))
            best = &k->places[i];
    return best;
}

/* Where the host would have it: behind a grant, behind the working folder, or at the same path. */
static bool host_path(const struct files *f, const char *path, char out[PATH_MAX], bool *mapped)
{
    const char *from = "", *rest = path;
    const struct filesystem *fs = &f->s->filesystem;
    *mapped = false;
    if (f->work && path_within(path, f->work)) {
        *mapped = true;
        from = f->cwd;
        rest = path + strlen(f->work);
    }
    for (unsigned i = 0; f->container && i < fs->grant_count; i++) {
        if (!path_within(path, fs->grants[i].dest))
            continue;
        *mapped = false;
        from = fs->grants[i].source;
        rest = path + strlen(fs->grants[i].dest);
    }
    return from && snprintf(out, PATH_MAX, "%s%s", from, rest) < PATH_MAX;
}

static const char *verb_of(unsigned uses)
{
    if (uses & (ASKED_CHANGE | ASKED_CREATE))
        return "made, renamed or removed";
    if (uses & ASKED_WRITE)
        return "written";
    if (uses & ASKED_RUN)
        return "executed";
    if (uses & ASKED_LIST)
        return "listed";
    return uses & ASKED_READ ? "opened" : "looked for";
}

/* The private folder of the process tier has another name in each run. */
static void describe(const struct files *f, const struct asked *a, unsigned uses,
                     char out[static 256])
{
    bool relative = f->work && path_within(a->path, f->work);
    snprintf(out, 256, "%s: %s%.200s", verb_of(uses), relative ? "." : "",
             relative ? a->path + strlen(f->work) : a->path);
}

/* Grants do not change who may read a file on the host. */
static bool caller_may(const char *path, bool writable)
{
    return faccessat(AT_FDCWD, path, writable ? W_OK : R_OK, AT_EACCESS) == 0;
}

static void refuse(const struct files *f, const struct asked *a, const char *why)
{
    learn_refuse(f->l, a->path, why, a->count);
}

/* The place inside, as the code named it. On the process tier every place is its own. */
static void grant(const struct files *f, const struct asked *a, const struct look *at,
                  const char *dest, bool writable, unsigned uses)
{
    char why[LOOK_WHY_MAX], asked[256];
    /* Where the code sees the link too, what it leads to must stand where it leads. */
    bool led = at->link[0] && place_of(&f->s->kernel, at->link);
    if (!at->is_dir && !at->is_file)
        return refuse(f, a,
                      at->is_socket ? "a socket of the host: what answers there runs outside"
                                    : "neither a file nor a folder");
    if (!look_may_propose(at->path, at->is_dir, why))
        return refuse(f, a, why);
    if (!caller_may(at->path, writable))
        return refuse(
            f, a, writable ? "you may not write there yourself" : "you may not read it yourself");
    describe(f, a, uses, asked);
    learn_grant(f->l, &(struct learn_line){.kind = writable ? LEARN_RW : LEARN_RO,
                                           .value = (char *)at->path,
                                           .dest = f->container && !led ? (char *)dest : NULL,
                                           .is_dir = at->is_dir,
                                           .looked = at->is_dir && !writable &&
                                                     !(uses & ~(unsigned)ASKED_LOOK),
                                           .asked = asked,
                                           .risk = look_risk(at->path, at->is_dir, writable),
                                           .count = a->count});
}

/* ---- writing ---- */

static bool is_cache(const char *path)
{
    return strstr(path, "/__pycache__") != NULL;
}

/* The folder that the change needs: the nearest that the host has. */
static bool nearest_folder(const char *path, struct look *ret, char dest[PATH_MAX])
{
    char at[PATH_MAX];
    snprintf(at, sizeof at, "%s", path);
    for (char *slash; (slash = strrchr(at, '/')) && slash > at;) {
        *slash = '\0';
        char *end = strrchr(dest, '/');
        if (!end || end == dest)
            return false;
        *end = '\0';
        if (look_up(at, ret) < 0)
            return false;
        if (ret->exists)
            return ret->is_dir;
    }
    return false;
}

static void learn_write_to(const struct files *f, const struct asked *a, const char *host)
{
    struct look at;
    char dest[PATH_MAX];
    const struct policy *p = f->s->request->policy;
    static const char *const scratch[] = {"/tmp", "/var/tmp", "/dev/shm", WORKSPACE, HOME_DIR};
    if (is_cache(a->path))
        return;
    for (size_t i = 0; !p->workspace && i < ARRAY_LEN(scratch); i++)
        if (path_within(a->path, scratch[i]))
            return learn_field(f->l, FIELD_WORKSPACE, "true",
                               "files were to be written to a folder for passing things",
                               "low: a private folder that disappears with the sandbox", a->count);
    if (look_up(host, &at) < 0)
        return refuse(f, a, "it cannot be looked at from outside");
    snprintf(dest, sizeof dest, "%s", a->path);
    if (at.exists && !(a->uses & ASKED_CHANGE))
        return grant(f, a, &at, dest, true, a->uses);
    if (!nearest_folder(host, &at, dest))
        return refuse(f, a, "there is no folder for it on the host");
    grant(f, a, &at, dest, true, a->uses);
}

/* ---- reading ---- */

static void learn_read_of(struct files *f, const struct asked *a, const char *host, bool mapped)
{
    struct look at;
    if (look_up(host, &at) < 0 || !at.exists)
        return; /* the host does not have it either */
    if (a->uses & ASKED_SOCKET)
        return refuse(f, a, "a socket of the host: what answers there runs outside");
    f->mapped |= mapped;
    grant(f, a, &at, a->path, false, a->uses & READS);
}

/* ---- one file ---- */

/* A folder that is there only as the way to a grant, and was listed by a program that failed: it
 * has less in it than the host's. */
static bool lost_entries(const struct files *f, const struct asked *a)
{
    const struct filesystem *fs = &f->s->filesystem;
    size_t len = strlen(a->path);
    if (f->l->ended_well || (a->state & (ASKED_MISSING | ASKED_UNKNOWN)) ||
        !(a->uses & (ASKED_LIST | ASKED_READ)) || place_of(&f->s->kernel, a->path))
        return false;
    for (unsigned i = 0; i < fs->grant_count; i++) {
        const struct pinned_grant *g = &fs->grants[i];
        if (strcmp(g->source, g->dest) == 0 && path_within(g->dest, a->path) && g->dest[len] == '/')
            return true;
    }
    return false;
}

/* On another root than the host's, what the host has there is something else. */
static bool is_of_another_root(const struct files *f, const char *path)
{
    return f->container && strcmp(f->s->request->policy->root, "host") != 0 &&
           place_of(&f->s->kernel, path);
}

static bool lost_read(const struct files *f, const struct asked *a, const char *host)
{
    struct look at;
    if (f->container && lost_entries(f, a))
        return true;
    if (f->container || (a->state & ASKED_MISSING))
        return (a->uses & READS) && (a->state & ASKED_MISSING) && !(a->state & ASKED_UNKNOWN);
    /* Landlock does not refuse stat(). */
    if (!(a->uses & (ASKED_READ | ASKED_LIST | ASKED_RUN)) || !(a->state & ASKED_UNKNOWN))
        return false;
    return look_up(host, &at) == 0 && at.exists && !place_of(&f->s->kernel, at.path);
}

static bool lost_write(const struct files *f, const struct asked *a, const char *host)
{
    struct look at;
    if (!(a->uses & WRITES))
        return false;
    if (f->container)
        return !(a->state & ASKED_UNKNOWN) && (a->state & (ASKED_READONLY | ASKED_ORPHAN));
    if (!(a->state & ASKED_UNKNOWN))
        return false; /* the sandbox's own folder */
    const struct kernel_place *place =
        look_up(host, &at) == 0 ? place_of(&f->s->kernel, at.path) : NULL;
    return !place || !place->writable;
}

static bool lost_exec(const struct files *f, const struct asked *a)
{
    const struct kernel_place *place = place_of(&f->s->kernel, a->path);
    if (!(a->uses & ASKED_RUN) || (a->state & ASKED_MISSING))
        return false;
    if (f->container)
        return a->state & ASKED_NOEXEC;
    return place && place->writable && !f->s->request->policy->exec;
}

/* The kernel's own files are the sandbox's, or closed. */
static bool is_of_kernel(const char *path)
{
    return path_within(path, "/proc") || path_within(path, "/dev") || path_within(path, "/sys");
}

static void learn_file(struct files *f, const struct asked *a)
{
    char host[PATH_MAX];
    bool mapped;
    if (is_of_kernel(a->path) || !host_path(f, a->path, host, &mapped))
        return;
    bool foreign = !mapped && strcmp(host, a->path) == 0 && is_of_another_root(f, a->path);
    if (mapped && strcmp(a->path, f->work) == 0)
        f->work_listed |= (a->uses & (ASKED_LIST | ASKED_READ)) != 0;
    if (lost_exec(f, a))
        learn_field(f->l, FIELD_EXEC, "true", a->path,
                    "medium: the program can execute what it wrote itself", a->count);
    if (!foreign && lost_write(f, a, host))
        learn_write_to(f, a, host);
    else if (!foreign && lost_read(f, a, host))
        learn_read_of(f, a, host, mapped);
    else if (mapped && (a->uses & WRITES) && !is_cache(a->path))
        f->work_written = true;
}

/* ---- the working folder ---- */

/* Some of the caller's folder is, or will be, in the sandbox's; the code listed that and failed.
 * What it missed it could not name, because it saw no name. */
static bool wants_all_of_work(const struct files *f)
{
    const struct filesystem *fs = &f->s->filesystem;
    bool partly = f->mapped;
    for (unsigned i = 0; i < fs->grant_count && !partly; i++)
        partly =
            path_within(fs->grants[i].dest, f->work) && path_within(fs->grants[i].source, f->cwd);
    return f->work_listed && partly && !f->l->ended_well;
}

static void take_work_as_whole(struct files *f)
{
    struct look at;
    char why[LOOK_WHY_MAX];
    if (look_up(f->cwd, &at) < 0 || !at.is_dir || !look_may_propose(at.path, true, why))
        return;
    bool writable = f->work_written;
    learn_grant(f->l, &(struct learn_line){.kind = writable ? LEARN_RW : LEARN_RO,
                                           .value = at.path,
                                           .dest = (char *)f->work,
                                           .is_dir = true,
                                           .asked = (char *)"listed: the working folder",
                                           .risk = look_risk(at.path, true, writable),
                                           .count = 1});
}

/* What lies at the working folder cannot be mounted over it: the caller's becomes the working
 * folder, at its own place. */
static void move_work(struct files *f)
{
    bool whole = !f->container && f->mapped;
    for (size_t i = 0; i < f->l->line_count; i++) {
        const struct learn_line *line = &f->l->lines[i];
        whole |= line->dest && strcmp(line->dest, f->work) == 0;
    }
    if (!whole)
        return;
    for (size_t i = 0; i < f->l->line_count; i++) {
        struct learn_line *line = &f->l->lines[i];
        if (!line->dest || !path_within(line->dest, f->work))
            continue;
        free(line->dest);
        line->dest = NULL;
    }
    learn_field(f->l, FIELD_CWD, f->cwd, "files were asked for relative to the working folder",
                "low: where the program starts", 1);
}

void learner_files(struct sandbox *s, struct learn *l)
{
    const struct filesystem *fs = &s->filesystem;
    struct files f = {.s = s, .l = l, .container = tier_namespaced(s->kernel.tier)};
    bool own = fs->cwd && (strcmp(fs->cwd, WORKSPACE) == 0 ||
                           (fs->private_dir[0] && strcmp(fs->cwd, fs->private_dir) == 0));
    if (own && s->request->learn_cwd) {
        f.work = fs->cwd;
        f.cwd = s->request->learn_cwd;
    }
    for (size_t i = 0; i < s->learner->asked.count; i++)
        learn_file(&f, &s->learner->asked.items[i]);
    if (f.work && wants_all_of_work(&f))
        take_work_as_whole(&f);
    learn_merge(l, learner_may_merge, NULL);
    if (f.work)
        move_work(&f);
}
