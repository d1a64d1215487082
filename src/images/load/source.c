/* What is in a source: an OCI layout, or an archive as docker and podman save them. Every document
 * is read from what its digest names, and every name is looked up beneath the source. */
#include "base/cleanup.h"
#include "base/hex.h"
#include "base/quote.h"
#include "base/sha256.h"
#include "images/load/load.h"
#include "os/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define INDEX_DEPTH 3
#define CHUNK       (256u << 10)

void load_image_init(struct load_image *i)
{
    memset(i, 0, sizeof *i);
    buf_init(&i->manifest, IMAGE_DOCUMENT_MAX);
    buf_init(&i->config_text, IMAGE_DOCUMENT_MAX);
}

void load_image_done(struct load_image *i)
{
    buf_done(&i->manifest);
    buf_done(&i->config_text);
    config_done(&i->config);
}

int source_open(int dir, const char *path, struct err *err)
{
    struct stat sb;
    struct quoted q;
    cleanup_fd int fd = sys_openat2(dir, path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0,
                                    RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS);
    if (fd < 0) {
        err_sys(err, "open %s of the source", quote(&q, path));
        err->code = ERR_REFUSED;
        return err_number(err);
    }
    if (fstat(fd, &sb) < 0 || !S_ISREG(sb.st_mode))
        return err_set(err, ERR_REFUSED, "%s of the source is no plain file", quote(&q, path));
    return fd_steal(&fd);
}

static int read_file(int dir, const char *path, struct buf *ret, struct err *err)
{
    char chunk[16384];
    ssize_t n;
    struct quoted q;
    cleanup_fd int fd = source_open(dir, path, err);
    if (fd < 0)
        return fd;
    while (!ret->failed && (n = read(fd, chunk, sizeof chunk)) != 0)
        if (n > 0)
            buf_add(ret, chunk, (size_t)n);
        else if (errno != EINTR)
            return err_sys(err, "read %s of the source", quote(&q, path));
    return ret->failed ? err_set(err, ERR_LIMIT, "%s of the source is too long", quote(&q, path))
                       : 0;
}

static void digest_of(const struct buf *text, char ret[static DIGEST_SIZE])
{
    memcpy(ret, "sha256:", 8);
    sha256_hex(buf_text(text), text->len, ret + 7);
}

static void blob_file(const char *digest, bool bare, char ret[static 300])
{
    static const char folder[] = "blobs/sha256/";
    const char *name = digest + strlen("sha256:");
    size_t len = bare ? 0 : sizeof folder - 1;
    memcpy(ret, folder, len);
    memcpy(ret + len, name, strlen(name) + 1); /* 64 digits, as digest_valid says */
}

static int read_blob(int dir, const struct descriptor *at, bool bare, struct buf *ret,
                     struct err *err)
{
    char file[300], digest[DIGEST_SIZE];
    blob_file(at->digest, bare, file);
    if (read_file(dir, file, ret, err) < 0)
        return err_number(err);
    digest_of(ret, digest);
    if (ret->len != at->size || strcmp(digest, at->digest) != 0)
        return err_set(err, ERR_REFUSED, "%s has other content, or another size, than was said",
                       at->digest);
    return 0;
}

static int check_machine(const struct image_config *c, struct err *err)
{
    struct quoted q;
    if (c->ours)
        return 0;
    err_set(err, ERR_UNSUPPORTED, "the image is for another machine: %s",
            quote(&q, c->architecture ? c->architecture : "it does not say which"));
    return err_hint(err, "this one runs images for linux/%s", image_architecture());
}

/* ---- OCI ---- */

typedef int image_fn(void *ctx, struct load_image *image, struct err *err);

/* `bare`: blobs lie beside each other, by their digits alone, as skopeo puts them into a folder. */
static int read_manifest(int dir, const struct index_entry *e, bool bare, struct load_image *i,
                         struct err *err)
{
    if ((!bare && read_blob(dir, &e->at, false, &i->manifest, err) < 0) ||
        manifest_parse(buf_text(&i->manifest), i->manifest.len, &i->parsed, err) < 0 ||
        read_blob(dir, &i->parsed.config, bare, &i->config_text, err) < 0 ||
        config_parse(buf_text(&i->config_text), i->config_text.len, &i->config, err) < 0)
        return err_number(err);
    if (i->config.diff_count != i->parsed.layer_count)
        return err_set(err, ERR_REFUSED, "the config names other layers than the manifest");
    for (unsigned n = 0; n < i->parsed.layer_count; n++) {
        i->layers[n] = (struct load_layer){.at = i->parsed.layers[n]};
        blob_file(i->parsed.layers[n].digest, bare, i->layers[n].file);
    }
    if (!bare)
        snprintf(i->digest, sizeof i->digest, "%s", e->at.digest);
    return check_machine(&i->config, err);
}

static int oci_image(int dir, const struct index_entry *e, const char *name, image_fn *fn,
                     void *ctx, struct err *err)
{
    cleanup_free struct load_image *image = calloc(1, sizeof *image);
    if (!image)
        return err_memory(err);
    load_image_init(image);
    snprintf(image->name, sizeof image->name, "%s", name);
    int r = read_manifest(dir, e, false, image, err);
    if (r >= 0)
        r = fn(ctx, image, err);
    load_image_done(image);
    return r;
}

static int oci_index(int dir, const char *text, size_t len, const char *name, unsigned depth,
                     image_fn *fn, void *ctx, struct err *err);

static int oci_entry(int dir, const struct index_entry *e, const char *outer, unsigned depth,
                     image_fn *fn, void *ctx, struct err *err)
{
    const char *name = e->name[0] ? e->name : outer;
    cleanup_buf struct buf text;
    buf_init(&text, IMAGE_DOCUMENT_MAX);
    if (!e->index)
        return oci_image(dir, e, name, fn, ctx, err);
    if (depth == INDEX_DEPTH)
        return err_set(err, ERR_REFUSED, "an index in an index in an index, and so on");
    if (read_blob(dir, &e->at, false, &text, err) < 0)
        return err_number(err);
    return oci_index(dir, buf_text(&text), text.len, name, depth + 1, fn, ctx, err);
}

/* An inner index is one image for several machines: the first that fits is meant. */
static int oci_index(int dir, const char *text, size_t len, const char *name, unsigned depth,
                     image_fn *fn, void *ctx, struct err *err)
{
    cleanup_free struct image_index *index = malloc(sizeof *index);
    unsigned used = 0;
    if (!index)
        return err_memory(err);
    if (index_parse(text, len, index, err) < 0)
        return err_number(err);
    for (unsigned i = 0; i < index->count; i++) {
        const struct index_entry *e = &index->entries[i];
        if (!e->ours || (depth > 1 && used))
            continue;
        used++;
        if (oci_entry(dir, e, name, depth, fn, ctx, err) < 0)
            return err_number(err);
    }
    if (used)
        return 0;
    err_set(err, ERR_UNSUPPORTED, "there is no image for this machine in it");
    return err_hint(err, "this one runs images for linux/%s", image_architecture());
}

/* ---- docker's archives ---- */

/* By its first bytes. This is only for what the manifest says: how a blob is read follows from all
 * of its bytes (IM-21). */
static const char *packer_of(int fd)
{
    unsigned char magic[4] = {0};
    if (pread(fd, magic, sizeof magic, 0) < (ssize_t)sizeof magic)
        return "";
    if (magic[0] == 0x1f && magic[1] == 0x8b)
        return "+gzip";
    return memcmp(magic, "\x28\xb5\x2f\xfd", 4) == 0 ? "+zstd" : "";
}

/* As long as it was when it was looked at: a file that grows has no end. */
static int hash_file(int fd, uint64_t size, char ret[static DIGEST_SIZE], struct err *err)
{
    cleanup_free char *chunk = malloc(CHUNK);
    struct sha256 sha;
    uint8_t sum[SHA256_SIZE];
    if (!chunk)
        return err_memory(err);
    sha256_init(&sha);
    for (uint64_t at = 0; at < size;) {
        ssize_t n = pread(fd, chunk, size - at < CHUNK ? (size_t)(size - at) : CHUNK, (off_t)at);
        if (n <= 0)
            return err_set(err, ERR_REFUSED, "a layer of the source cannot be read to its end");
        sha256_add(&sha, chunk, (size_t)n);
        at += (uint64_t)n;
    }
    sha256_finish(&sha, sum);
    memcpy(ret, "sha256:", 8);
    hex_encode(sum, sizeof sum, ret + 7);
    return 0;
}

/* One that is plain must be what the config says, byte by byte, which is seen when it is unpacked.
 */
static int describe_layer(int dir, struct load_image *i, unsigned n, const char **packer,
                          struct err *err)
{
    struct stat sb;
    struct load_layer *layer = &i->layers[n];
    cleanup_fd int fd = source_open(dir, layer->file, err);
    if (fd < 0)
        return fd;
    if (fstat(fd, &sb) < 0)
        return err_sys(err, "look at a layer of the source");
    layer->at.size = (uint64_t)sb.st_size;
    *packer = packer_of(fd);
    snprintf(layer->at.digest, sizeof layer->at.digest, "%s", i->config.diff_ids[n]);
    if ((*packer)[0] && hash_file(fd, layer->at.size, layer->at.digest, err) < 0)
        return err_number(err);
    i->parsed.layers[n] = layer->at;
    return 0;
}

/* Such an archive has no manifest: it gets the one that follows from its parts. */
static void write_manifest(struct load_image *i, const char *const packers[])
{
    struct json_writer w;
    char type[64];
    jw_init(&w, &i->manifest, false);
    jw_object_begin(&w);
    jw_kv_int(&w, "schemaVersion", 2);
    jw_kv_string(&w, "mediaType", "application/vnd.oci.image.manifest.v1+json");
    jw_kv_object(&w, "config");
    jw_kv_string(&w, "mediaType", "application/vnd.oci.image.config.v1+json");
    jw_kv_string(&w, "digest", i->parsed.config.digest);
    jw_kv_uint(&w, "size", i->parsed.config.size);
    jw_object_end(&w);
    jw_kv_array(&w, "layers");
    for (unsigned n = 0; n < i->parsed.layer_count; n++) {
        jw_object_begin(&w);
        snprintf(type, sizeof type, "application/vnd.oci.image.layer.v1.tar%s", packers[n]);
        jw_kv_string(&w, "mediaType", type);
        jw_kv_string(&w, "digest", i->layers[n].at.digest);
        jw_kv_uint(&w, "size", i->layers[n].at.size);
        jw_object_end(&w);
    }
    jw_array_end(&w);
    jw_object_end(&w);
}

static int read_docker(int dir, const struct archive_image *a, struct load_image *i,
                       struct err *err)
{
    const char *packers[IMAGE_LAYERS_MAX] = {0};
    if (read_file(dir, a->config, &i->config_text, err) < 0 ||
        config_parse(buf_text(&i->config_text), i->config_text.len, &i->config, err) < 0)
        return err_number(err);
    if (i->config.diff_count != a->layer_count)
        return err_set(err, ERR_REFUSED, "the config names other layers than manifest.json");
    digest_of(&i->config_text, i->parsed.config.digest);
    i->parsed.config.size = i->config_text.len;
    i->parsed.layer_count = a->layer_count;
    for (unsigned n = 0; n < a->layer_count; n++) {
        if (snprintf(i->layers[n].file, sizeof i->layers[n].file, "%s", a->layers[n]) >=
            (int)sizeof i->layers[n].file)
            return err_set(err, ERR_REFUSED, "a layer with too long a name");
        if (describe_layer(dir, i, n, &packers[n], err) < 0)
            return err_number(err);
    }
    write_manifest(i, packers);
    digest_of(&i->manifest, i->digest);
    return i->manifest.failed ? err_memory(err) : check_machine(&i->config, err);
}

static int docker_image(int dir, const struct archive_image *a, image_fn *fn, void *ctx,
                        struct err *err)
{
    cleanup_free struct load_image *image = calloc(1, sizeof *image);
    if (!image)
        return err_memory(err);
    load_image_init(image);
    snprintf(image->name, sizeof image->name, "%s", a->name);
    int r = read_docker(dir, a, image, err);
    if (r >= 0)
        r = fn(ctx, image, err);
    load_image_done(image);
    return r;
}

static int docker_each(int dir, image_fn *fn, void *ctx, struct err *err)
{
    struct archive_list list;
    cleanup_buf struct buf text;
    buf_init(&text, IMAGE_DOCUMENT_MAX);
    if (read_file(dir, "manifest.json", &text, err) < 0 ||
        archive_list_parse(buf_text(&text), text.len, &list, err) < 0)
        return err_number(err);
    int r = 0;
    for (unsigned i = 0; r >= 0 && i < list.count; i++)
        r = docker_image(dir, &list.images[i], fn, ctx, err);
    archive_list_done(&list);
    return r;
}

/* ---- skopeo's folder ---- */

static int folder_image(int dir, image_fn *fn, void *ctx, struct err *err)
{
    cleanup_free struct load_image *image = calloc(1, sizeof *image);
    if (!image)
        return err_memory(err);
    load_image_init(image);
    int r = read_file(dir, "manifest.json", &image->manifest, err);
    digest_of(&image->manifest, image->digest);
    if (r >= 0)
        r = read_manifest(dir, NULL, true, image, err);
    if (r >= 0)
        r = fn(ctx, image, err);
    load_image_done(image);
    return r;
}

static bool has(int dir, const char *name)
{
    struct stat sb;
    return fstatat(dir, name, &sb, AT_SYMLINK_NOFOLLOW) == 0;
}

/* A source may be more than one of them; then it is the first. */
int source_each(int dir, image_fn *fn, void *ctx, struct err *err)
{
    cleanup_buf struct buf text;
    buf_init(&text, IMAGE_DOCUMENT_MAX);
    if (has(dir, "oci-layout") && has(dir, "index.json")) {
        if (read_file(dir, "index.json", &text, err) < 0)
            return err_number(err);
        return oci_index(dir, buf_text(&text), text.len, "", 1, fn, ctx, err);
    }
    if (has(dir, "manifest.json") && has(dir, "version"))
        return folder_image(dir, fn, ctx, err);
    if (has(dir, "manifest.json"))
        return docker_each(dir, fn, ctx, err);
    err_set(err, ERR_REFUSED, "there is no image in it: neither oci-layout nor manifest.json");
    return err_hint(err, "expected what docker save, podman save or skopeo copy write");
}
