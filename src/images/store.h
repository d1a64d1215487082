/* Where images are kept, below the state folder:
 *
 *   images/lock                one writer of names and blobs at a time, or many readers
 *   images/names/HASH          a name and the manifest that it stands for; HASH is the name's
 *   images/blobs/DIGEST        manifests and configs, each called by what it hashes to
 *   images/roots/CHAIN/tree    the files of an image, all layers laid over each other; CHAIN is the
 *   images/roots/CHAIN/facts   specification's name of these layers in this order
 *   images/tmp/RANDOM          what is being made or removed; its maker holds a lock on it
 *
 * IM-7  What has a final name is complete: it was written elsewhere, flushed, and renamed. Whoever
 *       is killed leaves something in tmp, which nobody looks at and the next one removes.
 * IM-8  A name, a pin, a digest: all are checked against the bytes at every start.
 * IM-9  What a sandbox uses is locked by it, and nobody removes it. */
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
/* 0: it is not there. 1: it was read. */
int store_read(const struct store *s, const char *folder, const char *name, struct buf *ret,
               struct err *err);
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
};
/* Locked for use, shared. -ENOENT where there is none (and err is not set). */
int root_hold(const struct store *s, const char chain[static 65]);
int root_facts_read(int root, struct root_facts *ret, struct err *err);
int root_facts_write(int folder, const struct root_facts *f, struct err *err);
bool root_in_use(const struct store *s, const char *chain);
/* tree.c: one digest over names, kinds, modes, sizes, contents and targets of all that is in it. */
int tree_digest(int dir, struct root_facts *ret, struct err *err);

/* ---- use.c: an image as the rest of brig sees it ---- */

struct image {
    struct image_name name;
    struct image_manifest manifest;
    struct image_config config;
    char chain[65];
    char root[PATH_MAX]; /* the folder; its path has no links */
    int root_fd;         /* holds it (IM-9) */
    struct root_facts facts;
};
#define IMAGE_INIT                                                                                 \
    {                                                                                              \
        .root_fd = -1                                                                              \
    }
int image_open_in(const struct store *s, const char *reference, struct image *ret, struct err *err);
int image_open(const char *reference, struct image *ret, struct err *err);
void image_done(struct image *image);
#define cleanup_image __attribute__((cleanup(image_done)))

/* The uid that the image wants its program to have; gid the same way. A user by name is looked up
 * in the image's own /etc/passwd. */
int image_user(const struct image *image, uint64_t *uid, struct err *err);

/* ---- keep.c ---- */

struct collected {
    unsigned roots, blobs, leftovers, steps;
    uint64_t bytes;
    unsigned in_use; /* without a name, but a sandbox runs on it */
};
/* Removes what no name leads to. */
int store_collect(const struct store *s, struct collected *ret, struct err *err);
/* Looks at everything, `said` hears of each thing that is wrong. Returns how many. */
int store_verify(const struct store *s, const char *only,
                 void (*said)(void *ctx, const char *name, const char *what), void *ctx,
                 struct err *err);
