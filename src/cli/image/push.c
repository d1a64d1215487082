/* brig image push. */
#include "base/cleanup.h"
#include "cli/image/image.h"
#include "cli/term.h"
#include "images/load/load.h"

/* clang-format off */
static const struct opt push_items[] = {
    {OPT_PLAIN_HTTP, 0, "plain-http", OPT_FLAG, NULL, NULL, NULL, "Pushing",
     "the registry may speak plain HTTP, or have a certificate that nobody knows: for one on loopback"},
    {OPT_JSON, 0, "json", OPT_FLAG, NULL, NULL, NULL, "Output",
     "print one JSON object"},
};
/* clang-format on */
static const struct opt_table push_table = {
    .items = push_items, .count = ARRAY_LEN(push_items), .next = &common_options};

static int push(const struct image_options *o, struct err *err)
{
    char name[REFERENCE_SIZE], digest[DIGEST_SIZE];
    cleanup_buf struct buf out;
    struct json_writer w;
    buf_init(&out, 4096);
    if (!image_operand(o, "the name of an image", err))
        return err_number(err);
    const struct push_request request = {.reference = o->operands[0],
                                         .to = o->count > 1 ? o->operands[1] : NULL,
                                         .plain_http = o->plain_http};
    if (push_image(&request, name, digest, err) < 0)
        return err_number(err);
    if (!o->json) {
        buf_fmt(&out, "%s@%s\n", name, digest);
        return term_print(&out, "what was pushed", err);
    }
    jw_init(&w, &out, false);
    jw_object_begin(&w);
    jw_kv_string(&w, "name", name);
    jw_kv_string(&w, "manifest", digest);
    jw_object_end(&w);
    buf_chr(&out, '\n');
    return term_print(&out, "what was pushed", err);
}

static int push_main(const struct verb *verb, int argc, char *const argv[])
{
    return image_verb(verb, argc, argv, 2, push);
}

const struct verb verb_image_push = {
    .name = "image push",
    .summary = "push an image to a registry, with skopeo",
    .usage = "image push [OPTIONS] NAME [REGISTRY/NAME[:TAG]]",
    .about = "skopeo must be installed; it uses your logins (skopeo login). The layers are packed\n"
             "anew from the files that are kept of them, so that the image has other digests\n"
             "there than here, and what loading left out (owners, set-id bits, devices) is not in\n"
             "it. The digest that is printed is the registry's. Without a second name it goes to\n"
             "the registry that NAME begins with.",
    .examples = "brig image push team/tool registry.example.org/team/tool:v2\n"
                "brig image push localhost:5000/team/tool:v1 --plain-http",
    .statuses = "0    pushed\n"
                "125  there is no such image, or the registry did not take it",
    .options = &push_table,
    .main = push_main,
};
