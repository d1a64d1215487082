/* A virtqueue (split ring): what the driver in the guest offers, one chain of buffers after the
 * other, and what the device gives back.
 *
 * VM-3  The geometry of a ring is checked when it becomes ready, and never changes after that.
 * VM-4  Work for one notification is bounded: a chain has at most as many parts as the ring has
 * entries, and at most a ring's worth of chains is taken. */
#pragma once

#include "engines/vm/memory.h"
#include "engines/vm/state.h"

#include <sys/uio.h>

#define QUEUE_SIZE_MAX  256
#define QUEUE_PARTS_MAX 288

struct queue {
    const struct guest_memory *memory;
    /* As the driver wrote them; of use only to queue_start. */
    uint32_t size;
    uint64_t table_at, offered_at, used_at;
    /* Since it is ready. */
    bool ready;
    uint32_t count;
    const uint8_t *table;
    uint8_t *offered, *used;
    uint16_t next;      /* the next that is offered */
    uint16_t used_next; /* our own count: the guest's copy is never read back */
    uint16_t told;      /* used_next when the driver was last interrupted */
};

/* One request: first what the device reads, then what it writes. The parts lie in guest memory. */
struct chain {
    uint16_t head;
    unsigned in_count, out_count;
    size_t in_len, out_len;
    struct iovec in[QUEUE_PARTS_MAX];  /* the device reads */
    struct iovec out[QUEUE_PARTS_MAX]; /* the device writes */
};

/* False: size or addresses are not those of a ring. */
bool queue_start(struct queue *q);
/* 1: a chain; 0: nothing is offered; -1: the ring is malformed, and the device is to fail. */
int queue_take(struct queue *q, struct chain *ret);
void queue_give(struct queue *q, uint16_t head, uint32_t written);
/* Something was given back since the last time, and the driver wants to hear of it. */
bool queue_tell(struct queue *q);

void queue_save(const struct queue *q, struct state_writer *w);
/* Into a queue that is not ready. False: it is none that could have been saved. */
bool queue_restore(struct queue *q, struct state_reader *r);

/* Copy from and to the parts of a chain, at an offset; returns how much there was. */
size_t chain_read(const struct chain *c, size_t at, void *to, size_t len);
size_t chain_write(const struct chain *c, size_t at, const void *from, size_t len);
/* The parts of the room to write, from an offset on, at most len bytes; returns their number. */
unsigned chain_room(const struct chain *c, size_t at, size_t len, struct iovec *parts);
/* The same of what there is to read. */
unsigned chain_data(const struct chain *c, size_t at, size_t len, struct iovec *parts);
