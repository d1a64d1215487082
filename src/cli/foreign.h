/* Options that people bring along from other tools, and what there is here in their place. */
#pragma once

#include "cli/options.h"

/* `word` without its dashes. NULL: nothing is known about it, or these options have nothing like
 * it. */
const char *foreign_hint(const struct opt_table *table, const char *word);
