/* The level table: what each threat level means, field by field. Private to policy/. */
#pragma once

#include "policy/fields.h"

/* Fill every field that nothing but a level has set so far. */
int level_apply(struct policy *p, enum level level);
