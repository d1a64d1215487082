/* A secret: locked in memory, left out of dumps, wiped when it is freed. It has no formatting
 * function, so that printing one does not compile; the few files that must see the bytes (inject.c,
 * redact.c, keeper.c) say so by calling secret_expose.
 *
 * Exists in brig-proxy alone: the supervisor and the sandbox never hold one. */
#pragma once

#include "base/err.h"

#include <stddef.h>

#define SECRET_MIN 8
#define SECRET_MAX 8192

struct secret;
/* Refuses control bytes (so: CR, LF, NUL), non-ASCII, and lengths out of range; one trailing
 * newline is cut off first. */
int secret_new(const char *bytes, size_t len, struct secret **ret, struct err *err);
void secret_free(struct secret *s); /* takes NULL */
const char *secret_expose(const struct secret *s, size_t *ret_len);
