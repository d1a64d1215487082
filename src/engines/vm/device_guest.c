/* The registers of a virtio device. Offsets, widths and values are the guest's. */
#include "engines/vm/device.h"

#include <string.h>

enum {
    REG_MAGIC = 0x00,
    REG_VERSION = 0x04,
    REG_DEVICE = 0x08,
    REG_VENDOR = 0x0c,
    REG_FEATURES = 0x10,
    REG_FEATURES_PAGE = 0x14,
    REG_DRIVER = 0x20,
    REG_DRIVER_PAGE = 0x24,
    REG_QUEUE = 0x30,
    REG_QUEUE_MAX = 0x34,
    REG_QUEUE_SIZE = 0x38,
    REG_QUEUE_READY = 0x44,
    REG_INTERRUPTS = 0x60,
    REG_STATUS = 0x70,
    REG_TABLE = 0x80, /* low and high word each */
    REG_OFFERED = 0x90,
    REG_USED = 0xa0,
    REG_SHARED_FIRST = 0xb0, /* shared memory: there is none */
    REG_SHARED_LAST = 0xbc,
    REG_CONFIG = 0x100,
};
enum { STATUS_DRIVER_OK = 4, STATUS_FEATURES_OK = 8, STATUS_NEEDS_RESET = 64, STATUS_KNOWN = 0xcf };

#define MAGIC            0x74726976u
#define VENDOR           0x67697262u
#define FEATURE_VERSION1 (1ull << 32)
#define INTERRUPT_QUEUE  1u

void device_init(struct device *d, const struct guest_memory *memory)
{
    for (unsigned i = 0; i < DEVICE_QUEUES_MAX; i++)
        d->queues[i].memory = memory;
}

bool device_live(const struct device *d)
{
    return (d->status & STATUS_DRIVER_OK) && !d->failed;
}

void device_fail(struct device *d)
{
    d->failed = true;
    d->status |= STATUS_NEEDS_RESET;
}

static void reset(struct device *d)
{
    const struct guest_memory *memory = d->queues[0].memory;
    d->status = d->interrupts = 0;
    d->features_page = d->driver_page = d->selected = 0;
    d->accepted = 0;
    d->failed = false;
    memset(d->queues, 0, sizeof d->queues);
    device_init(d, memory);
    if (d->reset)
        d->reset(d);
}

static uint32_t read_config(const struct device *d, uint32_t offset, unsigned width,
                            uint8_t data[8])
{
    if (width <= 8 && offset <= DEVICE_CONFIG_MAX && width <= DEVICE_CONFIG_MAX - offset)
        memcpy(data, d->config + offset, width);
    return 0;
}

static uint32_t read_register(const struct device *d, uint32_t offset)
{
    const struct queue *q = d->selected < d->queue_count ? &d->queues[d->selected] : NULL;
    switch (offset) {
    case REG_MAGIC:
        return MAGIC;
    case REG_VERSION:
        return 2;
    case REG_DEVICE:
        return d->id;
    case REG_VENDOR:
        return VENDOR;
    case REG_FEATURES:
        return d->features_page == 1 ? (uint32_t)(FEATURE_VERSION1 >> 32) : 0;
    case REG_QUEUE_MAX:
        return q ? QUEUE_SIZE_MAX : 0;
    case REG_QUEUE_READY:
        return q && q->ready;
    case REG_INTERRUPTS:
        return d->interrupts;
    case REG_STATUS:
        return d->status;
    default:
        return offset >= REG_SHARED_FIRST && offset <= REG_SHARED_LAST ? ~0u : 0;
    }
}

uint32_t device_read(const struct device *d, uint32_t offset, unsigned width, uint8_t data[8])
{
    memset(data, 0, 8);
    if (offset >= REG_CONFIG)
        return read_config(d, offset - REG_CONFIG, width, data);
    uint32_t value = width == 4 ? read_register(d, offset) : 0;
    memcpy(data, &value, sizeof value);
    return value;
}

static void set_half(uint64_t *address, bool high, uint32_t value)
{
    *address = high ? (*address & 0xffffffffull) | (uint64_t)value << 32
                    : (*address & ~0xffffffffull) | value;
}

/* VM-3: what a ring is made of can be said until it is ready, and not while the device works. */
static void write_queue(struct device *d, uint32_t offset, uint32_t value)
{
    struct queue *q = d->selected < d->queue_count ? &d->queues[d->selected] : NULL;
    if (!q || q->ready || d->failed || (d->status & STATUS_DRIVER_OK))
        return;
    bool high = (offset & 4) != 0;
    switch (offset & ~4u) {
    case REG_TABLE:
        set_half(&q->table_at, high, value);
        break;
    case REG_OFFERED:
        set_half(&q->offered_at, high, value);
        break;
    case REG_USED:
        set_half(&q->used_at, high, value);
        break;
    }
    if (offset == REG_QUEUE_SIZE)
        q->size = value;
    if (offset == REG_QUEUE_READY && value && !queue_start(q))
        device_fail(d);
}

static void write_features(struct device *d, uint32_t value)
{
    if (d->driver_page < 2 && !(d->status & STATUS_FEATURES_OK)) {
        unsigned shift = 32 * d->driver_page;
        d->accepted = (d->accepted & ~(0xffffffffull << shift)) | (uint64_t)value << shift;
    }
}

static void write_status(struct device *d, uint32_t value)
{
    if (value == 0) {
        reset(d);
        return;
    }
    if (d->failed)
        return;
    /* A driver that accepts what was never offered, or does without version 1, is not ours. */
    if (d->accepted != FEATURE_VERSION1)
        value &= ~(uint32_t)(STATUS_FEATURES_OK | STATUS_DRIVER_OK);
    if (!(value & STATUS_FEATURES_OK))
        value &= ~(uint32_t)STATUS_DRIVER_OK;
    d->status |= value & STATUS_KNOWN & ~(uint32_t)STATUS_NEEDS_RESET;
}

void device_notify(struct device *d, uint32_t queue)
{
    if (device_live(d) && queue < d->queue_count && d->queues[queue].ready)
        d->notify(d, queue);
}

void device_write(struct device *d, uint32_t offset, unsigned width, const uint8_t data[8])
{
    uint32_t value;
    if (width != 4 || offset >= REG_CONFIG)
        return;
    memcpy(&value, data, sizeof value);
    switch (offset) {
    case REG_FEATURES_PAGE:
        d->features_page = value;
        break;
    case REG_DRIVER_PAGE:
        d->driver_page = value;
        break;
    case REG_DRIVER:
        write_features(d, value);
        break;
    case REG_QUEUE:
        d->selected = value;
        break;
    case DEVICE_NOTIFY:
        device_notify(d, value);
        break;
    case DEVICE_ACKNOWLEDGE: /* see device_tell */
        break;
    case REG_STATUS:
        write_status(d, value);
        break;
    default:
        write_queue(d, offset, value);
    }
}

bool device_take(struct device *d, unsigned queue, struct chain *ret)
{
    if (!device_live(d))
        return false;
    int got = queue_take(&d->queues[queue], ret);
    if (got < 0)
        device_fail(d);
    return got > 0;
}

/* Interrupts have one cause here, and each of them makes the driver look at all of its queues. So
 * the cause stands for good after the first one, and that the driver has seen it need not be heard:
 * that takes one of the two exits off each interrupt. */
void device_tell(struct device *d, unsigned queue)
{
    if (!device_live(d) || !queue_tell(&d->queues[queue]))
        return;
    d->interrupts |= INTERRUPT_QUEUE;
    if (d->interrupt)
        d->interrupt(d);
}

#define TAG_DEVICE STATE_TAG('d', 'e', 'v', 'i')

struct device_state {
    uint64_t accepted;
    uint32_t id, queue_count, status, interrupts, features_page, driver_page, selected, zero;
};

void device_save(const struct device *d, struct state_writer *w)
{
    const struct device_state s = {.accepted = d->accepted,
                                   .id = d->id,
                                   .queue_count = d->queue_count,
                                   .status = d->status,
                                   .interrupts = d->interrupts,
                                   .features_page = d->features_page,
                                   .driver_page = d->driver_page,
                                   .selected = d->selected};
    state_put(w, TAG_DEVICE, &s, sizeof s);
    for (unsigned i = 0; i < d->queue_count; i++)
        queue_save(&d->queues[i], w);
}

/* VM-5: only a state that a driver can bring about by setting the device up in the order of the
 * specification. */
bool device_restore(struct device *d, struct state_reader *r)
{
    const uint32_t works = STATUS_DRIVER_OK | STATUS_FEATURES_OK;
    struct device_state s;
    if (!state_get(r, TAG_DEVICE, &s, sizeof s) || s.id != d->id ||
        s.queue_count != d->queue_count || s.accepted != FEATURE_VERSION1 ||
        (s.status & works) != works || (s.status & STATUS_NEEDS_RESET) ||
        (s.status & ~(uint32_t)STATUS_KNOWN) || (s.interrupts & ~INTERRUPT_QUEUE))
        return false;
    for (unsigned i = 0; i < d->queue_count; i++)
        if (!queue_restore(&d->queues[i], r))
            return false;
    d->accepted = s.accepted;
    d->status = s.status;
    d->interrupts = s.interrupts;
    d->features_page = s.features_page;
    d->driver_page = s.driver_page;
    d->selected = s.selected;
    return true;
}
