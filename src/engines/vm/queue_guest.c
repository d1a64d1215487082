/* Virtqueues. Everything here lies in memory that the guest writes at the same time: each field is
 * loaded exactly once (load16, load32, load64) and then checked. */
#include "engines/vm/queue.h"

#include <string.h>

#define PART_SIZE     16u
#define PART_NEXT     1u
#define PART_WRITE    2u
#define OFFERED_QUIET 1u /* the driver wants no interrupt */

static uint16_t load16(const uint8_t *at)
{
    return __atomic_load_n((const uint16_t *)(const void *)at, __ATOMIC_ACQUIRE);
}
static uint32_t load32(const uint8_t *at)
{
    return __atomic_load_n((const uint32_t *)(const void *)at, __ATOMIC_RELAXED);
}
static uint64_t load64(const uint8_t *at)
{
    return __atomic_load_n((const uint64_t *)(const void *)at, __ATOMIC_RELAXED);
}
static void store32(uint8_t *at, uint32_t value)
{
    __atomic_store_n((uint32_t *)(void *)at, value, __ATOMIC_RELAXED);
}

bool queue_start(struct queue *q)
{
    uint32_t n = q->size;
    q->ready = false;
    if (n == 0 || n > QUEUE_SIZE_MAX || (n & (n - 1)) != 0)
        return false;
    if ((q->table_at & 15) || (q->offered_at & 1) || (q->used_at & 3))
        return false;
    q->table = memory_range(q->memory, q->table_at, (uint64_t)PART_SIZE * n);
    q->offered = memory_range(q->memory, q->offered_at, 6 + 2ull * n);
    q->used = memory_range(q->memory, q->used_at, 6 + 8ull * n);
    if (!q->table || !q->offered || !q->used)
        return false;
    q->count = n;
    q->next = q->used_next = q->told = 0;
    q->ready = true;
    return true;
}

/* One part of a chain, copied out of the table and checked. -1: nonsense. */
static int take_part(const struct queue *q, uint32_t index, struct chain *c, uint16_t *next)
{
    if (index >= q->count)
        return -1;
    const uint8_t *at = q->table + (size_t)index * PART_SIZE;
    uint64_t address = load64(at);
    uint32_t len = load32(at + 8);
    uint16_t flags = load16(at + 12);
    *next = load16(at + 14);
    void *part = memory_range(q->memory, address, len);
    if (!part || (flags & ~(PART_NEXT | PART_WRITE)))
        return -1;
    if (flags & PART_WRITE) {
        c->out[c->out_count++] = (struct iovec){part, len};
        c->out_len += len;
    } else {
        if (c->out_count > 0)
            return -1; /* what is read comes first */
        c->in[c->in_count++] = (struct iovec){part, len};
        c->in_len += len;
    }
    return flags & PART_NEXT ? 1 : 0;
}

int queue_take(struct queue *q, struct chain *ret)
{
    if (!q->ready)
        return 0;
    uint16_t waiting = (uint16_t)(load16(q->offered + 2) - q->next);
    if (waiting == 0)
        return 0;
    if (waiting > q->count)
        return -1;
    uint16_t index = load16(q->offered + 4 + 2u * (q->next & (q->count - 1)));
    ret->head = index;
    ret->in_count = ret->out_count = 0;
    ret->in_len = ret->out_len = 0;
    q->next++;
    for (uint32_t seen = 0; seen < q->count; seen++) {
        int more = take_part(q, index, ret, &index);
        if (more <= 0)
            return more < 0 ? -1 : 1;
    }
    return -1; /* a loop */
}

void queue_give(struct queue *q, uint16_t head, uint32_t written)
{
    if (!q->ready)
        return;
    uint8_t *at = q->used + 4 + 8u * (q->used_next & (q->count - 1));
    store32(at, head);
    store32(at + 4, written);
    q->used_next++;
    __atomic_store_n((uint16_t *)(void *)(q->used + 2), q->used_next, __ATOMIC_RELEASE);
}

bool queue_tell(struct queue *q)
{
    if (!q->ready || q->told == q->used_next)
        return false;
    q->told = q->used_next;
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    return !(load16(q->offered) & OFFERED_QUIET);
}

#define TAG_QUEUE STATE_TAG('q', 'u', 'e', 'u')

struct queue_state {
    uint64_t table_at, offered_at, used_at;
    uint32_t size, ready;
    uint16_t next, used_next, told, zero;
};

void queue_save(const struct queue *q, struct state_writer *w)
{
    const struct queue_state s = {.table_at = q->table_at,
                                  .offered_at = q->offered_at,
                                  .used_at = q->used_at,
                                  .size = q->size,
                                  .ready = q->ready,
                                  .next = q->next,
                                  .used_next = q->used_next,
                                  .told = q->told};
    state_put(w, TAG_QUEUE, &s, sizeof s);
}

/* VM-3 holds for a clone's as well. */
bool queue_restore(struct queue *q, struct state_reader *r)
{
    struct queue_state s;
    if (!state_get(r, TAG_QUEUE, &s, sizeof s) || s.ready > 1 || s.zero != 0)
        return false;
    q->table_at = s.table_at;
    q->offered_at = s.offered_at;
    q->used_at = s.used_at;
    q->size = s.size;
    if (!s.ready)
        return true;
    if (!queue_start(q))
        return false;
    q->next = s.next;
    q->used_next = s.used_next;
    q->told = s.told;
    return true;
}

static unsigned slice(const struct iovec *from, unsigned count, size_t at, size_t len,
                      struct iovec *parts)
{
    unsigned n = 0;
    for (unsigned i = 0; i < count && len > 0; i++) {
        if (at >= from[i].iov_len) {
            at -= from[i].iov_len;
            continue;
        }
        size_t piece = from[i].iov_len - at;
        if (piece > len)
            piece = len;
        parts[n++] = (struct iovec){(char *)from[i].iov_base + at, piece};
        len -= piece;
        at = 0;
    }
    return n;
}

unsigned chain_room(const struct chain *c, size_t at, size_t len, struct iovec *parts)
{
    return slice(c->out, c->out_count, at, len, parts);
}

unsigned chain_data(const struct chain *c, size_t at, size_t len, struct iovec *parts)
{
    return slice(c->in, c->in_count, at, len, parts);
}

size_t chain_read(const struct chain *c, size_t at, void *to, size_t len)
{
    struct iovec parts[QUEUE_PARTS_MAX];
    size_t done = 0;
    unsigned count = chain_data(c, at, len, parts);
    for (unsigned i = 0; i < count; i++) {
        memcpy((char *)to + done, parts[i].iov_base, parts[i].iov_len);
        done += parts[i].iov_len;
    }
    return done;
}

size_t chain_write(const struct chain *c, size_t at, const void *from, size_t len)
{
    struct iovec parts[QUEUE_PARTS_MAX];
    size_t done = 0;
    unsigned count = chain_room(c, at, len, parts);
    for (unsigned i = 0; i < count; i++) {
        memcpy(parts[i].iov_base, (const char *)from + done, parts[i].iov_len);
        done += parts[i].iov_len;
    }
    return done;
}
