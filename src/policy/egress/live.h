/* Rules that replace others while a sandbox lives. */
#pragma once

#include "base/json.h"
#include "policy/egress/egress.h"

/* {"allow":["HOST…"],"block":["HOST…"],"beyond":true|false} into `ret`. Where a rule of `base`, the
 * operator's, leads there, as much of it as is asked for holds, with its address, methods, paths
 * and limits. Else, with "beyond" (default: without), the host alone is allowed, and an address
 * that the text itself pins is refused: only the operator opens what is not public. Without
 * "allow" all rules of `base` hold. What it blocks stays blocked, and its totals stay. */
int egress_live(const struct egress *base, const struct json *rules, struct egress *ret,
                struct err *err);
