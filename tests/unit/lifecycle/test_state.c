/* The state machine of a sandbox: every pair of states, the times, and no way back. */
#include "lifecycle/state.h"

#include <criterion/criterion.h>
#include <stdbool.h>
#include <string.h>

/* ways[from][to], written out so that a change of the machine has to be made twice. */
static const bool ways[STATE_COUNT][STATE_COUNT] = {
    [STATE_DORMANT] = {[STATE_PROVISIONING] = true, [STATE_ERROR] = true},
    [STATE_PROVISIONING] = {[STATE_RUNNING] = true, [STATE_ERROR] = true},
    [STATE_RUNNING] = {[STATE_EXECUTING] = true, [STATE_COMPLETED] = true, [STATE_ERROR] = true},
    [STATE_EXECUTING] = {[STATE_COMPLETED] = true, [STATE_ERROR] = true},
    [STATE_COMPLETED] = {[STATE_TEARDOWN] = true},
    [STATE_ERROR] = {[STATE_TEARDOWN] = true},
};

Test(state, every_transition)
{
    for (int from = 0; from < STATE_COUNT; from++)
        for (int to = 0; to < STATE_COUNT; to++) {
            struct state_machine m;
            struct err err = ERR_INIT;
            state_init(&m);
            m.now = (enum state)from;
            int result = state_enter(&m, (enum state)to, &err);
            cr_assert_eq(result == 0, ways[from][to], "%s to %s", state_name(m.now),
                         state_name((enum state)to));
            cr_assert_eq(m.now, (enum state)(result == 0 ? to : from));
            cr_assert(result == 0 || err.code == ERR_INTERNAL);
            cr_assert_eq(m.entered_us[to] != 0, result == 0);
        }
}

Test(state, teardown_is_the_end)
{
    for (int to = 0; to < STATE_COUNT; to++)
        cr_assert_not(ways[STATE_TEARDOWN][to]);
}

Test(state, an_error_may_be_null)
{
    struct state_machine m;
    state_init(&m);
    cr_assert_lt(state_enter(&m, STATE_TEARDOWN, NULL), 0);
}

Test(state, names_are_all_different)
{
    for (int a = 0; a < STATE_COUNT; a++)
        for (int b = 0; b < a; b++)
            cr_assert_str_neq(state_name((enum state)a), state_name((enum state)b));
}

Test(state, json_has_the_states_that_were_entered)
{
    struct state_machine m;
    struct json_writer w;
    struct buf out;
    buf_init(&out, 4096);
    state_init(&m);
    state_enter(&m, STATE_PROVISIONING, NULL);
    state_enter(&m, STATE_ERROR, NULL);
    state_enter(&m, STATE_TEARDOWN, NULL);
    jw_init(&w, &out, false);
    state_write_json(&m, &w);
    const char *text = buf_text(&out);
    cr_assert(strstr(text, "\"provisioning\":") && strstr(text, "\"error\":") &&
                  strstr(text, "\"teardown\":"),
              "%s", text);
    cr_assert_not(strstr(text, "executing") || strstr(text, "dormant"), "%s", text);
    cr_assert_leq(m.entered_us[STATE_PROVISIONING], m.entered_us[STATE_TEARDOWN]);
    buf_done(&out);
}
