/* Registers of a processor that are known by number (MSRs): which of them a guest does not have,
 * and which are kept of a machine that is parked. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct msr_range {
    uint32_t first, count;
};

/* VM-21: the registers of performance counters, of both makers. That the processor's description
 * has none is not enough: AMD's first four are there whatever it says, and behind each stands an
 * event of the host's kernel. */
#define MSR_COUNTER_RANGES 9
extern const struct msr_range msr_counters[MSR_COUNTER_RANGES];

/* A monitor may set more than a guest may: what is closed to guests must not come back from a
 * state. Also not kept is what only says what the processor is. */
bool msr_kept(uint32_t index);
