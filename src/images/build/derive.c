/* Makes an image of another one. Its files are hard links to the base's; the process that
 * unpacks a layer sees none of them. */
#include "images/build/build.h"

#include "base/cleanup.h"
#include "base/sha256.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* ---- begin ---- */

static int make_folder(const struct scratch *t, const char *name, char path[static PATH_MAX],
                       struct err *err)
{
    if (mkdirat(t->fd, name, 0755) < 0)
        return err_sys(err, "make a folder for the image");
    snprintf(path, PATH_MAX, "%.*s/%s", PATH_MAX - 20, t->path, name);
    return 0;
}

static int copy_base(struct derived *d, struct err *err)
{
    cleanup_fd int from =
        openat(d->base.root_fd, "tree", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    cleanup_fd int to = openat(d->root.fd, "tree", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (from < 0 || to < 0)
        return err_sys(err, "open the files of the image");
    d->room.entries = d->max_entries;
    d->room.bytes = d->max_bytes;
    if (merge_root(from, to, &d->room, err) < 0)
        return err_wrap(err, "the files of the base");
    d->sum.bytes = d->base.facts.bytes;
    d->sum.files = d->base.facts.files;
    d->sum.left_out = d->base.facts.left_out;
    return 0;
}

/* IM-21: its files would get a name that says of which blobs they are, which nobody saw. */
static int check_base_files(const struct image *base, struct err *err)
{
    if (!base->before)
        return 0;
    err_set(err, ERR_UNSUPPORTED,
            "the files of %s were unpacked by an earlier brig, which did not name them by their "
            "blobs: nothing is made of them",
            base->name.name);
    return err_hint(err, "load, pull or build it again");
}

int derive_begin(struct derived *d, const char *base, uint64_t max_bytes, uint64_t max_entries,
                 struct err *err)
{
    *d = (struct derived){.store = STORE_INIT,
                          .scratch = SCRATCH_INIT,
                          .root = SCRATCH_INIT,
                          .base = IMAGE_INIT,
                          .room = {.entries = max_entries, .bytes = max_bytes},
                          .max_bytes = max_bytes,
                          .max_entries = max_entries};
    if (store_open(&d->store, true, err) < 0 ||
        (base && image_open_in(&d->store, base, &d->base, err) < 0) ||
        check_base_files(&d->base, err) < 0 || load_sweep(&d->store, err) < 0 ||
        scratch_make(&d->store, &d->scratch, err) < 0 ||
        scratch_make(&d->store, &d->root, err) < 0 ||
        make_folder(&d->scratch, "empty", d->empty, err) < 0 ||
        make_folder(&d->root, "tree", d->tree, err) < 0)
        return err_number(err);
    if (edit_begin(&d->edit, base ? &d->base.config : NULL, err) < 0)
        return err_number(err);
    return base ? copy_base(d, err) : 0;
}

void derive_done(struct derived *d)
{
    for (size_t i = 0; i < d->step_count; i++)
        free(d->steps[i].text);
    free(d->steps);
    edit_done(&d->edit);
    image_done(&d->base);
    if (d->store.fd >= 0) {
        scratch_done(&d->store, &d->scratch);
        scratch_done(&d->store, &d->root);
        layers_done(&d->store, &d->held);
    }
    store_close(&d->store);
    d->steps = NULL;
    d->step_count = 0;
}

/* ---- layers ---- */

int derive_note(struct derived *d, const char *text, bool layer, struct err *err)
{
    struct step *wide = realloc(d->steps, (d->step_count + 1) * sizeof *wide);
    if (!wide)
        return err_memory(err);
    d->steps = wide;
    wide[d->step_count] = (struct step){.text = strdup(text), .layer = layer};
    return wide[d->step_count++].text ? 0 : err_memory(err);
}

int derive_open(struct derived *d, struct tar *t, struct err *err)
{
    unlinkat(d->scratch.fd, "layer", 0);
    int fd = openat(d->scratch.fd, "layer", O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    return fd < 0 ? err_sys(err, "make the layer") : tar_begin(t, fd, err);
}

static uint64_t less(uint64_t a, uint64_t b)
{
    return a > b ? a - b : 0;
}

/* IM-14: as any layer is, alone and in a sandbox; it must be what was written. */
static int unpack_added(struct derived *d, int fd, const char *digest, uint64_t size,
                        struct err *err)
{
    const struct layer_request q = {.store = &d->store,
                                    .name = {.blob = digest, .diff_id = digest},
                                    .source = fd,
                                    .size = size,
                                    .empty = d->empty,
                                    .max_bytes = less(d->max_bytes, d->sum.bytes),
                                    .max_entries = less(d->max_entries, d->sum.files)};
    if (lseek(fd, 0, SEEK_SET) < 0)
        return err_sys(err, "read the layer");
    return load_layer(&q, &d->held, err) < 0 ? err_wrap(err, "the new layer") : 0;
}

/* Over the files that are there. It is written without compression: the digest of the blob is that
 * of the layer. */
static int lay(struct derived *d, int fd, const char *digest, uint64_t size, struct err *err)
{
    cleanup_fd int making = -1; /* until it is unpacked */
    if (d->base.manifest.layer_count + d->added_count == IMAGE_LAYERS_MAX)
        return err_set(err, ERR_LIMIT, "an image has at most %d layers", IMAGE_LAYERS_MAX);
    const struct layer_name name = {.blob = digest, .diff_id = digest};
    int r = layers_take(&d->store, &d->held, &name, &making, err);
    if (r == 0)
        r = unpack_added(d, fd, digest, size, err);
    if (r < 0)
        return r;
    const struct held_layer *layer = &d->held.items[d->held.count - 1];
    if (load_lay(layer, &d->root, &d->room, err) < 0)
        return err_wrap(err, "the new layer");
    struct descriptor *at = &d->added[d->added_count++];
    snprintf(at->digest, sizeof at->digest, "%s", digest);
    at->size = size;
    d->sum.bytes += layer->facts.bytes;
    d->sum.files += layer->facts.files;
    d->sum.left_out += layer->facts.left_out;
    return 0;
}

static int put_layer(struct derived *d, struct tar *t, const char *key, struct err *err)
{
    char digest[DIGEST_SIZE];
    if (tar_end(t, digest, err) < 0 || lay(d, t->fd, digest, t->size, err) < 0)
        return err_number(err);
    if (key)
        step_keep(&d->store, key, d->scratch.fd, "layer", digest);
    return 0;
}

int derive_put_step(struct derived *d, struct tar *t, int written, const char *text,
                    const char *key, struct err *err)
{
    bool layer = t->entries > 0;
    int r = written >= 0 && layer ? put_layer(d, t, key, err) : written;
    if (r >= 0 && !layer && key)
        step_keep(&d->store, key, -1, NULL, NULL);
    close(t->fd);
    unlinkat(d->scratch.fd, "layer", 0);
    tar_done(t);
    return r < 0 ? r : derive_note(d, text, layer, err);
}

int derive_put(struct derived *d, struct tar *t, int written, const char *text, struct err *err)
{
    return derive_put_step(d, t, written, text, NULL, err);
}

int derive_put_found(struct derived *d, const struct step_found *found, const char *text,
                     struct err *err)
{
    if (found->fd >= 0 && lay(d, found->fd, found->digest, found->size, err) < 0)
        return err_number(err);
    return derive_note(d, text, found->fd >= 0, err);
}

/* ---- documents ---- */

static bool is_one_of(const char *key, const char *const *keys)
{
    for (; *keys; keys++)
        if (strcmp(key, *keys) == 0)
            return true;
    return false;
}

static void copy_members(struct json_writer *w, const struct json *from, const char *const *but)
{
    for (size_t i = 0; from && json_type(from) == JSON_OBJECT && i < json_count(from); i++)
        if (!is_one_of(json_key_at(from, i), but))
            jw_kv_json(w, json_key_at(from, i), json_value_at(from, i));
}

static void write_words(struct json_writer *w, const char *key, const struct words *words)
{
    if (!words->count)
        return;
    jw_kv_array(w, key);
    for (size_t i = 0; i < words->count; i++)
        jw_string(w, words->items[i]);
    jw_array_end(w);
}

/* Labels have values; ports and volumes are names alone. */
static void write_map(struct json_writer *w, const char *key, const struct json *base,
                      const struct words *more, bool values)
{
    const struct json *old = json_get(base, key);
    size_t count = old && json_type(old) == JSON_OBJECT ? json_count(old) : 0;
    if (!count && !more->count)
        return;
    jw_kv_object(w, key);
    for (size_t i = 0; i < count; i++) {
        bool again = false;
        const char *name = json_key_at(old, i);
        for (size_t n = 0; n < more->count && !again; n++)
            again = text_begins(more->items[n], name) &&
                    more->items[n][strlen(name)] == (values ? '=' : '\0');
        if (!again)
            jw_kv_json(w, name, json_value_at(old, i));
    }
    for (size_t n = 0; n < more->count; n++) {
        char *entry = more->items[n], *equals = values ? strchr(entry, '=') : NULL;
        if (equals)
            *equals = '\0';
        bool twice = false;
        for (size_t m = 0; m < n && !values; m++)
            twice = twice || strcmp(more->items[m], entry) == 0;
        if (values) {
            jw_kv_string(w, entry, equals ? equals + 1 : "");
        } else if (!twice) {
            jw_kv_object(w, entry);
            jw_object_end(w);
        }
        if (equals)
            *equals = '=';
    }
    jw_object_end(w);
}

static void write_run(struct json_writer *w, const struct derived *d)
{
    static const char *const ours[] = {"Env",   "Entrypoint",   "Cmd",     "User",
                                       "Shell", "WorkingDir",   "Labels",  "StopSignal",
                                       "Image", "ExposedPorts", "Volumes", NULL};
    const struct json *base = d->base.root_fd >= 0 ? json_get(d->base.config.tree, "config") : NULL;
    const struct edit *e = &d->edit;
    jw_kv_object(w, "config");
    copy_members(w, base, ours);
    write_words(w, "Env", &e->env);
    write_words(w, "Entrypoint", &e->entrypoint);
    write_words(w, "Cmd", &e->command);
    write_words(w, "Shell", &e->shell);
    if (e->user)
        jw_kv_string(w, "User", e->user);
    if (e->folder)
        jw_kv_string(w, "WorkingDir", e->folder);
    if (e->stop_signal)
        jw_kv_string(w, "StopSignal", e->stop_signal);
    write_map(w, "Labels", base, &e->labels, true);
    write_map(w, "ExposedPorts", base, &e->ports, false);
    write_map(w, "Volumes", base, &e->volumes, false);
    jw_object_end(w);
}

static void write_layers(struct json_writer *w, const struct derived *d)
{
    jw_kv_object(w, "rootfs");
    jw_kv_string(w, "type", "layers");
    jw_kv_array(w, "diff_ids");
    for (unsigned i = 0; i < d->base.config.diff_count; i++)
        jw_string(w, d->base.config.diff_ids[i]);
    for (unsigned i = 0; i < d->added_count; i++)
        jw_string(w, d->added[i].digest);
    jw_array_end(w);
    jw_object_end(w);
}

static void write_history(struct json_writer *w, const struct derived *d, const char *now)
{
    const struct json *old = d->base.root_fd >= 0 ? json_get(d->base.config.tree, "history") : NULL;
    jw_kv_array(w, "history");
    for (size_t i = 0; old && json_type(old) == JSON_ARRAY && i < json_count(old); i++)
        jw_json(w, json_at(old, i));
    for (size_t i = 0; i < d->step_count; i++) {
        jw_object_begin(w);
        jw_kv_string(w, "created", now);
        jw_kv_bytes(w, "created_by", d->steps[i].text, strlen(d->steps[i].text));
        if (!d->steps[i].layer)
            jw_kv_bool(w, "empty_layer", true);
        jw_object_end(w);
    }
    jw_array_end(w);
}

static void write_config(struct buf *out, const struct derived *d)
{
    static const char *const ours[] = {"config",           "rootfs",    "history", "created",
                                       "container_config", "container", NULL};
    struct json_writer w;
    char now[32];
    time_t seconds = time(NULL);
    struct tm tm;
    gmtime_r(&seconds, &tm);
    strftime(now, sizeof now, "%Y-%m-%dT%H:%M:%SZ", &tm);
    jw_init(&w, out, false);
    jw_object_begin(&w);
    if (d->base.root_fd >= 0) {
        copy_members(&w, d->base.config.tree, ours);
    } else {
        jw_kv_string(&w, "architecture", image_architecture());
        jw_kv_string(&w, "os", "linux");
    }
    jw_kv_string(&w, "created", now);
    write_run(&w, d);
    write_layers(&w, d);
    write_history(&w, d, now);
    jw_object_end(&w);
}

static void write_descriptor(struct json_writer *w, const char *type, const struct descriptor *at)
{
    jw_kv_string(w, "mediaType", type);
    jw_kv_string(w, "digest", at->digest);
    jw_kv_uint(w, "size", at->size);
}

/* The layers of the base as its own manifest names them. */
static int write_base_layers(struct json_writer *w, const struct derived *d, struct err *err)
{
    struct json *doc = NULL;
    cleanup_buf struct buf text;
    buf_init(&text, IMAGE_DOCUMENT_MAX);
    if (d->base.root_fd < 0)
        return 0;
    if (store_blob(&d->store, d->base.name.manifest, &text, err) < 0 ||
        json_parse(buf_text(&text), text.len, &json_default_limits, &doc, err) < 0)
        return err_wrap(err, "the manifest of the base");
    const struct json *list = json_get(doc, "layers");
    for (size_t i = 0; i < json_count(list); i++)
        jw_json(w, json_at(list, i));
    json_free(doc);
    return 0;
}

static int write_manifest(struct load_image *image, const struct derived *d, struct err *err)
{
    struct json_writer w;
    jw_init(&w, &image->manifest, false);
    jw_object_begin(&w);
    jw_kv_int(&w, "schemaVersion", 2);
    jw_kv_string(&w, "mediaType", "application/vnd.oci.image.manifest.v1+json");
    jw_kv_object(&w, "config");
    write_descriptor(&w, "application/vnd.oci.image.config.v1+json", &image->parsed.config);
    jw_object_end(&w);
    jw_kv_array(&w, "layers");
    if (write_base_layers(&w, d, err) < 0)
        return err_number(err);
    for (unsigned i = 0; i < d->added_count; i++) {
        jw_object_begin(&w);
        write_descriptor(&w, "application/vnd.oci.image.layer.v1.tar", &d->added[i]);
        jw_object_end(&w);
    }
    jw_array_end(&w);
    jw_object_end(&w);
    return 0;
}

static void digest_of(const struct buf *text, char ret[static DIGEST_SIZE])
{
    memcpy(ret, "sha256:", 8);
    sha256_hex(buf_text(text), text->len, ret + 7);
}

/* What is written is read again, as it will be at every start. */
static int write_documents(struct load_image *image, const struct derived *d, struct err *err)
{
    write_config(&image->config_text, d);
    if (image->config_text.failed || config_parse(buf_text(&image->config_text),
                                                  image->config_text.len, &image->config, err) < 0)
        return image->config_text.failed ? err_set(err, ERR_LIMIT, "the config becomes too long")
                                         : err_number(err);
    digest_of(&image->config_text, image->parsed.config.digest);
    image->parsed.config.size = image->config_text.len;
    if (write_manifest(image, d, err) < 0)
        return err_number(err);
    digest_of(&image->manifest, image->digest);
    if (image->manifest.failed ||
        manifest_parse(buf_text(&image->manifest), image->manifest.len, &image->parsed, err) < 0)
        return image->manifest.failed ? err_memory(err) : err_number(err);
    return image->parsed.layer_count == image->config.diff_count
               ? 0
               : err_set(err, ERR_INTERNAL, "other layers in the manifest than in the config");
}

int derive_finish(struct derived *d, const char *name, struct load_result *ret, struct err *err)
{
    cleanup_free struct load_image *image = calloc(1, sizeof *image);
    if (!image)
        return err_memory(err);
    *ret = (struct load_result){.facts = {.left_out = d->sum.left_out}};
    load_image_init(image);
    int r = write_documents(image, d, err);
    if (r >= 0)
        r = load_put(&d->store, image, name, &d->root, &d->held, ret, err);
    load_image_done(image);
    return r;
}
