/* Grants: host folders and files that the operator lets in.
 *
 * FS-6  Each is opened once and held; what is checked, and what is mounted or allowed later, is
 * that object. FS-7  No link on the way to it is followed that a sandbox may have made
 * (os/reach.h). FS-8  What is mounted below it is looked for, and refused where the policy does not
 * name it. */
#include "base/cleanup.h"
#include "base/text.h"
#include "filesystem/filesystem.h"
#include "os/procfs.h"
#include "os/reach.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int cannot(const char *source, int why, struct err *err)
{
    errno = why;
    err_sys(err, "cannot grant %s", source);
    err_at(err, BOUNDARY_FILESYSTEM);
    return why == ENOENT ? err_hint(err, "check the spelling; the folder must exist before the run")
                         : err_number(err);
}

static int pin(struct pinned_grant *g, const struct reached *at, bool own, struct err *err)
{
    struct stat sb;
    if (fstat(at->fd, &sb) < 0)
        return cannot(g->source, errno, err);
    if (!S_ISDIR(sb.st_mode) && !S_ISREG(sb.st_mode)) {
        err_set(err, ERR_REFUSED, "cannot grant %s: not a folder or regular file", g->source);
        return err_at(err, BOUNDARY_FILESYSTEM);
    }
    if (!own && protect_folder(at->fd, err) < 0)
        return err_number(err);
    g->owned = strdup(at->path);
    if (!g->owned)
        return err_memory(err);
    g->source = g->owned;
    g->is_dir = S_ISDIR(sb.st_mode);
    g->dev = sb.st_dev;
    g->ino = sb.st_ino;
    g->fd = at->fd;
    return 0;
}

static int pin_at(struct pinned_grant *g, const char *source, const char *dest, bool writable,
                  bool own, struct err *err)
{
    struct reached at;
    *g = (struct pinned_grant){.source = source, .dest = dest, .writable = writable, .fd = -1};
    int r = reach_open(source, &at);
    if (r == -ELOOP && at.link[0]) {
        reach_refused(&at, "cannot grant", source, err);
        return err_at(err, BOUNDARY_FILESYSTEM);
    }
    if (r < 0)
        return cannot(source, -r, err);
    r = pin(g, &at, own, err);
    if (r < 0)
        reach_close(&at);
    return r;
}

int grant_pin(struct pinned_grant *g, const char *source, const char *dest, bool writable,
              struct err *err)
{
    return pin_at(g, source, dest, writable, false, err);
}

int grant_pin_own(struct pinned_grant *g, const char *source, const char *dest, struct err *err)
{
    return pin_at(g, source, dest, true, true, err);
}

void grant_unpin(struct pinned_grant *g)
{
    if (!g->owned)
        return;
    close(g->fd);
    free(g->owned);
    *g = (struct pinned_grant){.fd = -1};
}

/* ---- FS-8 ---- */

static int refuse_mount(const char *folder, const char *place, struct err *err)
{
    err_set(err, ERR_REFUSED, "cannot grant %.180s: something else is mounted below it, on %.180s",
            folder, place);
    err_at(err, BOUNDARY_FILESYSTEM);
    return err_hint(err, "grant a folder without it; or let all that is mounted below come along: "
                         "filesystem.submounts: true, --submounts");
}

/* A mount whose parent is the folder's own lies in it, and nothing else does: one that only has
 * such a name may be hidden. */
static bool hangs_in(const struct mount_place *m, int folder, const char *path)
{
    if (!path_below(m->place, path))
        return false;
    uint64_t own = procfs_mount_of(folder);
    return own == 0 || own == m->parent;
}

/* An overlay shows nothing that is mounted in its layers, and an ordinary user cannot even make one
 * of such a folder. */
static int look_at_root(const struct filesystem *fs, const struct mount_place *m, struct err *err)
{
    for (unsigned i = 0; i < fs->host.view_count; i++) {
        char path[PATH_MAX];
        snprintf(path, sizeof path, "%s%s", fs->root_path ? fs->root_path : "",
                 fs->host.view[i].path);
        if (fs->host.view[i].target[0] || !path_below(m->place, path))
            continue;
        err_set(err, ERR_UNSUPPORTED,
                "the root cannot be writable: something else is mounted below %.180s, on %.180s",
                path, m->place);
        err_at(err, BOUNDARY_FILESYSTEM);
        return err_hint(err, "leave filesystem.writable_root out, or use a folder without mounts "
                             "as the root (--root)");
    }
    return 0;
}

static int look_at_mount(void *ctx, const struct mount_place *m, struct err *err)
{
    const struct filesystem *fs = ctx;
    if (fs->namespaced && fs->policy->writable_root && look_at_root(fs, m, err) < 0)
        return err_number(err);
    if (fs->policy->submounts)
        return 0;
    for (unsigned i = 0; i < fs->grant_count; i++) {
        const struct pinned_grant *g = &fs->grants[i];
        /* The layers of a review are single mounts; only where the kernel cannot make one of a
         * folder that has others below is it refused. */
        bool alone = g->review && fs->namespaced && fs->privileged;
        if (g->is_dir && !alone && hangs_in(m, g->fd, g->source))
            return refuse_mount(g->source, m->place, err);
    }
    if (fs->root_fd >= 0 && hangs_in(m, fs->root_fd, fs->root_path))
        return refuse_mount(fs->root_path, m->place, err);
    return 0;
}

int grants_check_mounts(const struct filesystem *fs, struct err *err)
{
    bool any = fs->root_fd >= 0;
    for (unsigned i = 0; i < fs->grant_count; i++)
        any |= fs->grants[i].is_dir;
    bool writable = fs->namespaced && fs->policy->writable_root;
    if (!writable && (!any || fs->policy->submounts))
        return 0;
    return procfs_each_mount(look_at_mount, (void *)(uintptr_t)fs, err);
}

const struct pinned_grant *review_grant(const struct filesystem *fs)
{
    for (unsigned i = 0; i < fs->grant_count; i++)
        if (fs->grants[i].review)
            return &fs->grants[i];
    return NULL;
}

const char *grant_place(const struct filesystem *fs, const struct pinned_grant *g)
{
    if (fs->namespaced)
        return g->dest;
    return g->review ? fs->review_tree : g->source;
}
