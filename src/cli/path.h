/* Paths that a person typed: made absolute without asking the file system, or followed. */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "os/reach.h"

/* `path` seen from the absolute folder `base`; `.`, `..` and repeated slashes are gone. Pure. */
void path_join(const char *base, const char *path, struct buf *out);
/* The same, seen from the current folder. */
int path_resolve(const char *path, struct buf *out, struct err *err);
/* The object that it stands for, through no link that a sandbox may have made; messages begin with
 * `what`: "cannot copy". */
int path_reach(const char *path, const char *what, struct reached *ret, struct err *err);
/* The folder of a file that shall be written, likewise, and the file's name in it. */
int path_folder(const char *path, const char *what, char name[static NAME_MAX + 1],
                struct err *err);
