/* Layers of the store: found, added, removed, and counted by the images that use them. Looking for
 * a layer, adding or removing one locks the store, which is never long. A process that unpacks a
 * layer locks a byte of layers.lock, so that another one which needs the same layer waits for it.
 */
#include "images/store.h"

#include "base/cleanup.h"
#include "base/hex.h"
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

static int open_layers(const struct store *s)
{
    return openat(s->fd, "unpacked", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

static bool is_settled(int layer)
{
    struct stat sb;
    return fstatat(layer, "settled", &sb, AT_SYMLINK_NOFOLLOW) == 0;
}

/* Out of the way in one step, as a root (keep.c). */
static bool remove_layer(const struct store *s, int layers, const char *id, int fd)
{
    char aside[80];
    cleanup_fd int tmp = openat(s->fd, "tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    snprintf(aside, sizeof aside, "layer-%s", id);
    return tmp >= 0 && renameat(layers, id, tmp, aside) == 0 && remove_folder(tmp, aside, fd) == 0;
}

/* Its maker may have been killed before it was done: what it left may be anything. */
static bool was_left(int fd)
{
    return !is_settled(fd) && flock(fd, LOCK_EX | LOCK_NB) == 0;
}

/* ---- take ---- */

/* IM-8, as far as brig-unpack is believed: about the blob that it was given, and no other. */
static int check_diff_id(const struct root_facts *facts, const char *diff_id, struct err *err)
{
    return strcmp(facts->diff_id, diff_id) == 0
               ? 0
               : err_set(err, ERR_REFUSED, "it is not the layer that the config names");
}

/* 1: it is held. The store is locked. */
static int hold(const struct store *s, struct held_layer *h, const char *diff_id, struct err *err)
{
    cleanup_fd int layers = open_layers(s);
    if (layers < 0)
        return err_sys(err, "open the folder of layers");
    cleanup_fd int fd = openat(layers, h->id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT ? 0 : err_sys(err, "open a layer");
    if (was_left(fd))
        return remove_layer(s, layers, h->id, fd) ? 0
                                                  : err_sys(err, "remove what is left of a layer");
    if (flock(fd, LOCK_SH) < 0)
        return err_sys(err, "lock a layer");
    if (root_facts_read(fd, &h->facts, err) < 0)
        return err_wrap(err, "the layer %.64s", h->id);
    if (check_diff_id(&h->facts, diff_id, err) < 0)
        return err_number(err);
    h->fd = fd_steal(&fd);
    return 1;
}

static int hold_locked(const struct store *s, struct held_layer *h, const char *diff_id,
                       struct err *err)
{
    cleanup_fd int lock = store_lock(s, true, err);
    return lock < 0 ? lock : hold(s, h, diff_id, err);
}

/* The byte of layers.lock for this layer: two layers may have the same, and then only wait for each
 * other. */
static int lock_making(const struct store *s, const char *id, struct err *err)
{
    char digits[16];
    snprintf(digits, sizeof digits, "%.15s", id);
    struct flock lock = {.l_type = F_WRLCK,
                         .l_whence = SEEK_SET,
                         .l_start = (off_t)strtoull(digits, NULL, 16),
                         .l_len = 1};
    cleanup_fd int fd =
        openat(s->fd, "layers.lock", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return err_sys(err, "open the lock of the layers");
    while (fcntl(fd, F_OFD_SETLKW, &lock) < 0)
        if (errno != EINTR)
            return err_sys(err, "lock a layer");
    return fd_steal(&fd);
}

static struct held_layer *next_of(struct held_layers *h, const struct layer_name *name,
                                  struct err *err)
{
    if (h->count == IMAGE_LAYERS_MAX || !digest_valid(name->blob) || !digest_valid(name->diff_id)) {
        err_set(err, ERR_INTERNAL, "a layer too many, or none");
        return NULL;
    }
    struct held_layer *next = &h->items[h->count];
    *next = (struct held_layer){.fd = -1};
    snprintf(next->id, sizeof next->id, "%s", name->blob + strlen("sha256:"));
    return next;
}

int layers_take(const struct store *s, struct held_layers *h, const struct layer_name *name,
                int *making, struct err *err)
{
    struct held_layer *next = next_of(h, name, err);
    *making = -1;
    if (!next)
        return err_number(err);
    int found = hold_locked(s, next, name->diff_id, err);
    if (found == 0) {
        cleanup_fd int lock = lock_making(s, next->id, err);
        if (lock < 0)
            return lock;
        found = hold_locked(s, next, name->diff_id, err);
        if (found == 0)
            *making = fd_steal(&lock);
    }
    h->count += found > 0;
    return found;
}

/* ---- put ---- */

static int put_locked(const struct store *s, struct held_layer *h, struct scratch *t,
                      struct err *err)
{
    cleanup_fd int tmp = openat(s->fd, "tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    cleanup_fd int layers = open_layers(s);
    if (tmp < 0 || layers < 0 || renameat(tmp, t->name, layers, h->id) < 0)
        return err_sys(err, "give a layer its name");
    h->fd = t->fd;
    t->fd = -1;
    return flock(h->fd, LOCK_SH) == 0 ? 0 : err_sys(err, "lock a layer");
}

int layers_put(const struct store *s, struct held_layers *h, const struct layer_name *name,
               struct scratch *t, const struct root_facts *facts, struct err *err)
{
    struct held_layer *next = next_of(h, name, err);
    if (!next || check_diff_id(facts, name->diff_id, err) < 0 ||
        root_facts_write(t->fd, facts, err) < 0)
        return err_number(err);
    cleanup_fd int lock = store_lock(s, true, err);
    if (lock < 0)
        return lock;
    next->facts = *facts;
    int r = put_locked(s, next, t, err);
    h->count += next->fd >= 0; /* then it is let go of with the others */
    return r;
}

/* ---- settle, let go ---- */

int layers_settle(const struct held_layers *h, struct err *err)
{
    for (unsigned i = 0; i < h->count; i++) {
        if (is_settled(h->items[i].fd))
            continue;
        cleanup_fd int fd =
            openat(h->items[i].fd, "settled", O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (fd < 0 || fsync(h->items[i].fd) < 0)
            return err_sys(err, "settle a layer");
    }
    return 0;
}

void layers_done(const struct store *s, struct held_layers *h)
{
    struct err ignored = ERR_INIT;
    cleanup_fd int lock = h->count ? store_lock(s, true, &ignored) : -1;
    cleanup_fd int layers = lock < 0 ? -1 : open_layers(s);
    for (unsigned i = 0; i < h->count; i++) {
        int fd = h->items[i].fd;
        if (layers >= 0 && was_left(fd))
            (void)remove_layer(s, layers, h->items[i].id, fd);
        close(fd);
    }
    h->count = 0;
}

unsigned layers_sweep(const struct store *s)
{
    unsigned count = 0;
    cleanup_fd int layers = open_layers(s);
    DIR *list = layers < 0 ? NULL : folder_open(layers, ".");
    if (!list)
        return 0;
    for (struct dirent *e; (e = readdir(list));) {
        if (e->d_name[0] == '.')
            continue;
        cleanup_fd int fd =
            openat(layers, e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd >= 0 && was_left(fd))
            count += remove_layer(s, layers, e->d_name, fd);
    }
    closedir(list);
    return count;
}

/* ---- for pulls ---- */

static int open_stay(const struct store *s)
{
    return openat(s->fd, "layers.stay", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
}

/* A collector has locked the store while it asks (layers_must_stay): one of the two is first.
 */
int layers_stay(const struct store *s, struct err *err)
{
    cleanup_fd int lock = store_lock(s, false, err);
    cleanup_fd int fd = lock < 0 ? -1 : open_stay(s);
    if (lock < 0)
        return lock;
    if (fd < 0 || flock(fd, LOCK_SH) < 0)
        return err_sys(err, "hold the layers that are there");
    return fd_steal(&fd);
}

/* One of which nobody can tell does. */
bool layers_must_stay(const struct store *s)
{
    cleanup_fd int fd = open_stay(s);
    return fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0;
}

/* One that cannot be read cannot be used. */
static int tell_layer(int layers, const char *id,
                      int (*fn)(void *ctx, const char *id, uint64_t packed, struct err *err),
                      void *ctx, struct err *err)
{
    struct root_facts facts;
    struct err ignored = ERR_INIT;
    char digest[DIGEST_SIZE];
    cleanup_fd int fd = openat(layers, id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    snprintf(digest, sizeof digest, "sha256:%.64s", id);
    if (fd < 0 || strlen(id) != 64 || !digest_valid(digest) || !is_settled(fd) ||
        root_facts_read(fd, &facts, &ignored) < 0 || !facts.diff_id[0])
        return 0;
    return fn(ctx, id, facts.packed, err);
}

int layers_each(const struct store *s,
                int (*fn)(void *ctx, const char *id, uint64_t packed, struct err *err), void *ctx,
                struct err *err)
{
    struct dirent *e;
    int r = 0, more = 0;
    cleanup_fd int lock = store_lock(s, false, err);
    if (lock < 0)
        return lock;
    DIR *list = folder_open(s->fd, "unpacked");
    if (!list)
        return err_sys(err, "list the layers");
    while (r >= 0 && (more = folder_next(list, &e)) > 0)
        r = tell_layer(dirfd(list), e->d_name, fn, ctx, err);
    if (r >= 0 && more < 0)
        r = err_sys(err, "list the layers");
    closedir(list);
    return r;
}

/* ---- sizes ---- */

void layer_uses_done(struct layer_uses *u)
{
    free(u->items);
    *u = (struct layer_uses){.items = NULL};
}

static struct layer_use *use_of(const struct layer_uses *u, const char *id)
{
    for (size_t i = 0; i < u->count; i++)
        if (strcmp(u->items[i].id, id) == 0)
            return &u->items[i];
    return NULL;
}

static void look_at_layer(const struct store *s, struct layer_use *use)
{
    struct root_facts facts;
    struct err ignored = ERR_INIT;
    cleanup_fd int layers = open_layers(s);
    cleanup_fd int fd =
        layers < 0 ? -1 : openat(layers, use->id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || root_facts_read(fd, &facts, &ignored) < 0)
        return;
    use->there = true;
    use->bytes = facts.bytes;
}

static int add_use(const struct store *s, struct layer_uses *u, const char *id, struct err *err)
{
    struct layer_use *known = use_of(u, id);
    if (known) {
        known->names++;
        return 0;
    }
    if (u->count == u->room) {
        size_t room = u->room ? 2 * u->room : 64;
        struct layer_use *wide = realloc(u->items, room * sizeof *wide);
        if (!wide)
            return err_memory(err);
        u->items = wide;
        u->room = room;
    }
    struct layer_use *use = &u->items[u->count++];
    *use = (struct layer_use){.names = 1};
    snprintf(use->id, sizeof use->id, "%s", id);
    look_at_layer(s, use);
    return 0;
}

struct uses_of {
    const struct store *store;
    struct layer_uses *uses;
};

/* A layer that an image has twice has still one user. */
static bool came_before(const struct image_manifest *m, unsigned at)
{
    for (unsigned i = 0; i < at; i++)
        if (strcmp(m->layers[i].digest, m->layers[at].digest) == 0)
            return true;
    return false;
}

static int add_image(void *ctx, const struct image_name *n, const char *file, struct err *err)
{
    struct uses_of *of = ctx;
    struct err ignored = ERR_INIT;
    cleanup_image struct image image = IMAGE_INIT;
    (void)file;
    if (!n)
        return 0;
    image.name = *n;
    if (image_documents(of->store, &image, &ignored) < 0 ||
        root_is_there(of->store, image.chain, &ignored) <= 0)
        return 0;
    for (unsigned i = 0; i < image.manifest.layer_count; i++)
        if (!came_before(&image.manifest, i) &&
            add_use(of->store, of->uses, image.manifest.layers[i].digest + 7, err) < 0)
            return err_number(err);
    return 0;
}

int layer_uses_read(const struct store *s, struct layer_uses *ret, struct err *err)
{
    struct uses_of of = {.store = s, .uses = ret};
    *ret = (struct layer_uses){.items = NULL};
    return names_each(s, add_image, &of, err);
}

bool layer_uses_sizes(const struct layer_uses *u, const struct image *image, uint64_t *own,
                      uint64_t *shared)
{
    const struct image_manifest *m = &image->manifest;
    *own = *shared = 0;
    for (unsigned i = 0; i < m->layer_count; i++) {
        if (came_before(m, i))
            continue;
        const struct layer_use *use = image->before ? NULL : use_of(u, m->layers[i].digest + 7);
        if (!use || !use->there)
            return false;
        *(use->names > 1 ? shared : own) += use->bytes;
    }
    return true;
}
