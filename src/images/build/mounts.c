/* RUN --mount: files that a command sees and that no layer gets. Nothing is mounted: they are laid
 * over a copy of the stage's names (more names of the same files) that this one run has for its
 * root, and what it changes at those places is left out of the layer.
 *
 * IM-22  What a mount shows comes from the context, an earlier stage or an image, as with COPY
 *        (IM-15), or is empty: a cache begins empty each time, so that no build reads what another
 *        one left. No mount reaches the host, and none of them takes part in the layer. */
#include "images/build/mounts.h"

#include "base/cleanup.h"
#include "os/sys.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Empty, whatever the layers below have there. */
static int lay_empty(struct tar *t, const char *target, struct err *err)
{
    char mark[PATH_MAX];
    if (snprintf(mark, sizeof mark, "%s/.wh..wh..opq", target + 1) >= (int)sizeof mark)
        return err_set(err, ERR_LIMIT, "a name that is too long");
    if (tar_folder(t, target + 1, 0755, 0, err) < 0)
        return err_number(err);
    return tar_text(t, mark, "", 0, 0600, err);
}

static int lay_bind(const struct run_mount *m, struct copying *c, struct err *err)
{
    struct words sources = {.count = 0};
    const char *source = m->source ? m->source : ".";
    int r = words_add(&sources, source, strlen(source), err);
    if (r >= 0)
        r = context_copy(c, &sources, m->target, err);
    words_done(&sources);
    return r < 0 ? err_wrap(err, "--mount=type=bind") : 0;
}

/* What one of them took is not there for the next. */
static int lay_one(const struct run_mount *m, struct mounts_source *s, struct tar *t, int tree,
                   struct err *err)
{
    cleanup_image struct image image = IMAGE_INIT;
    struct copying c = s->context;
    if (m->own)
        return 0;
    if (m->kind != MOUNT_BIND)
        return lay_empty(t, m->target, err);
    cleanup_fd int other = m->from ? s->open_from(s->ctx, m->from, &image, err) : -1;
    if (m->from && other < 0)
        return other;
    if (m->from) {
        c.from = other;
        c.ignore = NULL;
        c.is_image = true;
        c.of = "the image";
    }
    c.tar = t;
    c.tree = tree;
    c.mode = -1;
    int r = lay_bind(m, &c, err);
    s->context.left_bytes = c.left_bytes;
    s->context.left_entries = c.left_entries;
    return r;
}

/* Where it is, links of the image followed: there the layer has nothing of it. */
static int leave_out(struct run_mounts *m, int tree, const char *target, struct err *err)
{
    char root[PATH_MAX], place[PATH_MAX], link[40];
    cleanup_fd int fd = sys_openat2(tree, target + 1, O_PATH | O_CLOEXEC, 0,
                                    RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS);
    if (fd < 0)
        return err_sys(err, "open %s", target);
    snprintf(link, sizeof link, "/proc/self/fd/%d", tree);
    ssize_t n = readlink(link, root, sizeof root - 1);
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t len = readlink(link, place, sizeof place - 1);
    if (n <= 0 || len <= n + 1 || memcmp(root, place, (size_t)n) != 0 || place[n] != '/')
        return err_set(err, ERR_REFUSED, "--mount: %s is nowhere in the image", target);
    return words_add(&m->left_out, place + n + 1, (size_t)(len - n - 1), err);
}

int mounts_lay(struct run_mounts *m, struct derived *d, const struct mounts_source *s,
               struct err *err)
{
    struct tar t;
    struct mounts_source left = *s;
    cleanup_fd int tree = openat(d->root.fd, "tree", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (tree < 0)
        return err_sys(err, "open the files of the image");
    if (derive_open(d, &t, err) < 0)
        return err_number(err);
    int r = 0;
    for (unsigned n = 0; r >= 0 && n < m->count; n++)
        r = lay_one(&m->items[n], &left, &t, tree, err);
    r = derive_put(d, &t, r, "--mount", err);
    for (unsigned n = 0; r >= 0 && n < m->count; n++)
        if (!m->items[n].own)
            r = leave_out(m, tree, m->items[n].target, err);
    return r;
}
