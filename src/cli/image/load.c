/* brig image load. */
#include "images/load/load.h"

#include "base/cleanup.h"
#include "cli/image/image.h"
#include "cli/path.h"
#include "cli/term.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

/* clang-format off */
static const struct opt load_items[] = {
    {OPT_REPLACE, 0, "replace", OPT_FLAG, NULL, NULL, NULL, "Loading",
     "a name that the source brings may be taken from another image"},
    IMAGE_LIMIT_OPTIONS,
    {OPT_JSON, 0, "json", OPT_FLAG, NULL, NULL, NULL, "Output",
     "print one JSON object per image"},
};
/* clang-format on */
static const struct opt_table load_table = {
    .items = load_items, .count = ARRAY_LEN(load_items), .next = &common_options};

struct telling {
    struct buf out;
    bool json, terminal;
};

static void tell(void *ctx, const struct load_result *r)
{
    struct telling *t = ctx;
    struct json_writer w;
    char size[24];
    if (t->terminal)
        (void)term_write(STDERR_FILENO, "\r\033[K", 4);
    if (!t->json) {
        image_size_text(r->facts.bytes, size);
        buf_fmt(&t->out, "%s  %s  %s%s\n", r->name.name, r->name.manifest, size,
                r->known ? "  (its files were there)" : "");
        if (r->before[0])
            buf_fmt(&t->out, "%s was %s before\n", r->name.name, r->before);
        return;
    }
    jw_init(&w, &t->out, false);
    jw_object_begin(&w);
    jw_kv_string(&w, "name", r->name.name);
    jw_kv_string(&w, "manifest", r->name.manifest);
    jw_kv_string(&w, "before", r->before[0] ? r->before : NULL);
    jw_kv_bool(&w, "known", r->known);
    jw_kv_uint(&w, "bytes", r->facts.bytes);
    jw_kv_uint(&w, "files", r->facts.files);
    jw_kv_uint(&w, "left_out", r->facts.left_out);
    jw_object_end(&w);
    buf_chr(&t->out, '\n');
}

static void step(void *ctx, const char *what, unsigned layer, unsigned layers)
{
    const struct telling *t = ctx;
    char line[80];
    if (!t->terminal)
        return;
    int len = layers
                  ? snprintf(line, sizeof line, "\r\033[K%s: layer %u of %u", what, layer, layers)
                  : snprintf(line, sizeof line, "\r\033[K%s", what);
    (void)term_write(STDERR_FILENO, line, (size_t)len);
}

static int open_source(const char *path, struct err *err)
{
    struct reached at;
    if (strcmp(path, "-") == 0) {
        int fd = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
        return fd < 0 ? err_sys(err, "read from stdin") : fd;
    }
    if (path_reach(path, "cannot load", &at, err) < 0)
        return err_number(err);
    int fd = reach_reopen(&at, O_RDONLY | O_NOCTTY);
    reach_close(&at);
    errno = fd < 0 ? -fd : 0;
    return fd < 0 ? err_sys(err, "cannot load %.200s", path) : fd;
}

int image_load(const struct image_options *o, struct load_request *load,
               int (*fn)(struct load_request *load, const struct image_options *o, struct err *err),
               struct err *err)
{
    struct telling t = {.json = o->json, .terminal = isatty(STDERR_FILENO)};
    load->max_bytes = o->max_bytes;
    load->max_entries = o->max_entries;
    load->replace = o->replace;
    load->loaded = tell;
    load->step = step;
    load->ctx = &t;
    buf_init(&t.out, 1u << 20);
    int r = fn(load, o, err);
    load->ctx = NULL;
    if (r < 0 && t.terminal)
        (void)term_write(STDERR_FILENO, "\r\033[K", 4);
    /* Of several images some may have been loaded before one was refused. */
    struct err first = *err;
    int printed = term_print(&t.out, "the images", err);
    if (r < 0)
        *err = first;
    buf_done(&t.out);
    return r < 0 ? r : printed;
}

static int load_source(struct load_request *load, const struct image_options *o, struct err *err)
{
    (void)o;
    return load_image(load, err);
}

static int load(const struct image_options *o, struct err *err)
{
    if (!o->count) {
        err_set(err, ERR_USAGE, "load what?");
        return err_hint(err, "an archive, a folder with an OCI layout, or - for stdin");
    }
    cleanup_fd int source = open_source(o->operands[0], err);
    if (source < 0)
        return source;
    struct load_request request = {.source = source, .name = o->count > 1 ? o->operands[1] : NULL};
    return image_load(o, &request, load_source, err);
}

static int load_main(const struct verb *verb, int argc, char *const argv[])
{
    return image_verb(verb, argc, argv, 2, load);
}

const struct verb verb_image_load = {
    .name = "image load",
    .summary = "load images from an archive, a folder or stdin",
    .usage = "image load [OPTIONS] FILE.tar|DIR|- [NAME]",
    .about = "FILE.tar is what docker save, podman save or skopeo copy write, also compressed\n"
             "(gzip, zstd); DIR is an OCI layout; - reads an archive from stdin. Without NAME\n"
             "the image keeps the one that it brings, unless that is another image here.\n"
             "Archive and layers are unpacked inside a sandbox of their own. Devices, FIFOs,\n"
             "sockets, set-id bits, owners and attributes are left out. What is not what its\n"
             "digests say, or too large, is refused, and nothing of it is left.",
    .examples = "docker save python:3.12-slim | brig image load -\n"
                "brig image load image.tar team/tool:v2\n"
                "skopeo copy docker://debian:12 oci:layout && brig image load layout debian:12",
    .statuses = "0    loaded\n"
                "125  refused or failed; nothing of that image is left",
    .options = &load_table,
    .main = load_main,
};
