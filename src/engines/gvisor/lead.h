/* What passes between a leader (lead.c), behind the Sentry, and its join (join.c), outside of it:
 * over one pipe bytes go in, each the number of a signal for the program's group, and the pipe's
 * end is SIGKILL; over the other comes one word, and then its end.
 *
 * GV-5  What a leader says can end its own request, and nothing else: the code can kill it, and put
 * words into its mouth. No descriptor comes from it, since pipes carry none. */
#pragma once

#include "plan/join.h"

#include <stddef.h>
#include <stdint.h>

#define LEADER_NAME "brig-lead" /* what ps shows */

enum lead_stage {
    LEAD_STARTED, /* the program was executed */
    LEAD_PREPARE, /* these were not done, and why says the reason */
    LEAD_TERMINAL,
    LEAD_FOLDER,
    LEAD_EXECUTE,
    LEAD_STAGE_COUNT,
};
struct lead_word {
    int32_t stage;
    int32_t why; /* an errno */
};

/* control_parse.c: what it may have been, of bytes that may be anything. 0, or negative. */
int lead_word_parse(const void *bytes, size_t len, struct lead_word *ret);
