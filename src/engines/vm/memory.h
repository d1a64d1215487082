/* The guest's memory as the monitor sees it: one range, shared with code that is hostile and that
 * runs at the same time. The guest may see it in two parts, with a gap for devices between them.
 *
 * VM-1  No byte outside of this range is read or written for the guest: every address and length
 * that the guest names passes memory_range.
 * VM-2  What the guest can change is read once, into the monitor's own memory, and checked there.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct guest_memory {
    uint8_t *host;
    uint64_t base; /* where the guest finds it */
    uint64_t size;
    uint64_t gap_at, gap_end; /* guest addresses; 0: there is no gap */
};

/* NULL unless all of it lies in the guest's memory; an empty range lies nowhere, and none spans the
 * gap. */
static inline void *memory_range(const struct guest_memory *m, uint64_t address, uint64_t len)
{
    uint64_t low = m->gap_at && m->gap_at - m->base < m->size ? m->gap_at - m->base : m->size;
    if (len == 0 || address < m->base)
        return NULL;
    if (len <= low && address - m->base <= low - len)
        return m->host + (address - m->base);
    uint64_t high = m->size - low;
    if (high == 0 || address < m->gap_end || len > high || address - m->gap_end > high - len)
        return NULL;
    return m->host + low + (address - m->gap_end);
}

/* A copy of a file, such as the memory of a parked machine: what is written to it is the caller's
 * own. MAP_FAILED: with errno.
 *
 * What the parked guest never touched is not in the file. Where a clone touched it there, the
 * kernel would put empty pages into the file, for all clones at the expense of one, and copy them
 * for it besides: it has memory of its own in those places, and the file stays as small as it is.
 */
void *memory_copy(int file, uint64_t size);
