/* The time of day. It may be set while brig runs: it is for records and for people, never for
 * limits (base/clock.h). */
#pragma once

#include <stdint.h>
#include <time.h>

static inline int64_t wall_us(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_REALTIME, &ts);
    return (int64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

static inline int64_t wall_ms(void)
{
    return wall_us() / 1000;
}
