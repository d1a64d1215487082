/* How the result of `brig verify` is shown. */
#pragma once

#include "base/buf.h"
#include "verify/verify.h"

struct verify_style {
    bool colour, utf8;
};
struct verify_count {
    unsigned held, failed, not_applicable;
};
void verify_count(const struct verify_result *r, struct verify_count *ret);
void verify_text(const struct verify_result *r, struct verify_style style, struct buf *out);
void verify_json(const struct verify_result *r, struct buf *out);
void verify_list_text(struct buf *out);
void verify_list_json(struct buf *out);
