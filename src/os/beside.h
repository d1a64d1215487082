/* The programs that belong to brig: beside it, or in ../libexec/brig, and nowhere else. What stands
 * in PATH or in the environment has no say. */
#pragma once

#include "base/err.h"

#include <stddef.h>
#include <sys/types.h>

/* Where `name` is. ERR_UNSUPPORTED, with where it was looked for, if it is not there. */
int program_beside(const char *name, char *ret, size_t size, struct err *err);
/* The same of a file that is no program. */
int file_beside(const char *name, char *ret, size_t size, struct err *err);

#define PROGRAM_FDS_MAX 4
#define PROGRAM_FD      3 /* where the first of them stands */
/* Starts one with nothing of ours: /dev/null as its input and outputs, `fds` from PROGRAM_FD on
 * (all of our descriptors are close-on-exec), these variables alone, no signal blocked or ignored.
 * A session of its own: ^C is for the code, and its helpers end after it. */
int program_start(const char *program, char *const argv[], char *const envp[], const int *fds,
                  unsigned count, pid_t *ret, struct err *err);
