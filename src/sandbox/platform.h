/* Which of gVisor's platforms is used; see platform.c. */
#pragma once

#include "kernel/gvisor.h"

/* Settles on the one that works on this host, if the build has more than one. */
int platform_choose(struct gvisor_build *b, struct err *err);
/* Uses what an earlier trial found, and tries nothing. */
bool platform_known(struct gvisor_build *b);
