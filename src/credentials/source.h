/* Where values come from: one function per kind. They run in the keeper; what they say when they
 * fail names the place and never the value. */
#pragma once

#include "credentials/secret.h"

/* `control_fd`: the pair; whoever waits stops when its other end is gone. */
int source_env(const char *name, struct secret **ret, struct err *err);
int source_file(const char *path, struct secret **ret, struct err *err);
int source_cmd(const char *line, int control_fd, struct secret **ret, struct err *err);

/* Splits at blanks; '…' and "…" keep blanks together; there is no escape. argv ends with NULL and
 * points into `line`, which is changed. Returns how many, or negative. */
#define SOURCE_ARGS_MAX 64
int source_split(char *line, char *argv[static SOURCE_ARGS_MAX + 1], struct err *err);
