/* The allowed transitions between the states of a sandbox, and when each was entered. */
#include "lifecycle/state.h"

#include "base/clock.h"

static const unsigned allowed[STATE_COUNT] = {
    [STATE_DORMANT] = 1u << STATE_PROVISIONING | 1u << STATE_ERROR,
    [STATE_PROVISIONING] = 1u << STATE_RUNNING | 1u << STATE_ERROR,
    /* A sandbox of a pool may end before anybody wanted it. */
    [STATE_RUNNING] = 1u << STATE_EXECUTING | 1u << STATE_COMPLETED | 1u << STATE_ERROR,
    [STATE_EXECUTING] = 1u << STATE_COMPLETED | 1u << STATE_ERROR,
    [STATE_COMPLETED] = 1u << STATE_TEARDOWN,
    [STATE_ERROR] = 1u << STATE_TEARDOWN,
    [STATE_TEARDOWN] = 0,
};

void state_init(struct state_machine *m)
{
    *m = (struct state_machine){.now = STATE_DORMANT, .start_us = clock_us()};
}

int state_enter(struct state_machine *m, enum state next, struct err *err)
{
    if (!(allowed[m->now] & (1u << next)))
        return err_set(err, ERR_INTERNAL, "no way from state %s to %s", state_name(m->now),
                       state_name(next));
    m->now = next;
    m->entered_us[next] = clock_us() - m->start_us + 1;
    return 0;
}

const char *state_name(enum state s)
{
    static const char *const names[STATE_COUNT] = {
        "dormant", "provisioning", "running", "executing", "completed", "error", "teardown"};
    return names[s];
}

void state_write_json(const struct state_machine *m, struct json_writer *w)
{
    jw_object_begin(w);
    for (int s = STATE_PROVISIONING; s < STATE_COUNT; s++)
        if (m->entered_us[s])
            jw_kv_uint(w, state_name((enum state)s), m->entered_us[s] - 1);
    jw_object_end(w);
}
