/* The names of the states, as records and clients see them. */
#include "daemon/core/states.h"

const char *box_state_name(enum box_state s)
{
    static const char *const names[] = {
        [BOX_DORMANT] = "dormant", [BOX_PROVISIONING] = "provisioning",
        [BOX_IDLE] = "idle",       [BOX_RUNNING] = "running",
        [BOX_PAUSED] = "paused",   [BOX_ENDING] = "ending",
        [BOX_ERROR] = "error",     [BOX_GONE] = "gone",
    };
    return s < BOX_STATE_COUNT ? names[s] : "?";
}
