/* The state machine of one sandbox. A sandbox that misbehaves goes to teardown; there is no way
 * back. */
#pragma once

#include "base/err.h"
#include "base/json.h"

#include <stdint.h>

enum state {
    STATE_DORMANT,      /* planned, nothing exists */
    STATE_PROVISIONING, /* boundaries are going up */
    STATE_RUNNING,      /* up and attested, no code yet */
    STATE_EXECUTING,    /* the code runs */
    STATE_COMPLETED,    /* the code ended, by itself or by a limit */
    STATE_ERROR,        /* a step failed: rolled back, never repaired */
    STATE_TEARDOWN,     /* everything is removed */
    STATE_COUNT,
};

struct state_machine {
    enum state now;
    uint64_t entered_us[STATE_COUNT]; /* since the start; 0 = never */
    uint64_t start_us;
};

void state_init(struct state_machine *m);
/* Refuses transitions that the machine does not have. */
int state_enter(struct state_machine *m, enum state next, struct err *err);
const char *state_name(enum state s);
void state_write_json(const struct state_machine *m, struct json_writer *w);
