/* tools/call: which tool. */
#include "daemon/mcp/mcp.h"

#define KEEPALIVE_FIRST_MS 5000u

static void (*const handlers[TOOL_COUNT])(struct mcp_call *c) = {
    [TOOL_RUN_CODE] = mcp_run_code,
    [TOOL_RUN_COMMAND] = mcp_run_command,
    [TOOL_READ_FILE] = mcp_read_file,
    [TOOL_WRITE_FILE] = mcp_write_file,
    [TOOL_LIST_FILES] = mcp_list_files,
    [TOOL_CREATE_SESSION] = mcp_create_session,
    [TOOL_DESTROY_SESSION] = mcp_destroy_session,
    [TOOL_DIFF] = mcp_diff,
};

void mcp_tools_call(struct mcp_call *c)
{
    const struct json *name = c->msg.params ? json_get(c->msg.params, "name") : NULL;
    const struct json *arguments = c->msg.params ? json_get(c->msg.params, "arguments") : NULL;
    enum tool_id id = TOOL_COUNT;
    if (name && json_type(name) == JSON_STRING)
        id = offer_find(json_string(name));
    if (id == TOOL_COUNT) {
        mcp_fail(c, 200, RPC_INVALID_PARAMS, "there is no such tool", NULL);
        return;
    }
    if (arguments && json_type(arguments) != JSON_OBJECT) {
        mcp_fail(c, 200, RPC_INVALID_PARAMS, "arguments must be an object", NULL);
        return;
    }
    if (c->takes_events)
        loop_timer_set(c->activity.loop, &c->keepalive, KEEPALIVE_FIRST_MS);
    handlers[id](c);
}
