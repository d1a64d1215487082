/* What becomes of a process that crashes.
 *
 * Where kernel.core_pattern names a program ("|/usr/lib/systemd/systemd-coredump …"), the kernel
 * starts that program as root of the host for each crash of any process, in whatever namespaces,
 * and gives it the process's memory: hostile bytes for a parser outside of all walls, as often as
 * the code likes. No limit on the size of core files stops that but one: of a process whose limit
 * is exactly one byte nothing is dumped, neither into a file nor to a program. */
#pragma once

#include "base/err.h"

#include <stdint.h>

/* The limit of core files that such code gets: 1; or 0 where this process cannot give 1, and no
 * program stands in the way. Else it is refused. */
int coredump_limit(uint64_t *ret, struct err *err);
