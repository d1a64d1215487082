/* Learn mode, after the run: what the host has at a path that the code named. Nothing is opened but
 * as a place (O_PATH), nothing is mounted by looking, and links are followed one by one. */
#pragma once

#include "base/err.h"

#include <limits.h>
#include <stdbool.h>
#include <sys/stat.h>

struct look {
    char path[PATH_MAX]; /* canonical: where it is, or would be */
    char link[PATH_MAX]; /* the first symbolic link on the way, or empty */
    bool exists;
    bool parent_exists; /* the folder that it is or would be in */
    bool is_dir, is_file, is_socket;
};

/* Negative: cannot be said (too many links, an automatic mount, no permission to look). */
int look_up(const char *path, struct look *ret);

#define LOOK_WHY_MAX 160
/* May it be proposed to a person? `path` is canonical. Stricter than protect_check: what a program
 * asks for is not what its user wants. False: `why` says it. */
bool look_may_propose(const char *path, bool is_dir, char why[static LOOK_WHY_MAX]);
/* Worth a second look, though it may be proposed; NULL: no. */
const char *look_risk(const char *path, bool is_dir, bool writable);
