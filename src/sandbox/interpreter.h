/* The interpreters that a sandbox of the daemon can have: what starts each, and the driver that it
 * runs, which is brig's own file and shown inside. */
#pragma once

#include "base/err.h"

#include <stddef.h>

struct interpreter {
    const char *language; /* as the wire names it */
    const char *argv[6];  /* NULL-terminated */
    const char *file;     /* in the folder of shown files; what argv ends with */
    const char *start, *end;
};
/* NULL: there is none. */
const struct interpreter *interpreter_find(const char *language);
const struct interpreter *interpreter_at(unsigned i); /* NULL past the last */

struct filesystem;
/* Between prepare and plan: every driver can be read inside. */
int interpreters_show(struct filesystem *fs, struct err *err);
