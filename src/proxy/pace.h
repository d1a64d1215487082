/* The share of a processor that brig-proxy has, which is the sandbox's (LC-12): what the code makes
 * it do is not done any faster than the code could do it. One thread is never more than one
 * processor, so that there is nothing to do where the sandbox has that. */
#pragma once

#include <stdint.h>

#define PACE_BURST_US 200000 /* of processor time, that may be used at once after a rest */
#define PACE_WAIT_MS  100    /* at a time */

struct pace {
    uint32_t cpus_milli; /* 0, or 1000 and more: no limit */
    uint64_t wall_us, cpu_us;
    int64_t credit_us;
};

/* How long to do nothing now, in milliseconds; then it is to be asked again, until it is 0. Pure:
 * both clocks are the caller's. */
unsigned pace_due(struct pace *p, uint64_t wall_us, uint64_t cpu_us);
