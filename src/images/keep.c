/* Removes what no image's name leads to any more, and verifies that what is kept was not changed.
 */
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

enum kind { A_ROOT = 'r', A_LAYER = 'l', A_LAYER_BEFORE = 'o', A_BLOB = 'b' };

struct wanted {
    char (*names)[66]; /* a letter for the kind, and 64 digits */
    size_t count, room;
    const struct store *store;
};

static void wanted_done(struct wanted *w)
{
    free(w->names);
}

static int want(struct wanted *w, enum kind kind, const char *name, struct err *err)
{
    if (w->count == w->room) {
        size_t room = w->room ? 2 * w->room : 64;
        void *wide = realloc(w->names, room * sizeof *w->names);
        if (!wide)
            return err_memory(err);
        w->names = wide;
        w->room = room;
    }
    snprintf(w->names[w->count++], sizeof *w->names, "%c%s", kind, name);
    return 0;
}

static bool is_wanted(const struct wanted *w, enum kind kind, const char *name)
{
    for (size_t i = 0; i < w->count; i++)
        if (w->names[i][0] == (char)kind && strcmp(w->names[i] + 1, name) == 0)
            return true;
    return false;
}

/* A damaged document keeps nothing else in the store: it cannot be used. One that could not be read
 * just now may be whole, so all that it leads to stays. */
static bool is_damaged(const struct err *err)
{
    return err->code != ERR_SYSTEM && err->code != ERR_MEMORY;
}

static int want_layers(struct wanted *w, const struct image_manifest *m, struct err *err)
{
    for (unsigned i = 0; i < m->layer_count; i++)
        if (want(w, A_LAYER, m->layers[i].digest + 7, err) < 0)
            return err_number(err);
    return 1;
}

/* The root that it has, and its layers, unless it is from before they had such names. 0: it is
 * damaged. */
static int want_files(struct wanted *w, const struct image_manifest *m,
                      const struct image_config *c, struct err *err)
{
    char chain[65];
    if (m->layer_count != c->diff_count)
        return 0;
    image_chain(m, c, chain);
    int there = root_is_there(w->store, chain, err);
    if (there < 0)
        return there;
    if (!there)
        image_chain_before(c, chain);
    if (want(w, A_ROOT, chain, err) < 0)
        return err_number(err);
    return there ? want_layers(w, m, err) : 1;
}

/* 0: it is damaged. */
static int want_all_of(struct wanted *w, const struct image_name *n, struct err *err)
{
    struct image_manifest manifest;
    struct image_config config;
    cleanup_buf struct buf first, second;
    buf_init(&first, IMAGE_DOCUMENT_MAX);
    buf_init(&second, IMAGE_DOCUMENT_MAX);
    if (want(w, A_BLOB, n->manifest + 7, err) < 0)
        return err_number(err);
    if (store_blob(w->store, n->manifest, &first, err) < 0 ||
        manifest_parse(buf_text(&first), first.len, &manifest, err) < 0)
        return is_damaged(err) ? 0 : err_number(err);
    if (want(w, A_BLOB, manifest.config.digest + 7, err) < 0)
        return err_number(err);
    if (store_blob(w->store, manifest.config.digest, &second, err) < 0 ||
        config_parse(buf_text(&second), second.len, &config, err) < 0)
        return is_damaged(err) ? 0 : err_number(err);
    int r = want_files(w, &manifest, &config, err);
    config_done(&config);
    return r;
}

static int want_image(void *ctx, const struct image_name *n, const char *file, struct err *err)
{
    (void)file;
    if (!n)
        return is_damaged(err) ? 0 : err_number(err);
    return want_all_of(ctx, n, err);
}

/* ---- removing ---- */

static const char *folder_of(enum kind kind)
{
    return kind == A_ROOT ? "roots" : kind == A_LAYER ? "unpacked" : "layers";
}

/* First out of the way, in one step: half a root or layer is never called one. The bytes of a root
 * are those of its layers, unless it is from before they were kept. */
static int remove_unpacked(const struct store *s, enum kind kind, const char *name,
                           struct collected *c)
{
    char aside[80];
    struct root_facts facts = {.bytes = 0};
    struct err ignored = ERR_INIT;
    cleanup_fd int folder = openat(s->fd, folder_of(kind), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    cleanup_fd int tmp = openat(s->fd, "tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    cleanup_fd int fd =
        folder < 0 ? -1 : openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || tmp < 0)
        return -errno;
    if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
        c->in_use += kind == A_ROOT;
        return 0;
    }
    (void)root_facts_read(fd, &facts, &ignored);
    snprintf(aside, sizeof aside, "gone-%c%s", kind, name);
    if (renameat(folder, name, tmp, aside) < 0 || remove_folder(tmp, aside, fd) < 0)
        return -errno;
    *(kind == A_ROOT ? &c->roots : &c->layers) += 1;
    if (kind == A_LAYER || (kind == A_ROOT && !facts.shared))
        c->bytes += facts.bytes;
    return 0;
}

static void remove_blob(const struct store *s, const char *name, struct collected *c)
{
    cleanup_fd int blobs = openat(s->fd, "blobs", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (blobs >= 0 && unlinkat(blobs, name, 0) == 0)
        c->blobs++;
}

static int remove_unwanted(const struct store *s, const char *folder, enum kind kind,
                           const struct wanted *w, struct collected *c, struct err *err)
{
    bool stay = kind == A_LAYER && layers_must_stay(s);
    DIR *list = folder_open(s->fd, folder);
    struct dirent *e;
    int more;
    if (!list && kind == A_LAYER_BEFORE && path_is_absent(errno))
        return 0;
    if (!list)
        return err_sys(err, "list the images");
    while ((more = folder_next(list, &e)) > 0) {
        if (is_wanted(w, kind, e->d_name))
            continue;
        if (stay)
            c->layers_wanted++;
        else if (kind == A_BLOB)
            remove_blob(s, e->d_name, c);
        else if (remove_unpacked(s, kind, e->d_name, c) < 0)
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
    ret->leftovers += layers_sweep(s);
    if (remove_unwanted(s, "roots", A_ROOT, &w, ret, err) < 0 ||
        remove_unwanted(s, "unpacked", A_LAYER, &w, ret, err) < 0 ||
        remove_unwanted(s, "layers", A_LAYER_BEFORE, &w, ret, err) < 0 ||
        remove_unwanted(s, "blobs", A_BLOB, &w, ret, err) < 0)
        return err_number(err);
    unlinkat(s->fd, "layers", AT_REMOVEDIR); /* of before, when there is none any more */
    ret->leftovers += scratch_sweep(s);
    return 0;
}

/* ---- looking ---- */

struct check {
    const struct store *store;
    const char *only;
    void (*said)(void *ctx, const char *name, const char *what);
    void *ctx;
    struct tree_known *known; /* files that were read: most are in layers and in roots */
    char (*layers)[65];       /* that were looked at */
    size_t layer_count, layer_room;
    int wrong;
};

static void wrong(struct check *c, const char *name, const char *what)
{
    c->wrong++;
    c->said(c->ctx, name, what);
}

static int check_tree(struct check *c, int folder, const struct root_facts *facts, struct err *err)
{
    struct root_facts seen;
    cleanup_fd int tree = openat(folder, "tree", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (tree < 0)
        return err_set(err, ERR_REFUSED, "its files are missing");
    if (tree_digest(tree, c->known, &seen, err) < 0)
        return err_number(err);
    return strcmp(seen.tree, facts->tree) == 0
               ? 0
               : err_set(err, ERR_REFUSED, "its files are not those that were unpacked");
}

/* Each only once; where there is no memory to remember it, once more. */
static bool was_checked(struct check *c, const char *id)
{
    for (size_t i = 0; i < c->layer_count; i++)
        if (strcmp(c->layers[i], id) == 0)
            return true;
    if (c->layer_count == c->layer_room) {
        size_t room = c->layer_room ? 2 * c->layer_room : 64;
        void *wide = realloc(c->layers, room * sizeof *c->layers);
        if (!wide)
            return false;
        c->layers = wide;
        c->layer_room = room;
    }
    snprintf(c->layers[c->layer_count++], sizeof *c->layers, "%s", id);
    return false;
}

/* A missing layer does no harm: the next image that has it unpacks it again. */
static int check_layer(struct check *c, const char *id, const char *diff_id, struct err *err)
{
    struct root_facts facts;
    cleanup_fd int lock = store_lock(c->store, false, err);
    cleanup_fd int layers =
        lock < 0 ? -1 : openat(c->store->fd, "unpacked", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (layers < 0)
        return lock < 0 ? lock : err_sys(err, "open the folder of layers");
    cleanup_fd int fd = openat(layers, id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT ? 0 : err_sys(err, "open a layer");
    if (flock(fd, LOCK_SH) < 0)
        return err_sys(err, "lock a layer");
    close(fd_steal(&lock)); /* nobody removes it now */
    if (root_facts_read(fd, &facts, err) >= 0 && check_tree(c, fd, &facts, err) >= 0 &&
        strcmp(facts.diff_id, diff_id) != 0)
        err_set(err, ERR_REFUSED, "it is not the layer that the config names");
    return err->code == ERR_NONE ? 0 : err_wrap(err, "the layer %.12s", id);
}

static void check_layers(struct check *c, const char *name, const struct image *image)
{
    for (unsigned i = 0; !image->before && i < image->manifest.layer_count; i++) {
        struct err why = ERR_INIT;
        const char *id = image->manifest.layers[i].digest + strlen("sha256:");
        if (!was_checked(c, id) && check_layer(c, id, image->config.diff_ids[i], &why) < 0)
            wrong(c, name, why.message);
    }
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
    if (image_open_in(c->store, n->name, &image, &why) < 0 ||
        check_tree(c, image.root_fd, &image.facts, &why) < 0)
        wrong(c, n->name, why.message);
    check_layers(c, n->name, &image);
    return 0;
}

int store_verify(const struct store *s, const char *only,
                 void (*said)(void *ctx, const char *name, const char *what), void *ctx,
                 struct err *err)
{
    struct check c = {
        .store = s, .only = only, .said = said, .ctx = ctx, .known = tree_known_new()};
    int r = names_each(s, check_name, &c, err);
    tree_known_free(&c.known);
    free(c.layers);
    return r < 0 ? r : c.wrong;
}
