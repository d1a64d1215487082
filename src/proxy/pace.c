/* Bounds the share of a processor that brig-proxy uses: see pace.h. */
#include "proxy/pace.h"

unsigned pace_due(struct pace *p, uint64_t wall_us, uint64_t cpu_us)
{
    if (p->cpus_milli == 0 || p->cpus_milli >= 1000)
        return 0;
    if (!p->wall_us) {
        p->credit_us = PACE_BURST_US;
    } else {
        p->credit_us += (int64_t)((wall_us - p->wall_us) * p->cpus_milli / 1000);
        if (p->credit_us > PACE_BURST_US)
            p->credit_us = PACE_BURST_US;
        p->credit_us -= (int64_t)(cpu_us - p->cpu_us);
    }
    p->wall_us = wall_us;
    p->cpu_us = cpu_us;
    if (p->credit_us >= 0)
        return 0;
    uint64_t ms = (uint64_t)-p->credit_us / p->cpus_milli + 1;
    return ms < PACE_WAIT_MS ? (unsigned)ms : PACE_WAIT_MS;
}
