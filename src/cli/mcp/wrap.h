/* brig mcp --wrap: a form of the verb with options of its own. */
#pragma once

#include "cli/verb.h"

extern const struct verb verb_mcp_wrap;

/* --wrap stands before the command. */
bool mcp_wants_wrap(int argc, char *const argv[]);
