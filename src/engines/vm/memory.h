/* The guest's memory as the monitor sees it: one range, shared with code that is hostile and that
 * runs at the same time.
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
};

/* NULL unless all of it lies in the guest's memory; an empty range lies nowhere. */
static inline void *memory_range(const struct guest_memory *m, uint64_t address, uint64_t len)
{
    if (len == 0 || address < m->base || len > m->size || address - m->base > m->size - len)
        return NULL;
    return m->host + (address - m->base);
}
