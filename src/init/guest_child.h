/* init as the first process of a guest: see guest_child.c. */
#pragma once

#include "base/err.h"
#include "plan/plan.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Never comes back: the machine ends with it. */
int guest_main(void);
/* A new stream of the monitor's, which may still be about to be connected where `wait` is false. */
int guest_dial(uint32_t port, bool wait, struct err *err);

/* guest_network_child.c: the ways out that the plan has, and a process that carries what takes
 * them. After the loopback is up; control: init's own stream, which that process does not keep. */
int guest_network_start(const void *plan, size_t len, int control, struct err *err);
/* Is this operation a part of it? */
bool guest_network_has(enum op_kind kind);
