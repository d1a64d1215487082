/* A driver's side of a device, for tests and fuzzers: memory, rings in it, and requests put there.
 */
#pragma once

#include "engines/vm/device.h"

#include <stdlib.h>
#include <string.h>

#define DRIVER_BASE   0x40000000ull
#define DRIVER_MEMORY (256u << 10)
#define DRIVER_RING   16u
#define DRIVER_PART   0x10000u /* where data lies */
#define RING_AT(q)    ((q)*0x1000u)

struct driver {
    struct guest_memory memory;
    struct device *device;
    uint16_t offered[DEVICE_QUEUES_MAX];
};

static inline void driver_register(struct driver *v, uint32_t offset, uint32_t value)
{
    uint8_t data[8] = {0};
    memcpy(data, &value, sizeof value);
    device_write(v->device, offset, 4, data);
}

static inline uint32_t driver_asks(struct driver *v, uint32_t offset)
{
    uint8_t data[8];
    return device_read(v->device, offset, 4, data);
}

static inline void driver_memory(struct driver *v)
{
    v->memory = (struct guest_memory){
        .host = calloc(1, DRIVER_MEMORY), .base = DRIVER_BASE, .size = DRIVER_MEMORY};
    if (!v->memory.host)
        abort();
}

/* As Linux does it: features, queues, DRIVER_OK. */
static inline void driver_start(struct driver *v, struct device *d)
{
    v->device = d;
    memset(v->offered, 0, sizeof v->offered);
    driver_register(v, 0x70, 0);
    driver_register(v, 0x70, 3);
    driver_register(v, 0x24, 1);
    driver_register(v, 0x20, 1);
    driver_register(v, 0x70, 11);
    for (uint32_t q = 0; q < d->queue_count; q++) {
        uint32_t at = (uint32_t)DRIVER_BASE + RING_AT(q);
        driver_register(v, 0x30, q);
        driver_register(v, 0x38, DRIVER_RING);
        driver_register(v, 0x80, at);
        driver_register(v, 0x90, at + 0x400);
        driver_register(v, 0xa0, at + 0x800);
        driver_register(v, 0x44, 1);
    }
    driver_register(v, 0x70, 15);
}

static inline void driver_put(struct driver *v, uint32_t at, const void *value, size_t len)
{
    memcpy(v->memory.host + at, value, len);
}

/* One entry of a ring's table. */
static inline void driver_part(struct driver *v, uint32_t q, uint32_t index, uint64_t address,
                               uint32_t len, uint16_t flags, uint16_t next)
{
    uint32_t at = RING_AT(q) + 16 * index;
    driver_put(v, at, &address, 8);
    driver_put(v, at + 8, &len, 4);
    driver_put(v, at + 12, &flags, 2);
    driver_put(v, at + 14, &next, 2);
}

static inline void driver_offer(struct driver *v, uint32_t q, uint16_t head)
{
    uint32_t at = RING_AT(q) + 0x400;
    driver_put(v, at + 4 + 2 * (v->offered[q] % DRIVER_RING), &head, 2);
    v->offered[q]++;
    driver_put(v, at + 2, &v->offered[q], 2);
}

static inline uint16_t driver_used(const struct driver *v, uint32_t q)
{
    uint16_t used;
    memcpy(&used, v->memory.host + RING_AT(q) + 0x800 + 2, 2);
    return used;
}

/* Room for what the device sends: four buffers at a time, in turn. */
static inline void driver_buffers(struct driver *v, uint32_t q)
{
    while ((uint16_t)(v->offered[q] - driver_used(v, q)) < 4) {
        uint16_t i = (uint16_t)(4 + v->offered[q] % 4);
        driver_part(v, q, i, DRIVER_BASE + DRIVER_PART + 0x20000, 4096, 2, 0);
        driver_offer(v, q, i);
    }
}

/* Something to read, then room to write, in queue q; then rings. */
static inline void driver_request(struct driver *v, uint32_t q, const void *data, uint32_t len,
                                  uint32_t room)
{
    driver_put(v, DRIVER_PART, data, len);
    memset(v->memory.host + DRIVER_PART + 0x10000, 0, room);
    driver_part(v, q, 0, DRIVER_BASE + DRIVER_PART, len, room ? 1 : 0, 1);
    driver_part(v, q, 1, DRIVER_BASE + DRIVER_PART + 0x10000, room, 2, 0);
    driver_offer(v, q, 0);
    device_notify(v->device, q);
}
/* A piece of a fuzzer's input as a packet: two bytes say its length, where the mask has
 * bits; the others are the caller's. Returns how much of the input it was. */
static inline size_t driver_packet(struct driver *v, uint8_t mask, const uint8_t *data, size_t size)
{
    size_t len = data[0] | (size_t)(data[1] & mask) << 8;
    if (len > size - 2)
        len = size - 2;
    if (len > 0)
        driver_request(v, 1, data + 2, (uint32_t)len, 0);
    return len + 2;
}

#define DRIVER_ANSWER(v) ((v)->memory.host + DRIVER_PART + 0x10000)
