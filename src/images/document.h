/* The documents of an image: index, manifest, config, and the list in an archive of docker's. All
 * of them are somebody else's bytes: read strictly, by type and by bound, and what could mean two
 * things means nothing.
 *
 * IM-6  A document is what its mediaType says and nothing else besides; duplicate keys, wrong
 *       types, and a manifest that is an index as well are refused. */
#pragma once

#include "base/err.h"
#include "base/json.h"
#include "policy/reference.h"

#define IMAGE_LAYERS_MAX   127
#define IMAGE_INDEX_MAX    256
#define IMAGE_DOCUMENT_MAX (4u << 20)

struct descriptor {
    char digest[DIGEST_SIZE];
    uint64_t size;
};

struct image_manifest {
    struct descriptor config;
    struct descriptor layers[IMAGE_LAYERS_MAX];
    unsigned layer_count;
};
int manifest_parse(const char *text, size_t len, struct image_manifest *ret, struct err *err);

struct index_entry {
    struct descriptor at;
    bool index;                /* it is an index itself */
    bool ours;                 /* for this machine, or for none in particular */
    char name[REFERENCE_SIZE]; /* that it says it has; empty: none that is a name */
};
struct image_index {
    struct index_entry entries[IMAGE_INDEX_MAX];
    unsigned count;
};
int index_parse(const char *text, size_t len, struct image_index *ret, struct err *err);

/* One image of an archive of docker's; the texts are file names in it, not looked at yet. */
struct archive_image {
    const char *config;
    const char *layers[IMAGE_LAYERS_MAX];
    unsigned layer_count;
    char name[REFERENCE_SIZE];
};
#define ARCHIVE_IMAGES_MAX 64
struct archive_list {
    struct json *tree;
    struct archive_image *images;
    unsigned count;
};
int archive_list_parse(const char *text, size_t len, struct archive_list *ret, struct err *err);
void archive_list_done(struct archive_list *list);

#define IMAGE_WORDS_MAX 256
/* What to run. The texts live in `tree`. */
struct image_config {
    struct json *tree;
    const char *env[IMAGE_WORDS_MAX];
    const char *entrypoint[IMAGE_WORDS_MAX];
    const char *command[IMAGE_WORDS_MAX];
    unsigned env_count, entrypoint_count, command_count;
    const char *user;    /* or NULL */
    const char *folder;  /* working folder, absolute, or NULL */
    const char *created; /* or NULL */
    char diff_ids[IMAGE_LAYERS_MAX][DIGEST_SIZE];
    unsigned diff_count;
    bool ours; /* for this machine */
    const char *architecture;
};
int config_parse(const char *text, size_t len, struct image_config *ret, struct err *err);
void config_done(struct image_config *c);

/* As images name it: "amd64", "arm64". */
const char *image_architecture(void);
/* The name of all layers together: of which blobs they came out of, and what the config says that
 * these are. IM-21: so nothing in it is only the word of brig-unpack; and no root of before, whose
 * name could be, has one that begins like this. */
void image_chain(const struct image_manifest *m, const struct image_config *c, char ret[static 65]);
/* The same as brig once made it, of what the config says alone: 64 digits. */
void image_chain_before(const struct image_config *c, char ret[static 65]);
