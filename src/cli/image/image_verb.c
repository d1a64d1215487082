/* What the verbs of `brig image` share: how they are called, and how sizes are written. */
#include "base/cleanup.h"
#include "base/num.h"
#include "cli/image/image.h"
#include "images/load/load.h"

#include <stdio.h>

static int take_number(const struct opt *opt, const char *value, uint64_t *ret, struct err *err)
{
    int r = opt->id == OPT_MAX_SIZE ? num_parse_size(value, ret, err)
                                    : num_parse_count(value, ret, err);
    return r < 0 ? err_wrap(err, "--%s", opt->name) : 0;
}

static int take(void *ctx, const struct opt *opt, const char *value, struct err *err)
{
    struct image_options *o = ctx;
    if (!opt && o->count == o->most)
        return err_set(err, ERR_USAGE, "unexpected argument '%.60s'", value);
    if (!opt) {
        o->operands[o->count++] = value;
        return 0;
    }
    switch (opt->id) {
    case OPT_JSON:
        o->json = true;
        return 0;
    case OPT_REPLACE:
        o->replace = true;
        return 0;
    case OPT_PACKAGES:
        o->packages = value;
        return 0;
    case OPT_PLAIN_HTTP:
        o->plain_http = true;
        return 0;
    case OPT_MAX_SIZE:
        return take_number(opt, value, &o->max_bytes, err);
    default:
        return take_number(opt, value, &o->max_entries, err);
    }
}

int image_verb(const struct verb *verb, int argc, char *const argv[], unsigned most,
               image_work *work)
{
    struct err err = ERR_INIT;
    struct image_options o = {
        .most = most, .max_bytes = LOAD_MAX_BYTES, .max_entries = LOAD_MAX_ENTRIES};
    int r = verb_parse_all(verb, argc, argv, take, &o, &err);
    if (r > 0)
        return 0;
    if (r >= 0)
        r = work(&o, &err);
    return r < 0 ? verb_fail(verb, &err, o.json || verb_wants_json(argc, argv)) : r;
}

const char *image_operand(const struct image_options *o, const char *what, struct err *err)
{
    if (o->count)
        return o->operands[0];
    err_set(err, ERR_USAGE, "%s is missing", what);
    err_hint(err, "`brig image list` has the names of images");
    return NULL;
}

void image_size_text(uint64_t bytes, char ret[static 24])
{
    static const char *const units[] = {"B", "KB", "MB", "GB", "TB"};
    size_t unit = 0;
    double number = (double)bytes;
    while (number >= 1000 && unit + 1 < ARRAY_LEN(units)) {
        number /= 1000;
        unit++;
    }
    snprintf(ret, 24, unit ? "%.1f %s" : "%.0f %s", number, units[unit]);
}
