/* brig image list and show. */
#include "base/cleanup.h"
#include "cli/image/image.h"
#include "cli/term.h"
#include "images/store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OUTPUT_MAX (16u << 20)

/* clang-format off */
static const struct opt json_items[] = {
    {OPT_JSON, 0, "json", OPT_FLAG, NULL, NULL, NULL, "Output",
     "print one JSON object"},
};
/* clang-format on */
static const struct opt_table json_table = {
    .items = json_items, .count = ARRAY_LEN(json_items), .next = &common_options};

/* ---- list ---- */

struct line {
    struct image_name name;
    bool usable, in_use;
    struct root_facts facts;
    uint64_t own, shared;
};

struct lines {
    const struct store *store;
    struct layer_uses uses;
    struct line *items;
    size_t count, room;
};

static void lines_done(struct lines *l)
{
    free(l->items);
    layer_uses_done(&l->uses);
}

/* Of what lies on the disk. An image without layers of its own in the store is from before they
 * were kept. */
static void find_sizes(const struct layer_uses *uses, const struct image *image, uint64_t *own,
                       uint64_t *shared)
{
    if (layer_uses_sizes(uses, image, own, shared))
        return;
    *own = image->facts.bytes;
    *shared = 0;
}

/* Asked with the store for ourselves: whoever starts on it meanwhile waits. */
static bool is_used(const struct store *s, const char *chain)
{
    struct err ignored = ERR_INIT;
    cleanup_fd int lock = store_lock(s, true, &ignored);
    return lock >= 0 && root_in_use(s, chain);
}

static void look_at(const struct store *s, const struct layer_uses *uses, struct line *line)
{
    struct image image;
    struct err ignored = ERR_INIT;
    char chain[65];
    if (image_open_in(s, line->name.name, &image, &ignored) < 0)
        return;
    line->usable = true;
    line->facts = image.facts;
    find_sizes(uses, &image, &line->own, &line->shared);
    snprintf(chain, sizeof chain, "%s", image.chain);
    image_done(&image);
    line->in_use = is_used(s, chain);
}

static int add_line(void *ctx, const struct image_name *n, const char *file, struct err *err)
{
    struct lines *l = ctx;
    (void)file;
    if (!n)
        return 0;
    if (l->count == l->room) {
        size_t room = l->room ? 2 * l->room : 32;
        struct line *wide = realloc(l->items, room * sizeof *wide);
        if (!wide)
            return err_memory(err);
        l->items = wide;
        l->room = room;
    }
    l->items[l->count++] = (struct line){.name = *n};
    return 0;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct line *)a)->name.name, ((const struct line *)b)->name.name);
}

static void write_line(const struct line *l, struct json_writer *w)
{
    jw_object_begin(w);
    jw_kv_string(w, "name", l->name.name);
    jw_kv_string(w, "manifest", l->name.manifest);
    jw_kv_string(w, "loaded", l->name.loaded);
    jw_kv_uint(w, "bytes", l->facts.bytes);
    jw_kv_uint(w, "own_bytes", l->own);
    jw_kv_uint(w, "shared_bytes", l->shared);
    jw_kv_uint(w, "files", l->facts.files);
    jw_kv_bool(w, "in_use", l->in_use);
    jw_kv_bool(w, "usable", l->usable);
    jw_object_end(w);
}

static void print_lines(const struct lines *l, bool json, struct buf *out)
{
    struct json_writer w;
    char size[24], own[24];
    jw_init(&w, out, false);
    if (json) {
        jw_object_begin(&w);
        jw_kv_array(&w, "images");
    } else if (l->count) {
        buf_fmt(out, "%-40s  %-19s  %9s  %9s  %s\n", "NAME", "DIGEST", "SIZE", "OWN", "LOADED");
    }
    for (size_t i = 0; i < l->count; i++) {
        const struct line *line = &l->items[i];
        if (json) {
            write_line(line, &w);
            continue;
        }
        image_size_text(line->facts.bytes, size);
        image_size_text(line->own, own);
        buf_fmt(out, "%-40s  %.19s  %9s  %9s  %s%s\n", line->name.name, line->name.manifest, size,
                own, line->name.loaded,
                !line->usable  ? "  damaged: brig image verify"
                : line->in_use ? "  in use"
                               : "");
    }
    if (json) {
        jw_array_end(&w);
        jw_object_end(&w);
        buf_chr(out, '\n');
    } else if (!l->count) {
        buf_str(out, "there are no images; `brig image load` makes some\n");
    }
}

static int list(const struct image_options *o, struct err *err)
{
    cleanup_store struct store s = STORE_INIT;
    __attribute__((cleanup(lines_done))) struct lines l = {.store = &s};
    cleanup_buf struct buf out;
    buf_init(&out, OUTPUT_MAX);
    if (store_open(&s, false, err) < 0 || names_each(&s, add_line, &l, err) < 0 ||
        layer_uses_read(&s, &l.uses, err) < 0)
        return err_number(err);
    for (size_t i = 0; i < l.count; i++)
        look_at(&s, &l.uses, &l.items[i]);
    if (l.count)
        qsort(l.items, l.count, sizeof *l.items, by_name);
    print_lines(&l, o->json, &out);
    return term_print(&out, "the images", err);
}

static int list_main(const struct verb *verb, int argc, char *const argv[])
{
    return image_verb(verb, argc, argv, 0, list);
}

const struct verb verb_image_list = {
    .name = "image list",
    .summary = "the images that there are",
    .usage = "image list [--json]",
    .about =
        "Name, digest of the manifest, size of the files when unpacked, what of its layers no\n"
        "other image has (OWN: what `brig image rm` would free), when it was loaded, and\n"
        "whether a sandbox runs on it. --json also says what it shares.",
    .examples = "brig image list",
    .statuses = "0    printed\n"
                "125  the store could not be read",
    .options = &json_table,
    .main = list_main,
};

/* ---- show ---- */

static void write_words(struct json_writer *w, const char *key, const char *const *words,
                        unsigned count)
{
    jw_kv_array(w, key);
    for (unsigned i = 0; i < count; i++)
        jw_string(w, words[i]);
    jw_array_end(w);
}

static void write_image(const struct image *i, const struct layer_uses *uses, struct json_writer *w)
{
    uint64_t own, shared;
    find_sizes(uses, i, &own, &shared);
    jw_object_begin(w);
    jw_kv_string(w, "name", i->name.name);
    jw_kv_string(w, "manifest", i->name.manifest);
    jw_kv_string(w, "config", i->manifest.config.digest);
    jw_kv_string(w, "loaded", i->name.loaded);
    jw_kv_string(w, "created", i->config.created);
    jw_kv_string(w, "architecture", i->config.architecture);
    jw_kv_uint(w, "bytes", i->facts.bytes);
    jw_kv_uint(w, "own_bytes", own);
    jw_kv_uint(w, "shared_bytes", shared);
    jw_kv_uint(w, "files", i->facts.files);
    jw_kv_uint(w, "left_out", i->facts.left_out);
    jw_kv_string(w, "files_digest", i->facts.tree);
    jw_kv_string(w, "user", i->config.user);
    jw_kv_string(w, "cwd", i->config.folder);
    write_words(w, "entrypoint", i->config.entrypoint, i->config.entrypoint_count);
    write_words(w, "command", i->config.command, i->config.command_count);
    write_words(w, "env", i->config.env, i->config.env_count);
    jw_kv_array(w, "layers");
    for (unsigned n = 0; n < i->config.diff_count; n++)
        jw_string(w, i->config.diff_ids[n]);
    jw_array_end(w);
    jw_kv_array(w, "blobs");
    for (unsigned n = 0; n < i->manifest.layer_count; n++)
        jw_string(w, i->manifest.layers[n].digest);
    jw_array_end(w);
    jw_object_end(w);
}

static int show(const struct image_options *o, struct err *err)
{
    cleanup_store struct store s = STORE_INIT;
    cleanup_image struct image image = IMAGE_INIT;
    __attribute__((cleanup(layer_uses_done))) struct layer_uses uses = {.items = NULL};
    cleanup_buf struct buf out;
    struct json_writer w;
    buf_init(&out, OUTPUT_MAX);
    const char *name = image_operand(o, "the name of an image", err);
    if (!name || store_open(&s, false, err) < 0 || image_open_in(&s, name, &image, err) < 0 ||
        layer_uses_read(&s, &uses, err) < 0)
        return err_number(err);
    jw_init(&w, &out, !o->json);
    write_image(&image, &uses, &w);
    if (out.len == 0 || buf_text(&out)[out.len - 1] != '\n')
        buf_chr(&out, '\n');
    return term_print(&out, "the image", err);
}

static int show_main(const struct verb *verb, int argc, char *const argv[])
{
    return image_verb(verb, argc, argv, 1, show);
}

const struct verb verb_image_show = {
    .name = "image show",
    .summary = "what is known about an image",
    .usage = "image show NAME [--json]",
    .about = "Digests, sizes, layers, and what its config says: user, working folder, entry\n"
             "point, command, variables. As JSON in both cases; --json leaves the blanks out.",
    .examples = "brig image show python:3.12-slim",
    .statuses = "0    printed\n"
                "125  there is no such image, or it cannot be used",
    .options = &json_table,
    .main = show_main,
};
