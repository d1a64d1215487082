/* Reads the documents of an image. No I/O. */
#include "base/cleanup.h"
#include "base/hex.h"
#include "base/quote.h"
#include "base/sha256.h"
#include "images/document.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct json_limits limits = {
    .max_bytes = IMAGE_DOCUMENT_MAX, .max_depth = 16, .max_nodes = 65536, .max_memory = 64u << 20};

static int refuse(const char *why, struct err *err)
{
    return err_set(err, ERR_REFUSED, "%s", why);
}

static int read_object(const char *text, size_t len, struct json **ret, struct err *err)
{
    if (json_parse(text, len, &limits, ret, err) < 0) {
        err->code = ERR_REFUSED;
        return err_number(err);
    }
    if (json_type(*ret) == JSON_OBJECT)
        return 0;
    json_free(*ret);
    *ret = NULL;
    return refuse("expected an object", err);
}

static bool one_of(const char *text, const char *const *list, size_t count)
{
    for (size_t i = 0; text && i < count; i++)
        if (strcmp(text, list[i]) == 0)
            return true;
    return false;
}
#define IS_ONE_OF(text, list) one_of(text, list, ARRAY_LEN(list))

#define OCI    "application/vnd.oci.image."
#define DOCKER "application/vnd.docker."
static const char *const manifest_types[] = {OCI "manifest.v1+json",
                                             DOCKER "distribution.manifest.v2+json"};
static const char *const index_types[] = {OCI "index.v1+json",
                                          DOCKER "distribution.manifest.list.v2+json"};
static const char *const config_types[] = {OCI "config.v1+json", DOCKER "container.image.v1+json"};
static const char *const layer_types[] = {OCI "layer.v1.tar",
                                          OCI "layer.v1.tar+gzip",
                                          OCI "layer.v1.tar+zstd",
                                          DOCKER "image.rootfs.diff.tar",
                                          DOCKER "image.rootfs.diff.tar.gzip",
                                          DOCKER "image.rootfs.diff.tar.zstd"};

/* NULL: absent. False: there, but no text. */
static bool text_or_none(const struct json *object, const char *key, const char **ret)
{
    const struct json *j = json_get(object, key);
    *ret = j && json_type(j) == JSON_STRING ? json_string(j) : NULL;
    return !j || json_type(j) == JSON_NULL || *ret;
}

/* IM-6: its media type is one that is known, and no member belongs to another kind of document. */
static int check_kind(const struct json *doc, const char *const *types, size_t type_count,
                      const char *const *foreign, struct err *err)
{
    const char *type;
    const struct json *version = json_get(doc, "schemaVersion");
    struct quoted q;
    if (!version || json_type(version) != JSON_INT || json_int(version) != 2)
        return refuse("its schemaVersion is not 2", err);
    if (!text_or_none(doc, "mediaType", &type))
        return refuse("its mediaType is no text", err);
    if (type && !one_of(type, types, type_count))
        return err_set(err, ERR_REFUSED, "it says that it is %s", quote(&q, type));
    for (; *foreign; foreign++)
        if (json_get(doc, *foreign))
            return err_set(err, ERR_REFUSED, "it could be two things: it has \"%s\" as well",
                           *foreign);
    return 0;
}

static int descriptor_parse(const struct json *j, const char *const *types, size_t type_count,
                            struct descriptor *ret, struct err *err)
{
    struct quoted q;
    const char *digest = json_text(j, "digest");
    const struct json *size = json_get(j, "size");
    if (!j || json_type(j) != JSON_OBJECT)
        return refuse("a descriptor is no object", err);
    if (!digest_valid(digest))
        return err_set(err, ERR_REFUSED, "%s is not a digest, expected sha256: and 64 digits",
                       quote(&q, digest));
    if (!size || json_type(size) != JSON_INT || json_int(size) < 0)
        return refuse("a descriptor without a size", err);
    if (!one_of(json_text(j, "mediaType"), types, type_count))
        return err_set(err, ERR_REFUSED, "a part of the type %s is not known here",
                       quote(&q, json_text(j, "mediaType")));
    if (json_get(j, "urls"))
        return refuse("a part that is to be fetched from elsewhere", err);
    snprintf(ret->digest, sizeof ret->digest, "%s", digest);
    ret->size = (uint64_t)json_int(size);
    return 0;
}

static const struct json *array_of(const struct json *doc, const char *key)
{
    const struct json *j = json_get(doc, key);
    return j && json_type(j) == JSON_ARRAY ? j : NULL;
}

int manifest_parse(const char *text, size_t len, struct image_manifest *ret, struct err *err)
{
    static const char *const foreign[] = {"manifests", "fsLayers", "blobs", NULL};
    cleanup_json struct json *doc = NULL;
    *ret = (struct image_manifest){.layer_count = 0};
    if (read_object(text, len, &doc, err) < 0 ||
        check_kind(doc, manifest_types, ARRAY_LEN(manifest_types), foreign, err) < 0 ||
        descriptor_parse(json_get(doc, "config"), config_types, ARRAY_LEN(config_types),
                         &ret->config, err) < 0)
        return err_wrap(err, "the manifest");
    const struct json *layers = array_of(doc, "layers");
    if (!layers || json_count(layers) > IMAGE_LAYERS_MAX)
        return err_set(err, layers ? ERR_LIMIT : ERR_REFUSED,
                       layers ? "the manifest: more than %d layers"
                              : "the manifest: no list of at most %d layers",
                       IMAGE_LAYERS_MAX);
    for (size_t i = 0; i < json_count(layers); i++)
        if (descriptor_parse(json_at(layers, i), layer_types, ARRAY_LEN(layer_types),
                             &ret->layers[ret->layer_count++], err) < 0)
            return err_wrap(err, "the manifest: layer %zu", i + 1);
    return 0;
}

const char *image_architecture(void)
{
#if defined(__x86_64__)
    return "amd64";
#elif defined(__aarch64__)
    return "arm64";
#else
#error "which architecture is this?"
#endif
}

static bool platform_ours(const struct json *platform)
{
    const char *os = json_text(platform, "os"), *machine = json_text(platform, "architecture");
    return os && machine && strcmp(os, "linux") == 0 && strcmp(machine, image_architecture()) == 0;
}

/* A tag alone is a name in one layout and nowhere else. */
static void take_name(const char *text, char ret[static REFERENCE_SIZE])
{
    struct reference ref;
    struct err ignored = ERR_INIT;
    if (!text || !strpbrk(text, ":/") || reference_parse(text, &ref, &ignored) < 0 || ref.digest[0])
        return;
    snprintf(ret, REFERENCE_SIZE, "%s", ref.name);
}

static int entry_parse(const struct json *j, struct index_entry *ret, struct err *err)
{
    const struct json *platform = json_get(j, "platform"), *notes = json_get(j, "annotations");
    *ret = (struct index_entry){.ours = true};
    ret->index = IS_ONE_OF(json_text(j, "mediaType"), index_types);
    if (descriptor_parse(j, ret->index ? index_types : manifest_types, 2, &ret->at, err) < 0)
        return err_number(err);
    if (platform && json_type(platform) != JSON_NULL)
        ret->ours = platform_ours(platform);
    /* An attestation of a builder is listed like an image, and is none. */
    if (json_text(notes, "vnd.docker.reference.type"))
        ret->ours = false;
    take_name(json_text(notes, "org.opencontainers.image.ref.name"), ret->name);
    take_name(json_text(notes, "io.containerd.image.name"), ret->name);
    return 0;
}

int index_parse(const char *text, size_t len, struct image_index *ret, struct err *err)
{
    static const char *const foreign[] = {"config", "layers", "fsLayers", "blobs", NULL};
    cleanup_json struct json *doc = NULL;
    ret->count = 0;
    if (read_object(text, len, &doc, err) < 0 ||
        check_kind(doc, index_types, ARRAY_LEN(index_types), foreign, err) < 0)
        return err_wrap(err, "the index");
    const struct json *list = array_of(doc, "manifests");
    if (!list || json_count(list) > IMAGE_INDEX_MAX)
        return err_set(err, ERR_REFUSED, "the index: no list of at most %d manifests",
                       IMAGE_INDEX_MAX);
    for (size_t i = 0; i < json_count(list); i++)
        if (entry_parse(json_at(list, i), &ret->entries[ret->count++], err) < 0)
            return err_wrap(err, "the index: entry %zu", i + 1);
    return 0;
}

/* ---- docker's list ---- */

static int archive_image_parse(const struct json *j, struct archive_image *ret, struct err *err)
{
    const struct json *layers = array_of(j, "Layers"), *tags = json_get(j, "RepoTags");
    ret->config = json_text(j, "Config");
    if (!ret->config || !layers || json_count(layers) > IMAGE_LAYERS_MAX)
        return refuse("an image without Config or a list of Layers", err);
    for (size_t i = 0; i < json_count(layers); i++)
        if (!(ret->layers[ret->layer_count++] = json_string(json_at(layers, i))))
            return refuse("a layer whose name is no text", err);
    if (tags && json_type(tags) == JSON_ARRAY && json_count(tags))
        take_name(json_string(json_at(tags, 0)), ret->name);
    return 0;
}

int archive_list_parse(const char *text, size_t len, struct archive_list *ret, struct err *err)
{
    *ret = (struct archive_list){.count = 0};
    if (json_parse(text, len, &limits, &ret->tree, err) < 0) {
        err->code = ERR_REFUSED;
        return err_wrap(err, "manifest.json");
    }
    size_t count = json_type(ret->tree) == JSON_ARRAY ? json_count(ret->tree) : 0;
    int r = count && count <= ARCHIVE_IMAGES_MAX ? 0 : refuse("no list of images", err);
    if (r == 0 && !(ret->images = calloc(count, sizeof *ret->images)))
        r = err_memory(err);
    for (size_t i = 0; r == 0 && i < count; i++)
        r = archive_image_parse(json_at(ret->tree, i), &ret->images[ret->count++], err);
    if (r < 0)
        archive_list_done(ret);
    return r < 0 ? err_wrap(err, "manifest.json") : 0;
}

void archive_list_done(struct archive_list *list)
{
    json_free(list->tree);
    free(list->images);
    *list = (struct archive_list){.count = 0};
}

/* ---- the config ---- */

static int take_words(const struct json *config, const char *key, const char **ret, unsigned *count,
                      struct err *err)
{
    const struct json *list = json_get(config, key);
    *count = 0;
    if (!list || json_type(list) == JSON_NULL)
        return 0;
    if (json_type(list) != JSON_ARRAY || json_count(list) > IMAGE_WORDS_MAX)
        return err_set(err, ERR_REFUSED, "%s is no list of at most %d texts", key, IMAGE_WORDS_MAX);
    for (size_t i = 0; i < json_count(list); i++)
        if (!(ret[(*count)++] = json_string(json_at(list, i))))
            return err_set(err, ERR_REFUSED, "%s has something that is no text", key);
    return 0;
}

static int take_run(struct image_config *c, const struct json *run, struct err *err)
{
    static const char *const texts[] = {"StopSignal", "Hostname", "Domainname"};
    static const char *const maps[] = {"Labels", "Volumes", "ExposedPorts"};
    const char *ignored;
    if (take_words(run, "Env", c->env, &c->env_count, err) < 0 ||
        take_words(run, "Entrypoint", c->entrypoint, &c->entrypoint_count, err) < 0 ||
        take_words(run, "Cmd", c->command, &c->command_count, err) < 0)
        return err_number(err);
    if (!text_or_none(run, "User", &c->user) || !text_or_none(run, "WorkingDir", &c->folder))
        return refuse("User or WorkingDir is no text", err);
    for (size_t i = 0; i < ARRAY_LEN(texts); i++)
        if (!text_or_none(run, texts[i], &ignored))
            return err_set(err, ERR_REFUSED, "%s is no text", texts[i]);
    for (size_t i = 0; i < ARRAY_LEN(maps); i++) {
        const struct json *map = json_get(run, maps[i]);
        if (map && json_type(map) != JSON_NULL && json_type(map) != JSON_OBJECT)
            return err_set(err, ERR_REFUSED, "%s is no object", maps[i]);
    }
    if (c->user && !c->user[0])
        c->user = NULL;
    if (c->folder && !c->folder[0])
        c->folder = NULL;
    if (c->folder && c->folder[0] != '/')
        return refuse("WorkingDir is no absolute path", err);
    return 0;
}

static int take_layers(struct image_config *c, const struct json *rootfs, struct err *err)
{
    const char *type = json_text(rootfs, "type");
    const struct json *ids = array_of(rootfs, "diff_ids");
    struct quoted q;
    if (!type || strcmp(type, "layers") != 0 || !ids || json_count(ids) > IMAGE_LAYERS_MAX)
        return refuse("no list of layers in its rootfs", err);
    for (size_t i = 0; i < json_count(ids); i++) {
        const char *id = json_string(json_at(ids, i));
        if (!digest_valid(id))
            return err_set(err, ERR_REFUSED, "%s is not a digest, expected sha256: and 64 digits",
                           quote(&q, id));
        snprintf(c->diff_ids[c->diff_count++], DIGEST_SIZE, "%s", id);
    }
    return 0;
}

static int take_config(struct image_config *c, struct err *err)
{
    const struct json *run = json_get(c->tree, "config");
    bool has_run = run && json_type(run) != JSON_NULL;
    if (has_run && json_type(run) != JSON_OBJECT)
        return refuse("what is to be run is no object", err);
    if (has_run && take_run(c, run, err) < 0)
        return err_number(err);
    if (!text_or_none(c->tree, "created", &c->created))
        return refuse("created is no text", err);
    c->architecture = json_text(c->tree, "architecture");
    c->ours = platform_ours(c->tree);
    return take_layers(c, json_get(c->tree, "rootfs"), err);
}

int config_parse(const char *text, size_t len, struct image_config *ret, struct err *err)
{
    *ret = (struct image_config){.env_count = 0};
    int r = read_object(text, len, &ret->tree, err);
    if (r >= 0)
        r = take_config(ret, err);
    if (r < 0)
        config_done(ret);
    return r < 0 ? err_wrap(err, "the config") : 0;
}

void config_done(struct image_config *c)
{
    json_free(c->tree);
    *c = (struct image_config){.env_count = 0};
}

void image_chain(const struct image_manifest *m, const struct image_config *c, char ret[static 65])
{
    static const char kind[] = "brig root by blobs\n";
    struct sha256 sha;
    uint8_t sum[SHA256_SIZE];
    char hex[SHA256_HEX_SIZE];
    sha256_init(&sha);
    sha256_add(&sha, kind, sizeof kind);
    for (unsigned i = 0; i < m->layer_count && i < c->diff_count; i++) {
        sha256_add(&sha, m->layers[i].digest, strlen(m->layers[i].digest) + 1);
        sha256_add(&sha, c->diff_ids[i], strlen(c->diff_ids[i]) + 1);
    }
    sha256_finish(&sha, sum);
    hex_encode(sum, sizeof sum, hex);
    snprintf(ret, 65, "blobs-%.58s", hex);
}

void image_chain_before(const struct image_config *c, char ret[static 65])
{
    char pair[2 * DIGEST_SIZE];
    /* An image without layers is the empty folder. */
    if (c->diff_count == 0)
        sha256_hex("", 0, ret);
    else
        snprintf(ret, 65, "%s", c->diff_ids[0] + strlen("sha256:"));
    for (unsigned i = 1; i < c->diff_count; i++) {
        int len = snprintf(pair, sizeof pair, "sha256:%s %s", ret, c->diff_ids[i]);
        sha256_hex(pair, (size_t)len, ret);
    }
}
