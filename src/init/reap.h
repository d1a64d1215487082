/* What init does while the code runs: reap, obey the supervisor, report the end. */
#pragma once

#include "init/exec_child.h"

int reap_until_end(struct apply_state *st, struct started *code);
