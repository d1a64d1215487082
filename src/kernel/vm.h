/* The vm tier's row in the table of tiers asks here. */
#pragma once

#include "kernel/tier.h"

/* Is there /dev/kvm, the monitor and a kernel to boot. Where all is there, `how` says which. */
bool vm_probe(struct tier_answer *ret);
