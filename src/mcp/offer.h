/* The tools that brig offers to a model: names, what they are for, and their schemas. */
#pragma once

#include "base/json.h"

enum tool_id {
    TOOL_RUN_CODE,
    TOOL_RUN_COMMAND,
    TOOL_READ_FILE,
    TOOL_WRITE_FILE,
    TOOL_LIST_FILES,
    TOOL_CREATE_SESSION,
    TOOL_DESTROY_SESSION,
    TOOL_DIFF,
    TOOL_COUNT,
};
enum tool_id offer_find(const char *name); /* TOOL_COUNT: there is none */
/* The array of tools/list. */
void offer_write(struct json_writer *w);

#define MCP_TIMEOUT_DEFAULT_MS 60000
#define MCP_TIMEOUT_MAX_MS     3600000
#define MCP_SESSION_DEFAULT_S  900
#define MCP_SESSION_MAX_S      86400
#define MCP_DEPTH_MAX          16
