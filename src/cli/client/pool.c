/* brig pool: the sandboxes that wait. */
#include "base/cleanup.h"
#include "base/num.h"
#include "cli/client/boxes.h"
#include "cli/term.h"

#include <stdio.h>
#include <string.h>

enum { OPT_MIN = 1, OPT_MAX };

static const struct opt pool_items[] = {
    {.id = OPT_MIN,
     .name = "min",
     .kind = OPT_VALUE,
     .value = "N",
     .group = "Size",
     .help = "so many always wait"},
    {.id = OPT_MAX,
     .name = "max",
     .kind = OPT_VALUE,
     .value = "N",
     .group = "Size",
     .help = "never more than so many wait; 0: no pool"},
    {.id = BOXES_JSON, .name = "json", .group = "Output", .help = "print JSON"},
};
static const struct opt_table pool_table = {
    .items = pool_items, .count = ARRAY_LEN(pool_items), .next = &client_option_table};

struct pool_verb {
    struct boxes boxes;
    uint64_t min, max;
    bool have_min, have_max;
};

static int own(void *ctx, const struct opt *opt, const char *value, struct err *err)
{
    struct pool_verb *p = ctx;
    if (!opt || (opt->id != OPT_MIN && opt->id != OPT_MAX))
        return 0;
    *(opt->id == OPT_MIN ? &p->have_min : &p->have_max) = true;
    return num_parse_uint(value, opt->id == OPT_MIN ? &p->min : &p->max, err) < 0 ? err_number(err)
                                                                                  : 1;
}

static int resize(struct boxes *b, struct err *err)
{
    const struct pool_verb *p = b->ctx;
    cleanup_json struct json *none = NULL;
    cleanup_buf struct buf path = {0}, body = {0};
    struct json_writer w;
    buf_init(&path, 1024);
    buf_init(&body, 1024);
    buf_str(&path, "/pools/");
    client_encode(&path, b->words[0]);
    jw_init(&w, &body, false);
    jw_object_begin(&w);
    if (p->have_min)
        jw_kv_uint(&w, "min", p->min);
    if (p->have_max)
        jw_kv_uint(&w, "max", p->max);
    jw_object_end(&w);
    struct ask ask = {
        .method = "PUT", .path = buf_text(&path), .body = buf_text(&body), .body_len = body.len};
    return client_json(&b->client, &ask, &none, err);
}

static int show(struct boxes *b, struct err *err)
{
    cleanup_json struct json *list = NULL;
    cleanup_buf struct buf out = {0};
    struct ask ask = {.method = "GET", .path = "/pools"};
    if (client_json(&b->client, &ask, &list, err) < 0)
        return err_number(err);
    if (b->json)
        return boxes_print_json(list, err);
    buf_init(&out, 1u << 20);
    buf_fmt(&out, "%-20s  %5s  %8s  %5s  %5s  %8s  %8s  %8s\n", "TEMPLATE", "IDLE", "STARTING",
            "MIN", "MAX", "HITS", "MISSES", "FAILED");
    for (size_t i = 0; list && i < json_count(list); i++) {
        const struct json *j = json_at(list, i);
        const char *name = json_text(j, "template");
        if (b->count && (!name || strcmp(name, b->words[0]) != 0))
            continue;
        buf_fmt(&out, "%-20.40s  %5lld  %8lld  %5lld  %5lld  %8lld  %8lld  %8lld\n",
                name ? name : "?", (long long)member_int(j, "idle", 0),
                (long long)member_int(j, "starting", 0), (long long)member_int(j, "min", 0),
                (long long)member_int(j, "max", 0), (long long)member_int(j, "hits", 0),
                (long long)member_int(j, "misses", 0), (long long)member_int(j, "failures", 0));
    }
    return term_print(&out, "the pools", err);
}

static int run(struct boxes *b, struct err *err)
{
    const struct pool_verb *p = b->ctx;
    bool change = p->have_min || p->have_max;
    if (b->count > 1)
        return err_set(err, ERR_USAGE, "one template at a time");
    if (change && b->count == 0)
        return err_set(err, ERR_USAGE, "the pool of which template?");
    int r = change ? resize(b, err) : 0;
    return r < 0 ? r : show(b, err);
}

static int pool_main(const struct verb *verb, int argc, char *const argv[])
{
    struct pool_verb p = {.boxes = {.own = own}};
    p.boxes.ctx = &p;
    return boxes_main(&p.boxes, verb, argc, argv, run);
}

const struct verb verb_pool = {
    .name = "pool",
    .summary = "the sandboxes that wait for a claim, per template",
    .usage = "pool [TEMPLATE] [--json]\npool TEMPLATE [--min N] [--max N]",
    .about = "A waiting sandbox has its walls up and attested, holds no data of anybody, is\n"
             "handed out once and destroyed afterwards. How many wait follows the demand,\n"
             "between min and max; what nobody wants is gone after a minute. Changing a size\n"
             "takes an operator's key.",
    .examples = "brig pool\nbrig pool python --min 2 --max 16",
    .statuses = "0    printed, or changed\n125  no such template, no operator's key, or no daemon",
    .options = &pool_table,
    .main = pool_main,
};
