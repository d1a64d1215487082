/* Removing what no name leads to, and looking whether all is as it was. */
#include "base/cleanup.h"
#include "base/hex.h"
#include "images/store.h"
#include "os/fd.h"
#include "os/remove.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- what names lead to ---- */

struct wanted {
    char (*names)[65]; /* of roots and blobs: 64 digits each */
    size_t count, room;
    const struct store *store;
};

static void wanted_done(struct wanted *w)
{
    free(w->names);
}

static int want(struct wanted *w, const char *name, struct err *err)
{
    if (w->count == w->room) {
        size_t room = w->room ? 2 * w->room : 64;
        void *wide = realloc(w->names, room * sizeof *w->names);
        if (!wide)
            return err_memory(err);
        w->names = wide;
        w->room = room;
    }
    snprintf(w->names[w->count++], sizeof *w->names, "%s", name);
    return 0;
}

static bool is_wanted(const struct wanted *w, const char *name)
{
    for (size_t i = 0; i < w->count; i++)
        if (strcmp(w->names[i], name) == 0)
            return true;
    return false;
}

/* What is damaged keeps nothing: there is nothing left of it to use. What could not be read now may
 * be whole, and then all that it leads to is still used. */
static bool is_damaged(const struct err *err)
{
    return err->code != ERR_SYSTEM && err->code != ERR_MEMORY;
}

/* 1: `ret` is the root of it; 0: it is damaged. */
static int chain_of(struct wanted *w, const struct image_name *n, char ret[static 65],
                    struct err *err)
{
    struct image_manifest manifest;
    struct image_config config;
    cleanup_buf struct buf first, second;
    buf_init(&first, IMAGE_DOCUMENT_MAX);
    buf_init(&second, IMAGE_DOCUMENT_MAX);
    if (want(w, n->manifest + 7, err) < 0)
        return err_number(err);
    if (store_blob(w->store, n->manifest, &first, err) < 0 ||
        manifest_parse(buf_text(&first), first.len, &manifest, err) < 0)
        return is_damaged(err) ? 0 : err_number(err);
    if (want(w, manifest.config.digest + 7, err) < 0)
        return err_number(err);
    if (store_blob(w->store, manifest.config.digest, &second, err) < 0 ||
        config_parse(buf_text(&second), second.len, &config, err) < 0)
        return is_damaged(err) ? 0 : err_number(err);
    image_chain(&config, ret);
    config_done(&config);
    return 1;
}

static int want_image(void *ctx, const struct image_name *n, const char *file, struct err *err)
{
    struct wanted *w = ctx;
    char chain[65];
    (void)file;
    if (!n)
        return is_damaged(err) ? 0 : err_number(err);
    int r = chain_of(w, n, chain, err);
    return r > 0 ? want(w, chain, err) : r;
}

/* ---- removing ---- */

/* First out of the way, in one step: half a root is never called a root. */
static int remove_root(const struct store *s, const char *chain, struct collected *c)
{
    char aside[80];
    struct root_facts facts = {.bytes = 0};
    struct err ignored = ERR_INIT;
    cleanup_fd int roots = openat(s->fd, "roots", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    cleanup_fd int tmp = openat(s->fd, "tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    cleanup_fd int fd =
        roots < 0 ? -1 : openat(roots, chain, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || tmp < 0)
        return -errno;
    if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
        c->in_use++;
        return 0;
    }
    (void)root_facts_read(fd, &facts, &ignored);
    snprintf(aside, sizeof aside, "gone-%s", chain);
    if (renameat(roots, chain, tmp, aside) < 0 || remove_folder(tmp, aside, fd) < 0)
        return -errno;
    c->roots++;
    c->bytes += facts.bytes;
    return 0;
}

static void remove_blob(const struct store *s, const char *name, struct collected *c)
{
    cleanup_fd int blobs = openat(s->fd, "blobs", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (blobs >= 0 && unlinkat(blobs, name, 0) == 0)
        c->blobs++;
}

static int remove_unwanted(const struct store *s, const char *folder, const struct wanted *w,
                           struct collected *c, struct err *err)
{
    bool roots = strcmp(folder, "roots") == 0;
    DIR *list = folder_open(s->fd, folder);
    struct dirent *e;
    int more;
    if (!list)
        return err_sys(err, "list the images");
    while ((more = folder_next(list, &e)) > 0) {
        if (is_wanted(w, e->d_name))
            continue;
        if (!roots)
            remove_blob(s, e->d_name, c);
        else if (remove_root(s, e->d_name, c) < 0)
            c->leftovers++;
    }
    int r = more < 0 ? err_sys(err, "list the images") : 0;
    closedir(list);
    return r;
}

int store_collect(const struct store *s, struct collected *ret, struct err *err)
{
    __attribute__((cleanup(wanted_done))) struct wanted w = {.store = s};
    *ret = (struct collected){.roots = 0};
    if (s->fd < 0)
        return 0;
    cleanup_fd int lock = store_lock(s, true, err);
    if (lock < 0)
        return lock;
    if (names_each(s, want_image, &w, err) < 0) {
        err_wrap(err, "nothing was removed, for what is used cannot be read");
        return err_hint(err,
                        "`brig image verify` says of which image, and `brig image rm` forgets it; "
                        "of a name that cannot be read, remove the file in %.200s/names",
                        s->path);
    }
    if (remove_unwanted(s, "roots", &w, ret, err) < 0 ||
        remove_unwanted(s, "blobs", &w, ret, err) < 0)
        return err_number(err);
    ret->leftovers += scratch_sweep(s);
    return 0;
}

/* ---- looking ---- */

struct check {
    const struct store *store;
    const char *only;
    void (*said)(void *ctx, const char *name, const char *what);
    void *ctx;
    int wrong;
};

static void wrong(struct check *c, const char *name, const char *what)
{
    c->wrong++;
    c->said(c->ctx, name, what);
}

static int check_tree(const struct image *i, struct err *err)
{
    struct root_facts seen;
    cleanup_fd int tree =
        openat(i->root_fd, "tree", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (tree < 0)
        return err_set(err, ERR_REFUSED, "its files are missing");
    if (tree_digest(tree, &seen, err) < 0)
        return err_number(err);
    return strcmp(seen.tree, i->facts.tree) == 0
               ? 0
               : err_set(err, ERR_REFUSED, "its files are not those that were unpacked");
}

static int check_name(void *ctx, const struct image_name *n, const char *file, struct err *err)
{
    struct check *c = ctx;
    struct err why = ERR_INIT;
    cleanup_image struct image image = IMAGE_INIT;
    (void)err;
    if (!n) {
        if (!c->only)
            wrong(c, file, "it is no name of an image");
        return 0;
    }
    if (c->only && strcmp(c->only, n->name) != 0)
        return 0;
    if (image_open_in(c->store, n->name, &image, &why) < 0 || check_tree(&image, &why) < 0)
        wrong(c, n->name, why.message);
    return 0;
}

int store_verify(const struct store *s, const char *only,
                 void (*said)(void *ctx, const char *name, const char *what), void *ctx,
                 struct err *err)
{
    struct check c = {.store = s, .only = only, .said = said, .ctx = ctx};
    int r = names_each(s, check_name, &c, err);
    return r < 0 ? r : c.wrong;
}
