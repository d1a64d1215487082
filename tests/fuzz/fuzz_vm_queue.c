/* Any bytes as rings: tables, offers and what they point to, all the guest's. Whatever they say, a
 * chain lies in guest memory, work is bounded, and nothing outside is touched (the sanitizer
 * looks). */
#include "vm_driver.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const struct guest_memory *m, const struct iovec *parts, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        const uint8_t *at = parts[i].iov_base;
        if (at < m->host || parts[i].iov_len == 0 || parts[i].iov_len > m->size ||
            (size_t)(at - m->host) > m->size - parts[i].iov_len)
            abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct driver v = {0};
    static struct chain c;
    uint8_t copy[64];
    if (size < 24)
        return 0;
    driver_memory(&v);
    struct queue q = {.memory = &v.memory, .size = data[0]};
    uint16_t at[3];
    memcpy(at, data + 1, sizeof at);
    q.table_at = DRIVER_BASE + at[0] * (uint64_t)(1 + (data[7] & 15));
    q.offered_at = DRIVER_BASE + at[1];
    q.used_at = DRIVER_BASE + at[2];
    size_t len = size - 8 < DRIVER_MEMORY ? size - 8 : DRIVER_MEMORY;
    memcpy(v.memory.host, data + 8, len);
    if (queue_start(&q)) {
        unsigned taken = 0;
        while (taken <= QUEUE_SIZE_MAX && queue_take(&q, &c) > 0) {
            check(&v.memory, c.in, c.in_count);
            check(&v.memory, c.out, c.out_count);
            if (c.in_count + c.out_count > q.count)
                abort();
            size_t got = chain_read(&c, data[1], copy, sizeof copy);
            chain_write(&c, data[2], copy, got);
            queue_give(&q, c.head, (uint32_t)got);
            queue_tell(&q);
            taken++;
        }
    }
    free(v.memory.host);
    return 0;
}
