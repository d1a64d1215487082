/* brig rm: end sandboxes. */
#include "base/cleanup.h"
#include "cli/client/boxes.h"

#include <stdio.h>

static const struct opt rm_items[] = {
    {.id = BOXES_ALL, .brief = 'a', .name = "all", .group = "Which", .help = "all of this key's"},
};
static const struct opt_table rm_table = {
    .items = rm_items, .count = ARRAY_LEN(rm_items), .next = &client_option_table};

static int one(struct boxes *b, const char *id, struct err *err)
{
    char path[128];
    cleanup_json struct json *none = NULL;
    snprintf(path, sizeof path, "/sandboxes/%s", id);
    struct ask ask = {.method = "DELETE", .path = path};
    return client_json(&b->client, &ask, &none, err);
}

static int run(struct boxes *b, struct err *err)
{
    return boxes_each(b, one, err);
}

static int rm_main(const struct verb *verb, int argc, char *const argv[])
{
    struct boxes b = {0};
    return boxes_main(&b, verb, argc, argv, run);
}

const struct verb verb_rm = {
    .name = "rm",
    .summary = "end sandboxes: everything in them is killed and removed",
    .usage = "rm ID…\nrm --all",
    .about = "An id may be cut short as long as only one sandbox begins with it.",
    .examples = "brig rm 4k2m\nbrig rm --all",
    .statuses = "0    gone\n125  one of them is not there, or there is no daemon",
    .options = &rm_table,
    .main = rm_main,
};
