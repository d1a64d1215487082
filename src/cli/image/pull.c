/* brig image pull. */
#include "base/cleanup.h"
#include "cli/image/image.h"
#include "images/load/load.h"

/* clang-format off */
static const struct opt pull_items[] = {
    {OPT_PLAIN_HTTP, 0, "plain-http", OPT_FLAG, NULL, NULL, NULL, "Pulling",
     "the registry may speak plain HTTP, or have a certificate that nobody knows: for one on loopback"},
    IMAGE_LIMIT_OPTIONS,
    {OPT_JSON, 0, "json", OPT_FLAG, NULL, NULL, NULL, "Output",
     "print one JSON object"},
};
/* clang-format on */
static const struct opt_table pull_table = {
    .items = pull_items, .count = ARRAY_LEN(pull_items), .next = &common_options};

static int fetch(struct load_request *load, const struct image_options *o, struct err *err)
{
    struct pull_request request = {
        .reference = o->operands[0], .plain_http = o->plain_http, .load = *load};
    return pull_image(&request, err);
}

static int pull(const struct image_options *o, struct err *err)
{
    struct load_request load = {.source = -1};
    return image_operand(o, "the name of an image", err) ? image_load(o, &load, fetch, err)
                                                         : err_number(err);
}

static int pull_main(const struct verb *verb, int argc, char *const argv[])
{
    return image_verb(verb, argc, argv, 1, pull);
}

const struct verb verb_image_pull = {
    .name = "image pull",
    .summary = "pull an image from a registry, with skopeo",
    .usage = "image pull [OPTIONS] NAME[:TAG][@DIGEST]",
    .about = "skopeo must be installed: it knows registries, logins (skopeo login), mirrors and\n"
             "credential helpers. What it brings is then loaded as `brig image load` does,\n"
             "under the name that it was pulled by. The digest that is printed is the\n"
             "registry's own for the image of this machine.",
    .examples = "brig image pull python:3.12-slim\n"
                "brig image pull localhost:5000/team/tool:v1 --plain-http",
    .statuses = "0    loaded\n"
                "125  refused or failed; nothing of that image is left",
    .options = &pull_table,
    .main = pull_main,
};
