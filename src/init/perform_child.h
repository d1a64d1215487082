/* Performing a plan: init's own, and the short ones of a session. */
#pragma once

#include "plan/apply.h"

void perform_init(struct apply_state *st);
/* Has the supervisor written and sealed the plan? Waits for its word. */
bool perform_ready(void);
/* Maps a sealed block and closes its descriptor; NULL on failure. */
const void *perform_map(int fd, size_t *len, struct err *err);
/* `allowed`: the operations that this plan may have; NULL: all. */
int perform_plan(struct apply_state *st, const void *bytes, size_t len,
                 bool (*allowed)(enum op_kind kind), struct err *err);
/* Of a plan only what is wanted here: the rest is another process's to do. */
int perform_part(struct apply_state *st, const void *bytes, size_t len,
                 bool (*wanted)(enum op_kind kind), struct err *err);
