/* The network's part of tightening. Private to policy/. */
#pragma once

#include "policy/policy.h"

/* Does this rule lead where that one asks for? */
bool rule_reaches(const struct egress_rule *have, const struct egress_rule *want);
/* `want` names an address, and `have` leads to another one or leaves it to the resolver. */
bool rule_other_address(const struct egress_rule *have, const struct egress_rule *want);
/* The part of `have` that `want` asks for, into `next`. 1: there is none. */
int rule_derive(struct egress *next, const struct egress_rule *have, const struct egress_rule *want,
                struct err *err);
/* What the rules would be; p is not changed. */
int egress_tighten(const struct policy *p, const struct policy *request, struct egress *next,
                   struct err *err);
/* Puts them into force. */
int egress_take(struct policy *p, const struct policy *request, struct egress *next,
                struct err *err);
