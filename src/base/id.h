/* The names of sandboxes: one of the daemon is 20 random lower-case letters and digits; one run is
 * "brig-" and some of them, which is also how a daemon's sandbox calls itself in its records. */
#pragma once

#include <stdbool.h>

#define BOX_ID_LEN  20
#define RUN_ID_SIZE 28 /* with the final NUL */

/* NULL is none. */
bool box_id_valid(const char *id);
bool run_id_valid(const char *id);
