/* Rules that replace others while a sandbox lives. */
#pragma once

#include "base/json.h"
#include "policy/egress.h"

/* {"allow":["HOST…"],"block":["HOST…"]} into `ret`. Where a rule of `base`, the operator's, leads
 * there, as much of it as is asked for holds, with its address, methods, paths and limits; else the
 * host alone is allowed, and an address that the text itself pins is refused: only the operator
 * opens what is not public. What `base` blocks stays blocked, and its totals stay. */
int egress_live(const struct egress *base, const struct json *rules, struct egress *ret,
                struct err *err);
