/* Paths of a policy: checked and brought to one spelling by their text alone. Private to policy/.
 */
#pragma once

#include "base/err.h"

/* Absolute, without `.`, `//` and a slash at the end; `..` is refused, because what it means
 * depends on links that the text does not show. *ret is the caller's. */
int path_normalise(const char *text, char **ret, struct err *err);
