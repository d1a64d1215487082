/* Small helpers around descriptors and small files. */
#pragma once

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Read at most size-1 bytes and terminate with NUL. Returns the length, or a negative errno.
 * Relative to dir (AT_FDCWD). */
ssize_t file_read(int dir, const char *path, char *out, size_t size);
/* Write a short text into an existing file in one call. Returns 0 or a negative errno. */
int file_write(int dir, const char *path, const char *text);
/* An empty memfd, and filling it so that nobody can change it any more. */
int memfd_empty(const char *name, bool executable, struct err *err);
int memfd_fill(int fd, const void *data, size_t len, struct err *err);
/* Both at once. */
int memfd_sealed(const char *name, const void *data, size_t len, bool executable, struct err *err);
int fd_set_cloexec(int fd, bool on);
