/* Report mode: which files the code asked for that lie outside of what it sees. A list for people
 * and models; the walls are elsewhere. */
#pragma once

#include "kernel/kernel.h"

#include <linux/seccomp.h>

/* report_path_parse.c: an absolute path without ".", ".." and double slashes, in place. */
void report_path_clean(char *path);

void report_path(struct kernel *k, const struct seccomp_notif *n, struct denial_list *list);
