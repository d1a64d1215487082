/* Where runs leave what outlives them: records of their network, reviews, approvals, receipts. One
 * folder of the caller's, with one folder below it for each kind. */
#pragma once

#include <stdbool.h>

/* The folder of this kind, as a descriptor: below $XDG_STATE_HOME/brig; else, for root,
 * /var/lib/brig, for others ~/.local/state/brig. Each step of ours down there must be the caller's
 * own and nobody else's to write; with `make`, what is missing is made, 0700. -1 with errno. */
int rundir_open(const char *kind, bool make);
/* "brig-" and a few lower-case letters and digits: what can be the id of a sandbox. Nothing else
 * becomes part of a file's name. */
bool rundir_is_id(const char *text);
/* One step down from a folder that is already open, under the same conditions. */
int rundir_enter(int dir, const char *name, bool make);
