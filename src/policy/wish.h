/* kernel.tier as a list. Private to policy/. */
#pragma once

#include "policy/policy.h"

/* "vm, container": each a tier, none twice. */
int wish_parse(const char *text, struct tier_wish *ret, struct err *err);
enum tier wish_weakest(const struct tier_wish *w);
bool wish_same(const struct tier_wish *a, const struct tier_wish *b);
void wish_text(const struct tier_wish *w, struct buf *out);
