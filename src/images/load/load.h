/* From a file or folder that somebody packed to an image of the store; and back. */
#pragma once

#include "images/merge.h"
#include "images/store.h"
#include "sandbox/stream.h"

#define LOAD_MAX_BYTES   (UINT64_C(16) << 30)
#define LOAD_MAX_ENTRIES 600000

struct load_result {
    struct image_name name;
    char before[DIGEST_SIZE]; /* what the name stood for, if for something else; or empty */
    bool known;               /* all of its layers were there already */
    struct root_facts facts;
};
struct load_request {
    int source;       /* open for reading: a tar archive, or a folder with an OCI layout */
    const char *name; /* or NULL: the one that the source says */
    uint64_t max_bytes, max_entries; /* of all images in it together */
    bool replace; /* a name that the source brings may be taken from another image */
    /* Hears of each image and each step; may be NULL. */
    void (*loaded)(void *ctx, const struct load_result *result);
    void (*step)(void *ctx, const char *what, unsigned layer, unsigned layers);
    void *ctx;
};
/* ERR_REFUSED: it is not what it says, or not what it may be. Nothing of it is left then. */
int load_image(const struct load_request *request, struct err *err);

/* ---- pull.c ---- */

struct pull_request {
    const char *reference;
    bool plain_http;
    struct load_request load; /* source and name are filled in */
};
int pull_image(const struct pull_request *request, struct err *err);

/* ---- push.c ---- */

struct push_request {
    const char *reference; /* the image here */
    const char *to;        /* what it is to be called there; NULL: the same */
    bool plain_http;
};
/* `name` is what it is called there, `ret` the digest of the manifest that the registry has. */
int push_image(const struct push_request *request, char name[static REFERENCE_SIZE],
               char ret[static DIGEST_SIZE], struct err *err);

/* ---- from_host.c ---- */

/* `packages` are separated by commas; the source is filled in. */
int host_image(const char *packages, struct load_request *load, struct err *err);

/* ---- unpack.c: one archive in a sandbox of its own (IM-2) ---- */

enum unpack_kind {
    UNPACK_ARCHIVE, /* no layer */
    UNPACK_LAYER,
    UNPACK_PLAIN, /* a layer that must not be packed: the digest of what it is given says all */
};
struct unpacked {
    char diff_id[DIGEST_SIZE]; /* of an UNPACK_LAYER */
    uint64_t bytes, entries, left_out;
    struct stream_hash given; /* what it was given, of the beginning of the archive: also set when
                                 it was refused */
};
/* Of what it wrote, and its exit status; `hashed`: with the digest of what it unpacked. */
int unpack_report_read(const char *text, size_t len, int status, bool hashed, struct unpacked *ret,
                       struct err *err);
/* `folder` gets it; `empty` is an empty folder, which is all else that there is in the sandbox. */
int unpack_run(int archive, enum unpack_kind kind, const char *folder, const char *empty,
               uint64_t max_bytes, uint64_t max_entries, struct unpacked *ret, struct err *err);

/* ---- source.c: a layout or an archive that is a folder by now ---- */

struct load_layer {
    char file[300]; /* in the source */
    struct descriptor at;
};
/* One image, all of whose documents were checked. */
struct load_image {
    char name[REFERENCE_SIZE]; /* that it says it has, or empty */
    char digest[DIGEST_SIZE];
    struct buf manifest, config_text;
    struct image_manifest parsed;
    struct image_config config;
    struct load_layer layers[IMAGE_LAYERS_MAX];
};
void load_image_init(struct load_image *i);
void load_image_done(struct load_image *i);
/* Calls `fn` for each image in it. */
int source_each(int dir, int (*fn)(void *ctx, struct load_image *image, struct err *err), void *ctx,
                struct err *err);
/* load.c, for images that are made here: an image whose documents are written and whose files are
 * in `t`, with those of its layers that are held, gets its name. r->facts.left_out is to be set. */
int load_put(struct store *store, struct load_image *image, const char *name, struct scratch *t,
             const struct held_layers *h, struct load_result *r, struct err *err);
/* One layer, which nobody else unpacks meanwhile (layers_take): out of `source`, checked to be the
 * blob of its name, into the store, held. */
struct layer_request {
    const struct store *store;
    struct layer_name name;
    int source; /* a plain file, from its beginning */
    uint64_t size;
    const char *empty; /* the path of an empty folder */
    uint64_t max_bytes, max_entries;
    struct tree_known *known; /* or NULL */
};
int load_layer(const struct layer_request *q, struct held_layers *h, struct err *err);
/* Its files get their names in the folder "tree" of `root`. */
int load_lay(const struct held_layer *layer, const struct scratch *root, struct merge_room *room,
             struct err *err);
/* Removes what the killed left behind. */
int load_sweep(const struct store *s, struct err *err);
/* A file of the source, through nothing that leads out of it. */
int source_open(int dir, const char *path, struct err *err);
