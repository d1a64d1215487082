/* brig-daemon gives away what it does not need, before it reads the first byte from anybody. */
#pragma once

#include "base/err.h"

#include <stdbool.h>

/* As root it becomes a uid that nobody else on the machine has: above the range of the sandboxes
 * (docs/decisions/0005-pid-lease-uids.md), beside the recorder's. */
#define FRONT_UID 0x78000002u

struct front_seal {
    bool paths, ports; /* Landlock has them */
    unsigned uid;      /* cannot be asked for afterwards */
};
int front_seal(struct front_seal *ret, struct err *err);
int front_seal_calls(struct err *err); /* the filter alone */
