/* gzip, unpacked as it comes, in constant memory. The only file that sees zlib is gunzip.c. */
#pragma once

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>

struct gunzip;
int gunzip_new(struct gunzip **ret, struct err *err);
void gunzip_free(struct gunzip *g);
/* Takes some of data[0..len) and fills out[0..size); how much of both comes back. When `out` was
 * filled there may be more of it without further input: gunzip_has_more. One member, and nothing
 * behind its end. */
int gunzip_step(struct gunzip *g, const char *data, size_t len, size_t *ret_taken, char *out,
                size_t size, size_t *ret_made, struct err *err);
bool gunzip_has_more(const struct gunzip *g);
bool gunzip_complete(const struct gunzip *g);
