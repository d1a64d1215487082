/* The vm tier's row in the table of tiers asks here. */
#pragma once

#include "kernel/tier.h"

/* The operator's word: machines on a kind of processor on which none was ever seen to run. */
#define VM_UNTRIED_VARIABLE "BRIG_VM_UNTRIED"

/* Is there /dev/kvm, the monitor and a kernel to boot. Where all is there, `how` says which. */
bool vm_probe(struct tier_answer *ret);
/* May machines run on a processor with AMD's virtualization (or arm64's), or with Intel's, when
 * VM_UNTRIED_VARIABLE holds this. */
bool vm_may_be_tried(bool seen_to_run, const char *word);
