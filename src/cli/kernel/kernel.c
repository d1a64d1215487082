/* brig kernel list, add, use, remove: kernels for virtual machines. */
#include "base/cleanup.h"
#include "base/json.h"
#include "cli/term.h"
#include "cli/verb.h"
#include "guests/guests.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { OPT_JSON = 1, OPT_MODULES };

static const struct opt plain_items[] = {
    {.id = OPT_JSON, .name = "json", .group = "Output", .help = "print one JSON object"},
};
/* clang-format off */
static const struct opt add_items[] = {
    {OPT_MODULES, 0, "modules", OPT_VALUE, "DIR", NULL, NULL, "What",
     "its modules, as /lib/modules/RELEASE has them (default: that folder)"},
    {OPT_JSON, 0, "json", OPT_FLAG, NULL, NULL, NULL, "Output",
     "print one JSON object"},
};
/* clang-format on */
static const struct opt_table plain_table = {
    .items = plain_items, .count = ARRAY_LEN(plain_items), .next = &common_options};
static const struct opt_table add_table = {
    .items = add_items, .count = ARRAY_LEN(add_items), .next = &common_options};

struct kernel_options {
    bool json;
    const char *operand, *modules;
};

static int take(void *ctx, const struct opt *opt, const char *value, struct err *err)
{
    struct kernel_options *o = ctx;
    if (!opt && o->operand)
        return err_set(err, ERR_USAGE, "unexpected argument '%.60s'", value);
    if (!opt)
        o->operand = value;
    else if (opt->id == OPT_JSON)
        o->json = true;
    else
        o->modules = value;
    return 0;
}

static void write_json(struct json_writer *w, const struct guest_kernel *k)
{
    jw_object_begin(w);
    jw_kv_string(w, "id", k->id);
    jw_kv_string(w, "sha256", k->hash);
    jw_kv_string(w, "release", k->release);
    jw_kv_string(w, "image", k->image);
    jw_kv_bool(w, "kept", k->kept);
    jw_kv_bool(w, "used", k->used);
    jw_kv_string(w, "why_not", k->why_not[0] ? k->why_not : NULL);
    jw_object_end(w);
}

static void write_text(struct buf *out, const struct guest_kernel *k)
{
    buf_fmt(out, "%s  %-12s  %-28s  %s", k->used ? "*" : " ", k->id[0] ? k->id : "-", k->release,
            k->kept ? "kept by brig" : k->image);
    if (k->why_not[0]) {
        buf_str(out, "  (cannot be booted: ");
        term_clean(out, k->why_not);
        buf_chr(out, ')');
    }
    buf_chr(out, '\n');
}

static int print(struct buf *out)
{
    const char *text = buf_text(out);
    for (size_t done = 0; done < out->len;) {
        ssize_t n = write(STDOUT_FILENO, text + done, out->len - done);
        if (n <= 0)
            return 1;
        done += (size_t)n;
    }
    return 0;
}

static int show(const struct guest_kernels *all, bool json)
{
    cleanup_buf struct buf out;
    struct json_writer w;
    buf_init(&out, 1u << 20);
    if (!json) {
        for (unsigned i = 0; i < all->count; i++)
            write_text(&out, &all->list[i]);
        if (all->count == 0)
            buf_str(&out, "no kernel in /boot, and none kept\n");
        return print(&out);
    }
    jw_init(&w, &out, false);
    jw_object_begin(&w);
    jw_key(&w, "kernels");
    jw_array_begin(&w);
    for (unsigned i = 0; i < all->count; i++)
        write_json(&w, &all->list[i]);
    jw_array_end(&w);
    jw_object_end(&w);
    buf_chr(&out, '\n');
    return print(&out);
}

static int show_one(const struct guest_kernel *k, const char *what, bool json)
{
    cleanup_buf struct buf out;
    struct json_writer w;
    buf_init(&out, 1u << 16);
    if (json) {
        jw_init(&w, &out, false);
        write_json(&w, k);
        buf_chr(&out, '\n');
    } else {
        buf_fmt(&out, "%s %s %s\n", what, k->id, k->release);
    }
    return print(&out);
}

/* 1: --help was answered. */
static int parse(const struct verb *verb, int argc, char *const argv[], bool operand,
                 struct kernel_options *o, struct err *err)
{
    int r = verb_parse_all(verb, argc, argv, take, o, err);
    if (r != 0)
        return r;
    if (operand && !o->operand)
        return err_set(err, ERR_USAGE, "which kernel?");
    if (!operand && o->operand)
        return err_set(err, ERR_USAGE, "unexpected argument '%.60s'", o->operand);
    return 0;
}

static int list_main(const struct verb *verb, int argc, char *const argv[])
{
    struct err err = ERR_INIT;
    struct kernel_options o = {0};
    int r = parse(verb, argc, argv, false, &o, &err);
    if (r > 0)
        return 0;
    cleanup_free struct guest_kernels *all = calloc(1, sizeof *all);
    if (r >= 0)
        r = all ? guests_list(all, &err) : err_memory(&err);
    return r < 0 ? verb_fail(verb, &err, o.json || verb_wants_json(argc, argv)) : show(all, o.json);
}

typedef int change(const struct kernel_options *o, struct guest_kernel *ret, struct err *err);

static int change_main(const struct verb *verb, int argc, char *const argv[], change *fn,
                       const char *what)
{
    struct err err = ERR_INIT;
    struct kernel_options o = {0};
    int r = parse(verb, argc, argv, true, &o, &err);
    if (r > 0)
        return 0;
    cleanup_free struct guest_kernel *k = calloc(1, sizeof *k);
    if (r >= 0)
        r = k ? fn(&o, k, &err) : err_memory(&err);
    return r < 0 ? verb_fail(verb, &err, o.json || verb_wants_json(argc, argv))
                 : show_one(k, what, o.json);
}

static int add(const struct kernel_options *o, struct guest_kernel *ret, struct err *err)
{
    return guests_add(o->operand, o->modules, ret, err);
}
static int use(const struct kernel_options *o, struct guest_kernel *ret, struct err *err)
{
    return guests_use(o->operand, ret, err);
}
static int drop(const struct kernel_options *o, struct guest_kernel *ret, struct err *err)
{
    return guests_remove(o->operand, ret, err);
}

static int add_main(const struct verb *verb, int argc, char *const argv[])
{
    return change_main(verb, argc, argv, add, "added");
}
static int use_main(const struct verb *verb, int argc, char *const argv[])
{
    return change_main(verb, argc, argv, use, "using");
}
static int remove_main(const struct verb *verb, int argc, char *const argv[])
{
    return change_main(verb, argc, argv, drop, "removed");
}

#define STATUSES                                                                                   \
    "0    it was done\n"                                                                           \
    "125  it was refused, and nothing was changed"

static const struct verb verb_kernel_list = {
    .name = "kernel list",
    .summary = "the kernels that there are; * marks the one that is booted",
    .usage = "kernel list [--json]",
    .about = "Those in /boot with their modules in /lib/modules, and those that were added. An id\n"
             "is the beginning of the kernel's SHA-256. Without `brig kernel use` the newest one\n"
             "that can be booted is taken.",
    .examples = "brig kernel list",
    .statuses = STATUSES,
    .options = &plain_table,
    .main = list_main,
};
static const struct verb verb_kernel_add = {
    .name = "kernel add",
    .summary = "keep a kernel, with the modules that a guest needs",
    .usage = "kernel add VMLINUZ [--modules DIR] [--json]",
    .about = "Kernel and modules are copied into brig's state folder. A package is unpacked first\n"
             "with `dpkg-deb -x FILE.deb DIR`; it has DIR/boot/vmlinuz-… and DIR/lib/modules/….",
    .examples = "# the host's own\n"
                "brig kernel add /boot/vmlinuz-6.1.0-30-cloud-arm64\n"
                "# from an unpacked package\n"
                "brig kernel add x/boot/vmlinuz-6.1.0-30-cloud-arm64 "
                "--modules x/lib/modules/6.1.0-30-cloud-arm64",
    .statuses = STATUSES,
    .options = &add_table,
    .main = add_main,
};
static const struct verb verb_kernel_use = {
    .name = "kernel use",
    .summary = "boot this one from now on",
    .usage = "kernel use ID [--json]",
    .about =
        "An id, or its beginning. One that was found in /boot is kept first: an upgrade of the\n"
        "host does not change it any more.",
    .examples = "brig kernel use 5f0c",
    .statuses = STATUSES,
    .options = &plain_table,
    .main = use_main,
};
static const struct verb verb_kernel_remove = {
    .name = "kernel remove",
    .summary = "remove a kernel that was added",
    .usage = "kernel remove ID [--json]",
    .about = "Guests that run keep theirs.",
    .examples = "brig kernel remove 5f0c",
    .statuses = STATUSES,
    .options = &plain_table,
    .main = remove_main,
};

static const struct verb *const kernel_verbs[] = {&verb_kernel_list, &verb_kernel_add,
                                                  &verb_kernel_use, &verb_kernel_remove, NULL};

const struct verb verb_kernel = {
    .name = "kernel",
    .summary = "kernels for virtual machines (the vm tier)",
    .usage = "kernel COMMAND [OPTIONS]",
    .about = "The vm tier boots a distribution's kernel, as packaged.",
    .examples = "brig kernel list",
    .children = kernel_verbs,
};
