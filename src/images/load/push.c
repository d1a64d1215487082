/* Packs an image of the store and gives it to a registry, with skopeo, as images are pulled.
 *
 * What strangers packed is not kept, only what came out of it, so that layers are packed anew: the
 * same files give the same bytes, whoever pushes them, but not those that were pulled. Owners,
 * devices and set-id bits, which the store has not (IM-3), are not in them. */
#include "base/cleanup.h"
#include "base/layer_marks.h"
#include "base/sha256.h"
#include "base/text.h"
#include "images/load/load.h"
#include "images/load/skopeo.h"
#include "images/load/tar.h"
#include "os/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define DEPTH_MAX 300

/* ---- one layer ---- */

struct first_name {
    uint64_t ino;
    char *name;
};

struct packing {
    struct tar *tar;
    unsigned depth;
    /* Files that have several names in this layer; st_nlink counts their names in roots, too. */
    uint64_t *seen;
    size_t seen_count, seen_room;
    struct first_name *first;
    size_t first_count;
    char name[PATH_MAX];
};

static void packing_done(struct packing *p)
{
    for (size_t i = 0; i < p->first_count; i++)
        free(p->first[i].name);
    free(p->first);
    free(p->seen);
}

typedef int pack_entry(struct packing *p, int dir, const char *leaf, const struct stat *sb,
                       struct err *err);

static int walk_folder(struct packing *p, int dir, pack_entry *fn, struct err *err);

static int walk_entry(struct packing *p, int dir, const char *leaf, pack_entry *fn, struct err *err)
{
    struct stat sb;
    size_t before = strlen(p->name);
    int len = snprintf(p->name + before, sizeof p->name - before, "%s%s", before ? "/" : "", leaf);
    if (len < 0 || (size_t)len >= sizeof p->name - before)
        return err_set(err, ERR_LIMIT, "a layer has too long names");
    if (fstatat(dir, leaf, &sb, AT_SYMLINK_NOFOLLOW) < 0)
        return err_sys(err, "look at a file of a layer");
    int r = fn(p, dir, leaf, &sb, err);
    if (r >= 0 && S_ISDIR(sb.st_mode)) {
        cleanup_fd int in = openat(dir, leaf, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        r = in < 0 ? err_sys(err, "open a folder of a layer") : walk_folder(p, in, fn, err);
    }
    p->name[before] = '\0';
    return r;
}

static int walk_folder(struct packing *p, int dir, pack_entry *fn, struct err *err)
{
    __attribute__((cleanup(tree_names_done))) struct tree_names names = {.count = 0};
    int r = tree_names_read(&names, dir, err);
    if (r == 0 && ++p->depth > DEPTH_MAX)
        r = err_set(err, ERR_LIMIT, "a layer has folders that lie too deep");
    for (size_t i = 0; r >= 0 && i < names.count; i++)
        r = walk_entry(p, dir, names.items[i], fn, err);
    p->depth--;
    return r;
}

static int note_file(struct packing *p, int dir, const char *leaf, const struct stat *sb,
                     struct err *err)
{
    (void)dir;
    (void)leaf;
    if (!S_ISREG(sb->st_mode) || sb->st_nlink < 2)
        return 0;
    if (p->seen_count == p->seen_room) {
        size_t room = p->seen_room ? 2 * p->seen_room : 1024;
        uint64_t *wide = realloc(p->seen, room * sizeof *wide);
        if (!wide)
            return err_memory(err);
        p->seen = wide;
        p->seen_room = room;
    }
    p->seen[p->seen_count++] = sb->st_ino;
    return 0;
}

static int by_number(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static int by_ino(const void *a, const void *b)
{
    return by_number(&((const struct first_name *)a)->ino, &((const struct first_name *)b)->ino);
}

static int find_linked(struct packing *p, struct err *err)
{
    if (p->seen_count)
        qsort(p->seen, p->seen_count, sizeof *p->seen, by_number);
    for (size_t i = 1; i < p->seen_count; i++) {
        if (p->seen[i] != p->seen[i - 1] ||
            (p->first_count && p->first[p->first_count - 1].ino == p->seen[i]))
            continue;
        struct first_name *wide = realloc(p->first, (p->first_count + 1) * sizeof *wide);
        if (!wide)
            return err_memory(err);
        p->first = wide;
        wide[p->first_count++] = (struct first_name){.ino = p->seen[i]};
    }
    return 0;
}

/* 1: another name of it was written. */
static int put_again(struct packing *p, const struct stat *sb, struct err *err)
{
    const struct first_name key = {.ino = sb->st_ino};
    struct first_name *f =
        p->first_count ? bsearch(&key, p->first, p->first_count, sizeof key, by_ino) : NULL;
    if (!f)
        return 0;
    if (f->name)
        return tar_hard_link(p->tar, p->name, f->name, err) < 0 ? err_number(err) : 1;
    return (f->name = strdup(p->name)) ? 0 : err_memory(err);
}

static int put_file(struct packing *p, int dir, const char *leaf, const struct stat *sb,
                    struct err *err)
{
    int again = put_again(p, sb, err);
    if (again)
        return again < 0 ? again : 0;
    cleanup_fd int fd = openat(dir, leaf, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return err_sys(err, "open a file of a layer");
    return tar_file(p->tar, p->name, fd, (uint64_t)sb->st_size, sb->st_mode, sb->st_mtime,
                    "a layer", err);
}

static int read_link(int dir, const char *leaf, char ret[static PATH_MAX], struct err *err)
{
    ssize_t n = readlinkat(dir, leaf, ret, PATH_MAX - 1);
    if (n <= 0)
        return err_sys(err, "read a link of a layer");
    ret[n] = '\0';
    return 0;
}

/* What a layer says of those below stands there under the names that archives have for it, but for
 * hard links to their files, and folders that no entry names. */
static int put_mark(struct packing *p, int dir, const char *leaf, struct err *err)
{
    char target[PATH_MAX], name[PATH_MAX];
    if (strcmp(leaf, LAYER_VIA) == 0)
        return 0;
    if (!text_begins(leaf, LAYER_LINK))
        return tar_text(p->tar, p->name, "", 0, 0600, err);
    size_t folder = strlen(p->name) - strlen(leaf);
    snprintf(name, sizeof name, "%.*s%s", (int)folder, p->name, leaf + strlen(LAYER_LINK));
    return read_link(dir, leaf, target, err) < 0 ? err_number(err)
                                                 : tar_hard_link(p->tar, name, target, err);
}

static int put_folder(struct packing *p, int dir, const char *leaf, const struct stat *sb,
                      struct err *err)
{
    struct stat mark;
    char via[NAME_MAX + sizeof "/" LAYER_VIA];
    snprintf(via, sizeof via, "%s/" LAYER_VIA, leaf);
    if (fstatat(dir, via, &mark, AT_SYMLINK_NOFOLLOW) == 0)
        return 0;
    return tar_folder(p->tar, p->name, sb->st_mode, sb->st_mtime, err);
}

static int put_entry(struct packing *p, int dir, const char *leaf, const struct stat *sb,
                     struct err *err)
{
    char target[PATH_MAX];
    if (text_begins(leaf, LAYER_WHITEOUT))
        return put_mark(p, dir, leaf, err);
    if (S_ISDIR(sb->st_mode))
        return put_folder(p, dir, leaf, sb, err);
    if (S_ISREG(sb->st_mode))
        return put_file(p, dir, leaf, sb, err);
    if (!S_ISLNK(sb->st_mode))
        return err_set(err, ERR_REFUSED, "a layer has a file that is none");
    return read_link(dir, leaf, target, err) < 0
               ? err_number(err)
               : tar_link(p->tar, p->name, target, sb->st_mtime, err);
}

static int pack_tree(int tree, struct tar *t, struct err *err)
{
    __attribute__((cleanup(packing_done))) struct packing p = {.tar = t};
    if (walk_folder(&p, tree, note_file, err) < 0 || find_linked(&p, err) < 0)
        return err_number(err);
    return walk_folder(&p, tree, put_entry, err);
}

/* The files of a layer of the store as an archive, in the folder `to` under its digest; `name` is
 * what it is called while it is written. */
static int layer_pack(int layer, int to, const char *name, struct descriptor *ret, struct err *err)
{
    struct tar t;
    cleanup_fd int tree = openat(layer, "tree", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    cleanup_fd int out = openat(to, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (tree < 0 || out < 0)
        return err_sys(err, "pack a layer");
    int r = tar_begin(&t, out, err);
    if (r >= 0)
        r = pack_tree(tree, &t, err);
    if (r >= 0)
        r = tar_end(&t, ret->digest, err);
    ret->size = t.size;
    tar_done(&t);
    if (r >= 0 && renameat(to, name, to, ret->digest + strlen("sha256:")) < 0)
        r = err_sys(err, "pack a layer");
    return r;
}

/* ---- the image ---- */

struct pushing {
    struct store store;
    struct scratch scratch;
    int folder; /* "pushed", in it */
    struct image image;
    struct held_layers held;
    struct descriptor layers[IMAGE_LAYERS_MAX], config;
};

static int pack_layers(struct pushing *p, struct err *err)
{
    for (unsigned i = 0; i < p->image.config.diff_count; i++) {
        int making;
        const struct layer_name name = {.blob = p->image.manifest.layers[i].digest,
                                        .diff_id = p->image.config.diff_ids[i]};
        int r = layers_take(&p->store, &p->held, &name, &making, err);
        if (making >= 0)
            close(making);
        if (r == 0) {
            err_set(err, ERR_REFUSED, "its layers are not in the store");
            return err_hint(err, "it was loaded by an earlier brig: load it again");
        }
        if (r < 0 || layer_pack(p->held.items[i].fd, p->folder, "layer", &p->layers[i], err) < 0)
            return err_wrap(err, "layer %u of %u", i + 1, p->image.config.diff_count);
    }
    return 0;
}

static int put_document(const struct pushing *p, const char *name, const struct buf *text,
                        struct err *err)
{
    cleanup_fd int fd = openat(p->folder, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (text->failed || fd < 0)
        return text->failed ? err_memory(err) : err_sys(err, "write a document");
    for (size_t at = 0; at < text->len;) {
        ssize_t n = write(fd, buf_text(text) + at, text->len - at);
        if (n <= 0)
            return err_sys(err, "write a document");
        at += (size_t)n;
    }
    return 0;
}

/* As it is, but for the names of the layers. */
static int put_config(struct pushing *p, struct err *err)
{
    const struct json *old = p->image.config.tree;
    struct json_writer w;
    cleanup_buf struct buf text;
    jw_begin(&w, &text, IMAGE_DOCUMENT_MAX);
    for (size_t i = 0; i < json_count(old); i++)
        if (strcmp(json_key_at(old, i), "rootfs") != 0)
            jw_kv_json(&w, json_key_at(old, i), json_value_at(old, i));
    jw_kv_object(&w, "rootfs");
    jw_kv_string(&w, "type", "layers");
    jw_kv_array(&w, "diff_ids");
    for (unsigned i = 0; i < p->image.config.diff_count; i++)
        jw_string(&w, p->layers[i].digest);
    jw_array_end(&w);
    jw_object_end(&w);
    jw_object_end(&w);
    memcpy(p->config.digest, "sha256:", 8);
    sha256_hex(buf_text(&text), text.len, p->config.digest + 7);
    p->config.size = text.len;
    return put_document(p, p->config.digest + 7, &text, err);
}

static void write_descriptor(struct json_writer *w, const char *kind, const struct descriptor *at)
{
    char type[80];
    snprintf(type, sizeof type, "application/vnd.oci.image.%s", kind);
    jw_kv_string(w, "mediaType", type);
    jw_kv_string(w, "digest", at->digest);
    jw_kv_uint(w, "size", at->size);
}

static int put_manifest(struct pushing *p, struct err *err)
{
    struct json_writer w;
    cleanup_buf struct buf text;
    jw_begin(&w, &text, IMAGE_DOCUMENT_MAX);
    jw_kv_int(&w, "schemaVersion", 2);
    jw_kv_string(&w, "mediaType", "application/vnd.oci.image.manifest.v1+json");
    jw_kv_object(&w, "config");
    write_descriptor(&w, "config.v1+json", &p->config);
    jw_object_end(&w);
    jw_kv_array(&w, "layers");
    for (unsigned i = 0; i < p->image.config.diff_count; i++) {
        jw_object_begin(&w);
        write_descriptor(&w, "layer.v1.tar", &p->layers[i]);
        jw_object_end(&w);
    }
    jw_array_end(&w);
    jw_object_end(&w);
    return put_document(p, "manifest.json", &text, err);
}

static int read_digest(const struct pushing *p, char ret[static DIGEST_SIZE], struct err *err)
{
    char text[DIGEST_SIZE + 8];
    ssize_t n = file_read(p->scratch.fd, "digest", text, sizeof text);
    if (n > 0)
        text[strcspn(text, "\n")] = '\0';
    if (n <= 0 || !digest_valid(text))
        return err_set(err, ERR_PROTOCOL, "skopeo did not say what the registry has now");
    snprintf(ret, DIGEST_SIZE, "%s", text);
    return 0;
}

static int send_it(const struct pushing *p, const struct push_request *request,
                   const struct reference *to, char ret[static DIGEST_SIZE], struct err *err)
{
    char source[PATH_MAX + 16], target[REFERENCE_SIZE + 16], digest[PATH_MAX + 32];
    int status;
    snprintf(source, sizeof source, "dir:%s/pushed", p->scratch.path);
    snprintf(target, sizeof target, "docker://%s", to->name);
    snprintf(digest, sizeof digest, "--digestfile=%s/digest", p->scratch.path);
    char *argv[] = {"skopeo",
                    "copy",
                    "--quiet",
                    digest,
                    request->plain_http ? "--dest-tls-verify=false" : "--dest-tls-verify=true",
                    "--",
                    source,
                    target,
                    NULL};
    const struct skopeo_run run = {.argv = argv, .max_file = UINT64_MAX};
    if (skopeo_run(&run, &status, err) < 0)
        return err_number(err);
    if (status == 0)
        return read_digest(p, ret, err);
    err_set(err, ERR_REFUSED, "skopeo could not push %s", to->name);
    return err_hint(err, "what it said is above; a login is made with: skopeo login REGISTRY");
}

static int push(struct pushing *p, const struct push_request *request, const struct reference *to,
                char ret[static DIGEST_SIZE], struct err *err)
{
    if (store_open(&p->store, true, err) < 0 ||
        image_open_in(&p->store, request->reference, &p->image, err) < 0 ||
        scratch_make(&p->store, &p->scratch, err) < 0)
        return err_number(err);
    if (mkdirat(p->scratch.fd, "pushed", 0700) < 0 ||
        (p->folder = openat(p->scratch.fd, "pushed", O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0)
        return err_sys(err, "make a folder for the image");
    if (pack_layers(p, err) < 0 || put_config(p, err) < 0 || put_manifest(p, err) < 0)
        return err_number(err);
    return send_it(p, request, to, ret, err);
}

/* A name without a registry would go to a public one. */
static int check_registry(const struct reference *to, struct err *err)
{
    const char *slash = strchr(to->name, '/');
    size_t len = slash ? (size_t)(slash - to->name) : 0;
    bool named = len && (memchr(to->name, '.', len) || memchr(to->name, ':', len) ||
                         (len == strlen("localhost") && memcmp(to->name, "localhost", len) == 0));
    if (named)
        return 0;
    err_set(err, ERR_USAGE, "%s names no registry", to->name);
    return err_hint(err, "say which: brig image push NAME REGISTRY/NAME (docker.io/team/tool)");
}

int push_image(const struct push_request *request, char name[static REFERENCE_SIZE],
               char ret[static DIGEST_SIZE], struct err *err)
{
    struct reference to;
    if (reference_parse(request->to ? request->to : request->reference, &to, err) < 0)
        return err_number(err);
    if (to.digest[0] && request->to) {
        err_set(err, ERR_USAGE, "what the registry will call it by its digest is not known before");
        return err_hint(err, "leave @sha256:… out");
    }
    if (check_registry(&to, err) < 0)
        return err_number(err);
    cleanup_free struct pushing *p = calloc(1, sizeof *p);
    if (!p)
        return err_memory(err);
    p->store = (struct store)STORE_INIT;
    p->scratch = (struct scratch)SCRATCH_INIT;
    p->image = (struct image)IMAGE_INIT;
    p->folder = -1;
    int r = push(p, request, &to, ret, err);
    snprintf(name, REFERENCE_SIZE, "%s", to.name);
    if (p->folder >= 0)
        close(p->folder);
    image_done(&p->image);
    layers_done(&p->store, &p->held);
    if (p->store.fd >= 0)
        scratch_done(&p->store, &p->scratch);
    store_close(&p->store);
    return r;
}
