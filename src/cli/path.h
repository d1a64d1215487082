/* Paths as text: what a person typed, made absolute without asking the file system. */
#pragma once

#include "base/buf.h"
#include "base/err.h"

/* `path` seen from the absolute folder `base`; `.`, `..` and repeated slashes are gone. Pure. */
void path_join(const char *base, const char *path, struct buf *out);
/* The same, seen from the current folder. */
int path_resolve(const char *path, struct buf *out, struct err *err);
