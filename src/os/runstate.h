/* The folder in which runs keep what outlives them or must be found by others:
 * $XDG_STATE_HOME/brig, else /var/lib/brig for root and ~/.local/state/brig for everybody else. */
#pragma once

#include "base/buf.h"

#include <stdbool.h>

/* Opens the sub-folder `name` ("net", "approvals", …), with `make` also makes it, 0700, and the
 * place that the environment names (but nothing above that). Every step must be the caller's own
 * and nobody else's to write. A descriptor, or -1 with errno. */
int runstate_open(const char *name, bool make);
/* The same, whatever XDG_STATE_HOME says: for what must be found from everywhere. */
int runstate_open_fixed(const char *name, bool make);
/* Its name, for programs that open it themselves; false: there is no place for it. */
bool runstate_path(const char *name, struct buf *ret);
