/* A virtio device on virtio-mmio (version 2): its registers, its state and its queues.
 *
 * VM-5  A device is used in order: queues become ready before DRIVER_OK and are what they were then
 * until a reset; nothing is done for a queue before DRIVER_OK. What breaks the order, or a ring,
 * fails the device until it is reset. */
#pragma once

#include "engines/vm/queue.h"

#define DEVICE_QUEUES_MAX 3
#define DEVICE_CONFIG_MAX 64
#define DEVICE_WINDOW     0x200u
#define DEVICE_NOTIFY     0x50u /* the register that the driver writes a queue's number to */
/* The register by which it says that it has seen an interrupt. Nothing depends on it. */
#define DEVICE_ACKNOWLEDGE 0x64u

struct device {
    uint32_t id;
    unsigned queue_count;
    uint8_t config[DEVICE_CONFIG_MAX];
    struct queue queues[DEVICE_QUEUES_MAX];
    uint32_t status, interrupts;
    uint32_t features_page, driver_page, selected;
    uint64_t accepted;
    bool failed;
    /* The device's own: the driver notified a queue; all that was begun is off. */
    void (*notify)(struct device *d, unsigned queue);
    void (*reset)(struct device *d);
    /* Raises the interrupt line. */
    void (*interrupt)(struct device *d);
    void *context; /* of `interrupt` */
};

void device_init(struct device *d, const struct guest_memory *memory);
uint32_t device_read(const struct device *d, uint32_t offset, unsigned width, uint8_t data[8]);
void device_write(struct device *d, uint32_t offset, unsigned width, const uint8_t data[8]);
/* The driver rang for this queue; any number is allowed here. */
void device_notify(struct device *d, uint32_t queue);
/* False once it failed or before it was started. */
bool device_live(const struct device *d);
void device_fail(struct device *d);
/* Takes a chain; false where there is none, or no more. */
bool device_take(struct device *d, unsigned queue, struct chain *ret);
void device_save(const struct device *d, struct state_writer *w);
/* Into a device that was just made. False: it is none that worked when it was saved. */
bool device_restore(struct device *d, struct state_reader *r);
/* After a batch was given back. */
void device_tell(struct device *d, unsigned queue);
