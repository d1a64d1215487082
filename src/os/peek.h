/* What /proc shows of a process only to its own user and to root of its user namespace: descriptors
 * and environment. Where the process has an id that the caller has not, somebody goes and looks
 * from there, on an errand.
 *
 * `user_ns`: the user namespace, as struct errand has it; NULL and -1: the caller may look itself.
 */
#pragma once

#include "base/err.h"

#include <stdint.h>
#include <sys/types.h>

/* As procfs_inherited_fds. */
int peek_inherited_fds(const int *user_ns, pid_t pid, uint64_t *ret, struct err *err);
/* Has its environment anything in it? 0 or 1; negative: it cannot be read. */
int peek_environment(const int *user_ns, pid_t pid, struct err *err);
