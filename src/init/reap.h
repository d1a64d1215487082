/* What init does while the code runs: reap, obey the supervisor, report the end. */
#pragma once

#include "init/exec_child.h"

/* A descriptor that becomes readable when a child ends. */
int reap_open_signals(void);
int reap_until_end(struct apply_state *st, struct started *code);
