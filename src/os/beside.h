/* The programs that belong to brig: beside it, or in ../libexec/brig, and nowhere else. What stands
 * in PATH or in the environment has no say. */
#pragma once

#include "base/err.h"

#include <stddef.h>

/* Where `name` is. ERR_UNSUPPORTED, with where it was looked for, if it is not there. */
int program_beside(const char *name, char *ret, size_t size, struct err *err);
