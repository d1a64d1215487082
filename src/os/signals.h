/* Signals as something to read: for who waits in one place for all that can happen. */
#pragma once

#include "base/err.h"

#include <signal.h>
#include <stddef.h>

/* Blocks them and returns a signalfd that they come from, or a negative errno. `old` is the mask
 * before, for who puts it back; may be NULL. */
int signals_open(const int *numbers, size_t count, sigset_t *old, struct err *err);
