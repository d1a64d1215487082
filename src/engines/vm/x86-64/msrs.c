/* Which registers a guest on x86-64 has. */
#include "engines/vm/x86-64/msrs.h"

#include "base/cleanup.h"

const struct msr_range msr_counters[MSR_COUNTER_RANGES] = {
    {0xc1, 8},       {0x186, 8},      {0x309, 4},
    {0x38d, 4},      {0x3f1, 1},      {0x4c1, 8},       /* Intel's */
    {0xc0000300, 4}, {0xc0010000, 8}, {0xc0010200, 12}, /* AMD's */
};

static const struct msr_range not_kept[] = {
    {0x3a, 1},           /* virtualization and enclaves: whether they are there */
    {0x8c, 4},           /* enclaves: whose */
    {0xce, 2},           /* what the platform is, and what its cores can */
    {0x10a, 1},          /* which faults it has */
    {0x345, 1},          /* what its counters can */
    {0x3f2, 1},          /* more of counters */
    {0x480, 0x13},       /* virtualization, Intel's: what it can */
    {0x560, 0x30},       /* tracing */
    {0x600, 1},          /* where counters write */
    {0x14ce, 2},         /* records of branches */
    {0x40000000, 0x200}, /* extras of another maker's */
    {0x4b564d02, 0xfe},  /* KVM's extras but its clock */
    {0xc0010114, 4},     /* virtualization, AMD's */
};

static bool has(const struct msr_range *ranges, size_t count, uint32_t index)
{
    for (size_t i = 0; i < count; i++)
        if (index >= ranges[i].first && index - ranges[i].first < ranges[i].count)
            return true;
    return false;
}

bool msr_kept(uint32_t index)
{
    return !has(msr_counters, MSR_COUNTER_RANGES, index) &&
           !has(not_kept, ARRAY_LEN(not_kept), index);
}
