/* The verbs of `brig image`, and what they share. */
#pragma once

#include "base/buf.h"
#include "cli/verb.h"

extern const struct verb verb_image_load;
extern const struct verb verb_image_pull;
extern const struct verb verb_image_push;
extern const struct verb verb_image_from_host;
extern const struct verb verb_image_build;
extern const struct verb verb_image_list;
extern const struct verb verb_image_show;
extern const struct verb verb_image_rm;
extern const struct verb verb_image_verify;
extern const struct verb verb_image_gc;

enum image_option_id {
    OPT_JSON = 1,
    OPT_MAX_SIZE,
    OPT_MAX_ENTRIES,
    OPT_REPLACE,
    OPT_PLAIN_HTTP,
    OPT_PACKAGES
};

/* clang-format off */
/* Of the verbs that unpack what others made. */
#define IMAGE_LIMIT_OPTIONS                                                                        \
    {OPT_MAX_SIZE, 0, "max-size", OPT_VALUE, "SIZE", NULL, NULL, "Loading",                        \
     "refuse what is larger than that when unpacked; default: 16G"},                               \
    {OPT_MAX_ENTRIES, 0, "max-entries", OPT_VALUE, "N", NULL, NULL, "Loading",                     \
     "refuse what has more files than that; default: 600k"}
/* clang-format on */

struct image_options {
    const char *operands[2];
    unsigned count, most; /* operands that there are, and may be */
    uint64_t max_bytes, max_entries;
    const char *packages;
    bool json, replace, plain_http;
};
/* Parses, calls `work`, says what failed. Its exit status, or 125. */
typedef int image_work(const struct image_options *o, struct err *err);
int image_verb(const struct verb *verb, int argc, char *const argv[], unsigned most,
               image_work *work);
/* Tells of each image that `fn` loads, and of its steps on a terminal. */
struct load_request;
int image_load(const struct image_options *o, struct load_request *load,
               int (*fn)(struct load_request *load, const struct image_options *o, struct err *err),
               struct err *err);
/* The one that is needed, or an error that names it. */
const char *image_operand(const struct image_options *o, const char *what, struct err *err);
/* "12.3 MB" */
void image_size_text(uint64_t bytes, char ret[static 24]);
