/* The network's part of tightening. Private to policy/. */
#pragma once

#include "policy/policy.h"

/* What the rules would be; p is not changed. */
int egress_tighten(const struct policy *p, const struct policy *request, struct egress *next,
                   struct err *err);
/* Puts them into force. */
int egress_take(struct policy *p, const struct policy *request, struct egress *next,
                struct err *err);
