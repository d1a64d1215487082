/* The states of a sandbox as the daemon sees it: box/box_state.c has the machine, metrics count by
 * them. */
#pragma once

enum box_state {
    BOX_DORMANT,
    BOX_PROVISIONING,
    BOX_IDLE, /* in the pool: attested, no user data, nobody's */
    BOX_RUNNING,
    BOX_PAUSED,
    BOX_ENDING,
    BOX_ERROR,
    BOX_GONE,
    BOX_STATE_COUNT,
};
const char *box_state_name(enum box_state s);
