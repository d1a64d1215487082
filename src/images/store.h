/* Where images are kept, below the state folder:
 *
 *   images/lock                one writer of names and blobs at a time, or many readers
 *   images/names/HASH          a name and the manifest that it stands for; HASH is the name's
 *   images/blobs/DIGEST        manifests and configs, each called by what it hashes to
 *   images/unpacked/ID/tree    the files of one layer, unpacked alone; ID is the digest of the blob
 *   images/unpacked/ID/facts   that they came out of
 *   images/unpacked/ID/settled all of it is on the disk
 *   images/layers.lock         a byte of it for each layer that is being unpacked
 *   images/layers.stay         locked by who pulls an image, which may have any of the layers
 *   images/roots/CHAIN/tree    the files of an image, all layers laid over each other, as names of
 *   images/roots/CHAIN/facts   the layers' files; CHAIN is a name of these layers in this order
 *                              (image_chain)
 *   images/layers              layers as brig kept them before, by what brig-unpack said that they
 *                              are: nothing is taken from there any more
 *   images/tmp/RANDOM          what is being made or removed; its maker holds a lock on it
 *
 * IM-7  What has a final name is complete: it was written elsewhere, flushed, and renamed. Whoever
 *       is killed leaves something in tmp, which nobody looks at and the next one removes.
 * IM-8  A name, a pin, a digest: all are checked against the bytes at every start.
 * IM-9  What a sandbox uses is locked by it, and nobody removes it. A layer is locked by who makes
 * a root of it; one that is not settled and that nobody locks is what a killed load left.
 * IM-21 A layer has the name of the blob that it came out of. brig itself hashes what it gives to
 * brig-unpack: one that was taken over by a blob can spoil the layer of that very blob. How a blob
 * is packed follows from its bytes alone, so that one digest is one layer. */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "images/document.h"
#include "policy/reference.h"

#include <limits.h>

struct store {
    int fd; /* -1: there is none */
    char path[PATH_MAX];
};
#define STORE_INIT                                                                                 \
    {                                                                                              \
        .fd = -1                                                                                   \
    }
/* Without `make` a store that is not there is empty, and no error. */
int store_open(struct store *s, bool make, struct err *err);
void store_close(struct store *s);
#define cleanup_store __attribute__((cleanup(store_close)))

/* The caller closes it, which unlocks. */
int store_lock(const struct store *s, bool exclusive, struct err *err);

/* ---- files with final names ---- */

int store_write(const struct store *s, const char *folder, const char *name, const void *data,
                size_t len, struct err *err);
/* A manifest or config, which must hash to its digest. */
int store_blob(const struct store *s, const char *digest, struct buf *ret, struct err *err);

/* ---- what is being made ---- */

struct scratch {
    int fd; /* locked */
    char name[32];
    char path[PATH_MAX];
};
#define SCRATCH_INIT                                                                               \
    {                                                                                              \
        .fd = -1                                                                                   \
    }
int scratch_make(const struct store *s, struct scratch *ret, struct err *err);
/* Removes what is left of it. */
void scratch_done(const struct store *s, struct scratch *t);
/* Of makers that are gone. Returns how many. */
unsigned scratch_sweep(const struct store *s);

/* ---- names ---- */

struct image_name {
    char name[REFERENCE_SIZE];
    char manifest[DIGEST_SIZE];
    char loaded[24];
};
/* 0: there is none of that name. */
int name_read(const struct store *s, const char *name, struct image_name *ret, struct err *err);
int name_write(const struct store *s, const struct image_name *n, struct err *err);
int name_remove(const struct store *s, const char *name, struct err *err);
/* In no order. A file that is no name is told with `n` NULL, its own name, and the reason in
 * `err`: fn passes it on, or returns 0. */
int names_each(const struct store *s,
               int (*fn)(void *ctx, const struct image_name *n, const char *file, struct err *err),
               void *ctx, struct err *err);

/* ---- roots ---- */

struct root_facts {
    char tree[DIGEST_SIZE]; /* of everything in it (tree_digest) */
    uint64_t bytes, files, left_out;
    bool shared; /* a root whose files are also those of layers */
    /* Of a layer: what it is without compression, as brig-unpack said, and the size of its blob. */
    char diff_id[DIGEST_SIZE];
    uint64_t packed;
};
/* Locked for use, shared. -ENOENT where there is none (and err is not set). */
int root_hold(const struct store *s, const char chain[static 65]);
int root_facts_read(int root, struct root_facts *ret, struct err *err);
/* Not flushed: what is around it is to be flushed with it. */
int root_facts_write(int folder, const struct root_facts *f, struct err *err);
bool root_in_use(const struct store *s, const char *chain);
/* 1 or 0; who cannot see it does not say that it is not there. */
int root_is_there(const struct store *s, const char *chain, struct err *err);
/* tree.c: one digest over names, kinds, modes, sizes, contents and targets of all that is in it.
 * What was read once with `known` (or NULL) is not read again: none of it may be removed while this
 * is used. */
struct tree_known;
struct tree_known *tree_known_new(void);
void tree_known_free(struct tree_known **k);
int tree_digest(int dir, struct tree_known *known, struct root_facts *ret, struct err *err);

/* What is in a folder, in the order of its bytes. */
struct tree_names {
    char **items;
    size_t count, room;
};
int tree_names_read(struct tree_names *n, int dir, struct err *err);
void tree_names_done(struct tree_names *n);

/* ---- layers.c ---- */

struct held_layer {
    int fd; /* locks it, shared */
    char id[65];
    struct root_facts facts;
};
struct held_layers {
    struct held_layer items[IMAGE_LAYERS_MAX];
    unsigned count;
};
/* What a layer is called: by the digest of its blob, as it came. One whose files are another layer
 * than the config says is refused. */
struct layer_name {
    const char *blob, *diff_id;
};
/* One more: 1 if it was there. Otherwise 0, and the caller is the only one to unpack it until it
 * closes *making. */
int layers_take(const struct store *s, struct held_layers *h, const struct layer_name *name,
                int *making, struct err *err);
/* What was unpacked into the folder "tree" of `t` becomes this layer, and is held. */
int layers_put(const struct store *s, struct held_layers *h, const struct layer_name *name,
               struct scratch *t, const struct root_facts *facts, struct err *err);
/* The caller has locked the store, and flushed its file system. */
int layers_settle(const struct held_layers *h, struct err *err);
/* Lets go of them. What is not settled then and nobody else holds is removed. */
void layers_done(const struct store *s, struct held_layers *h);
/* The same for those whose holders are gone, with the store locked. Returns how many. */
unsigned layers_sweep(const struct store *s);

/* As long as the descriptor is open, which the caller closes, `gc` leaves the layers that are
 * settled: who pulls relies on them before it is known which image has them. */
int layers_stay(const struct store *s, struct err *err);
/* Calls `fn` with each of them, while the store is locked: its digest without "sha256:", and the
 * size of its blob. */
int layers_each(const struct store *s,
                int (*fn)(void *ctx, const char *id, uint64_t packed, struct err *err), void *ctx,
                struct err *err);
/* The caller has the store for itself. */
bool layers_must_stay(const struct store *s);

/* What of the layers is in how many images. */
struct layer_use {
    char id[65];
    unsigned names;
    uint64_t bytes;
    bool there;
};
struct layer_uses {
    struct layer_use *items;
    size_t count, room;
};
int layer_uses_read(const struct store *s, struct layer_uses *ret, struct err *err);
void layer_uses_done(struct layer_uses *u);
/* What an image has for itself, and what others have as well. False: its layers are not there, all
 * of its files are its own. */
struct image;
bool layer_uses_sizes(const struct layer_uses *u, const struct image *image, uint64_t *own,
                      uint64_t *shared);

/* ---- use.c: an image as the rest of brig sees it ---- */

struct image {
    struct image_name name;
    struct image_manifest manifest;
    struct image_config config;
    char chain[65];
    char root[PATH_MAX]; /* the folder; its path has no links */
    int root_fd;         /* holds it (IM-9) */
    bool before;         /* its files are from before layers were named by their blobs */
    struct root_facts facts;
};
#define IMAGE_INIT                                                                                 \
    {                                                                                              \
        .root_fd = -1                                                                              \
    }
int image_open_in(const struct store *s, const char *reference, struct image *ret, struct err *err);
int image_open(const char *reference, struct image *ret, struct err *err);
/* Name, manifest and config of image->name, and the chain; not its root. */
int image_documents(const struct store *s, struct image *image, struct err *err);
void image_done(struct image *image);
#define cleanup_image __attribute__((cleanup(image_done)))

/* The uid that the image wants its program to have; gid the same way. A user by name is looked up
 * in the image's own /etc/passwd. */
int image_user(const struct image *image, uint64_t *uid, struct err *err);

/* ---- keep.c ---- */

struct collected {
    unsigned roots, layers, blobs, leftovers, steps;
    uint64_t bytes;
    unsigned in_use;        /* without a name, but a sandbox runs on it */
    unsigned layers_wanted; /* without a name, but an image is being pulled, which may have them */
};
/* Removes what no name leads to. */
int store_collect(const struct store *s, struct collected *ret, struct err *err);
/* Looks at everything, `said` hears of each thing that is wrong. Returns how many. */
int store_verify(const struct store *s, const char *only,
                 void (*said)(void *ctx, const char *name, const char *what), void *ctx,
                 struct err *err);
