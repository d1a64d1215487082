/* The interpreters that a sandbox of the daemon can have, and what starts each. */
#pragma once

#include <stdbool.h>

struct interpreter {
    const char *language; /* as the wire names it */
    const char *argv[6];  /* NULL-terminated */
};
/* NULL: there is none. */
const struct interpreter *interpreter_find(const char *language);
const struct interpreter *interpreter_at(unsigned i); /* NULL past the last */
