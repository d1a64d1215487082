/* brig image from-host. */
#include "base/cleanup.h"
#include "cli/image/image.h"
#include "images/load/load.h"

/* clang-format off */
static const struct opt host_items[] = {
    {OPT_PACKAGES, 0, "packages", OPT_VALUE, "NAME,…", NULL, NULL, "What",
     "packages of this host, besides those that the distribution calls essential; with all that they depend on"},
    {OPT_JSON, 0, "json", OPT_FLAG, NULL, NULL, NULL, "Output",
     "print one JSON object"},
};
/* clang-format on */
static const struct opt_table host_table = {
    .items = host_items, .count = ARRAY_LEN(host_items), .next = &common_options};

static int collect(struct load_request *load, const struct image_options *o, struct err *err)
{
    return host_image(o->packages ? o->packages : "", load, err);
}

static int from_host(const struct image_options *o, struct err *err)
{
    struct load_request load = {.source = -1};
    load.name = image_operand(o, "the name that the image shall have", err);
    return load.name ? image_load(o, &load, collect, err) : err_number(err);
}

static int from_host_main(const struct verb *verb, int argc, char *const argv[])
{
    return image_verb(verb, argc, argv, 1, from_host);
}

const struct verb verb_image_from_host = {
    .name = "image from-host",
    .summary = "make an image of packages that this host has",
    .usage = "image from-host [--packages NAME,…] NAME",
    .about = "Copies the files that dpkg lists for these packages, for what they depend on and\n"
             "for what the distribution calls essential; manuals and translations are left\n"
             "out. No network is needed. Only what everybody may read goes into it, and of\n"
             "/etc only what programs need to start.",
    .examples = "brig image from-host --packages python3,git dev/python\n"
                "brig run --image dev/python -- python3 -c 'print(6*7)'",
    .statuses = "0    made\n"
                "125  there is no such package, or dpkg does not keep this host's packages",
    .options = &host_table,
    .main = from_host_main,
};
