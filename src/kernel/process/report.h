/* Report mode: which files the code asked for that lie outside of what it sees. A list for people
 * and models; the walls are elsewhere. */
#pragma once

#include "kernel/kernel.h"

#include <limits.h>
#include <linux/seccomp.h>

/* report_path_parse.c: an absolute path without ".", ".." and double slashes, in place. */
void report_path_clean(char *path);

/* The path that a call names, from its folder on. False: it cannot be read, or is empty. For the
 * hand alone (hand.h). */
bool report_absolute(int mem, pid_t pid, int dir, uint64_t address, char out[static PATH_MAX]);

void report_path(struct kernel *k, const struct seccomp_notif *n, struct denial_list *list);
