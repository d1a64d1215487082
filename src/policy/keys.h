/* The keys that a policy document may have, and what to say about one that it may not. Private to
 * policy/. */
#pragma once

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>

bool section_exists(const char *section);
/* Sets err: which keys there are, and the one that was probably meant. */
int key_unknown(const char *section, const char *key, struct err *err);
