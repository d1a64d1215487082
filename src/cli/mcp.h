/* The parts of `brig mcp`. */
#pragma once

#include "cli/verb.h"

enum mcp_option_id {
    OPT_MCP_WRAP = 1,
    OPT_MCP_PROJECT,
    OPT_MCP_QUIET,
    OPT_MCP_VERBOSE,
    OPT_MCP_LAST,
};

/* mcp_wrap.c: --wrap stands before the command. */
bool mcp_wants_wrap(int argc, char *const argv[]);
int mcp_wrap_main(const struct verb *verb, int argc, char *const argv[]);
