/* One field's value: from text, to text, and into a policy. Private to policy/. */
#pragma once

#include "policy/fields.h"

/* policy_set without the name of the field or option in front of the message. */
int value_set(struct policy *p, enum policy_field id, const char *text, const struct origin *origin,
              struct err *err);
/* A number of this field's type as a person would write it. */
void value_format(enum policy_field id, uint64_t number, struct buf *out);
/* Puts the option's name, or else `what`, in front of the message. */
int origin_blame(const struct origin *origin, const char *what, struct err *err);
