/* The level table: what each threat level means, field by field. Private to policy/. */
#pragma once

#include "policy/fields.h"

/* The column of one level. Texts are constants; NULL is the text of a field that decides for
 * itself. */
uint64_t level_number(enum level level, enum policy_field id);
const char *level_string(enum level level, enum policy_field id);
/* No level differs from another here. */
bool level_same_for_all(enum policy_field id);

/* Fill every field that nothing but a level has set so far. */
int level_apply(struct policy *p, enum level level);
