/* brig image: the tree of its verbs, and the small ones. */
#include "cli/image/image.h"

#include "base/cleanup.h"
#include "cli/term.h"
#include "images/build/build.h"

#include <stdio.h>
#include <string.h>

/* clang-format off */
static const struct opt json_items[] = {
    {OPT_JSON, 0, "json", OPT_FLAG, NULL, NULL, NULL, "Output",
     "print one JSON object"},
};
/* clang-format on */
static const struct opt_table json_table = {
    .items = json_items, .count = ARRAY_LEN(json_items), .next = &common_options};

/* ---- rm ---- */

static int tell_collected(const struct image_options *o, const char *removed,
                          const struct collected *c, struct err *err)
{
    cleanup_buf struct buf out;
    struct json_writer w;
    char size[24];
    buf_init(&out, 4096);
    if (o->json) {
        jw_init(&w, &out, false);
        jw_object_begin(&w);
        if (removed)
            jw_kv_string(&w, "removed", removed);
        jw_kv_uint(&w, "roots", c->roots);
        jw_kv_uint(&w, "layers", c->layers);
        jw_kv_uint(&w, "documents", c->blobs);
        jw_kv_uint(&w, "leftovers", c->leftovers);
        jw_kv_uint(&w, "steps", c->steps);
        jw_kv_uint(&w, "bytes", c->bytes);
        jw_kv_uint(&w, "in_use", c->in_use);
        jw_kv_uint(&w, "layers_wanted", c->layers_wanted);
        jw_object_end(&w);
        buf_chr(&out, '\n');
        return term_print(&out, "what was removed", err);
    }
    image_size_text(c->bytes, size);
    if (removed)
        buf_fmt(&out, "removed %s\n", removed);
    buf_fmt(&out, "%u unpacked, %u layers and %u leftovers removed, %s freed\n", c->roots,
            c->layers, c->leftovers, size);
    if (c->steps)
        buf_fmt(&out, "%u kept steps of builds removed\n", c->steps);
    if (c->in_use)
        buf_fmt(&out, "%u kept, because a sandbox runs on it: `brig image gc` when it has ended\n",
                c->in_use);
    if (c->layers_wanted)
        buf_fmt(&out,
                "%u layers kept, because an image is being pulled that may have them: "
                "`brig image gc` when it is there\n",
                c->layers_wanted);
    return term_print(&out, "what was removed", err);
}

static int forget(const struct store *s, const char *name, struct err *err)
{
    struct image_name found;
    cleanup_fd int lock = store_lock(s, true, err);
    if (lock < 0)
        return lock;
    int r = name_read(s, name, &found, err);
    if (r == 0) {
        err_set(err, ERR_REFUSED, "there is no image %s", name);
        return err_hint(err, "`brig image list` has the names of images");
    }
    /* A name that cannot be read is removed as well: no image that works is behind it. */
    return name_remove(s, name, err);
}

static int rm(const struct image_options *o, struct err *err)
{
    struct reference ref;
    struct collected c;
    cleanup_store struct store s = STORE_INIT;
    const char *name = image_operand(o, "the name of an image", err);
    if (!name || reference_parse(name, &ref, err) < 0 || store_open(&s, true, err) < 0)
        return err_number(err);
    if (ref.digest[0])
        return err_set(err, ERR_USAGE, "leave out @sha256:…: what is removed is the name");
    if (forget(&s, ref.name, err) < 0 || store_collect(&s, &c, err) < 0)
        return err_number(err);
    return tell_collected(o, ref.name, &c, err);
}

static int rm_main(const struct verb *verb, int argc, char *const argv[])
{
    return image_verb(verb, argc, argv, 1, rm);
}

const struct verb verb_image_rm = {
    .name = "image rm",
    .summary = "forget an image, and remove what no other needs",
    .usage = "image rm NAME [--json]",
    .about = "Removes the name. Its files go as well, unless another name has the same or a\n"
             "sandbox runs on them; then `brig image gc` takes them later.",
    .examples = "brig image rm python:3.12-slim",
    .statuses = "0    removed\n"
                "125  there is no such image, or it could not be removed",
    .options = &json_table,
    .main = rm_main,
};

/* ---- gc ---- */

static int gc(const struct image_options *o, struct err *err)
{
    struct collected c;
    cleanup_store struct store s = STORE_INIT;
    if (store_open(&s, false, err) < 0 || store_collect(&s, &c, err) < 0)
        return err_number(err);
    c.steps = steps_trim(&s, 0, 0, &c.bytes);
    return tell_collected(o, NULL, &c, err);
}

static int gc_main(const struct verb *verb, int argc, char *const argv[])
{
    return image_verb(verb, argc, argv, 0, gc);
}

const struct verb verb_image_gc = {
    .name = "image gc",
    .summary = "remove files that no image needs",
    .usage = "image gc [--json]",
    .about =
        "Removes unpacked files, layers and documents that no name leads to, what loads that\n"
        "were killed left behind, and what `brig image build` keeps of its steps. What a sandbox\n"
        "runs on stays.",
    .examples = "brig image gc",
    .statuses = "0    done\n"
                "125  the store could not be read",
    .options = &json_table,
    .main = gc_main,
};

/* ---- verify ---- */

struct findings {
    struct buf out;
    struct json_writer w;
    bool json;
};

static void found(void *ctx, const char *name, const char *what)
{
    struct findings *f = ctx;
    if (f->json) {
        jw_object_begin(&f->w);
        jw_kv_string(&f->w, "name", name);
        jw_kv_string(&f->w, "what", what);
        jw_object_end(&f->w);
        return;
    }
    term_clean(&f->out, name);
    buf_str(&f->out, ": ");
    term_clean(&f->out, what);
    buf_chr(&f->out, '\n');
}

static int look(const struct image_options *o, struct findings *f, struct err *err)
{
    struct reference ref;
    struct image_name name;
    cleanup_store struct store s = STORE_INIT;
    const char *only = o->count ? o->operands[0] : NULL;
    if ((only && reference_parse(only, &ref, err) < 0) || store_open(&s, false, err) < 0)
        return err_number(err);
    if (only && name_read(&s, ref.name, &name, err) == 0)
        return err_set(err, ERR_REFUSED, "there is no image %s", ref.name);
    return store_verify(&s, only ? ref.name : NULL, found, f, err);
}

static int verify(const struct image_options *o, struct err *err)
{
    struct findings f = {.json = o->json};
    buf_init(&f.out, 4u << 20);
    jw_init(&f.w, &f.out, false);
    if (f.json) {
        jw_object_begin(&f.w);
        jw_kv_array(&f.w, "wrong");
    }
    int wrong = look(o, &f, err);
    if (f.json) {
        jw_array_end(&f.w);
        jw_object_end(&f.w);
        buf_chr(&f.out, '\n');
    } else if (wrong == 0) {
        buf_str(&f.out, "all images are as they were loaded\n");
    }
    int r = wrong < 0 ? wrong : term_print(&f.out, "what is wrong", err);
    buf_done(&f.out);
    return r < 0 ? r : wrong > 0;
}

static int verify_main(const struct verb *verb, int argc, char *const argv[])
{
    return image_verb(verb, argc, argv, 1, verify);
}

const struct verb verb_image_verify = {
    .name = "image verify",
    .summary = "check images against what was loaded",
    .usage = "image verify [NAME] [--json]",
    .about = "Reads every document and every file of the images and compares them with their\n"
             "digests: that the name leads to a manifest, the manifest to a config, the config\n"
             "to its layers, and that the files are those that were unpacked from them.",
    .examples = "brig image verify\n"
                "brig image verify python:3.12-slim",
    .statuses = "0    all is as it was\n"
                "1    something is not, and was printed\n"
                "125  there is no such image, or the store could not be read",
    .options = &json_table,
    .main = verify_main,
};

static const struct verb *const children[] = {
    &verb_image_load,
    &verb_image_pull,
    &verb_image_push,
    &verb_image_from_host,
    &verb_image_build,
    &verb_image_list,
    &verb_image_show,
    &verb_image_rm,
    &verb_image_gc,
    &verb_image_verify,
    NULL,
};

const struct verb verb_image = {
    .name = "image",
    .summary = "images that can be the root of a sandbox",
    .usage = "image COMMAND [OPTIONS]",
    .about = "An image is loaded once and then used by its name: brig run --image NAME. It is\n"
             "unpacked inside a sandbox of its own, and checked against its digests.",
    .examples = "brig image pull python:3.12-slim\n"
                "docker save team/tool | brig image load -\n"
                "brig image list\n"
                "brig run --image python:3.12-slim -- python3 -c 'print(6*7)'",
    .children = children,
};
