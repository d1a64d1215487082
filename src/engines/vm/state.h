/* The state of a machine that was parked, apart from its memory: a sequence of blocks, each behind
 * its tag and its length. It is written once, into memory, and read once, in the same order.
 *
 * VM-27  What a clone reads of it is checked like any input: a reader that meets another tag, or
 * another length than it has room for, fails, and stays failed; numbers in a block are checked by
 * whom they belong to. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define STATE_MAX (1u << 20) /* of all blocks together */

/* Four letters, to be seen in a dump. */
#define STATE_TAG(a, b, c, d)                                                                      \
    ((uint32_t)(a) | (uint32_t)(b) << 8 | (uint32_t)(c) << 16 | (uint32_t)(d) << 24)

struct state_writer {
    uint8_t *data;
    size_t room, len;
    bool failed; /* there was no room */
};
struct state_reader {
    const uint8_t *data;
    size_t len, at;
    bool failed;
};

/* len 0 is a block as well. */
void state_put(struct state_writer *w, uint32_t tag, const void *data, size_t len);
/* Exactly this length; else nothing is written to `data`. */
bool state_get(struct state_reader *r, uint32_t tag, void *data, size_t len);
/* As many items as the block has, at most `max`. */
bool state_get_counted(struct state_reader *r, uint32_t tag, void *data, size_t item_size,
                       size_t max, size_t *count);
/* A text without its end; of at most `room` - 1 bytes, none of them 0, and ended here. */
bool state_get_text(struct state_reader *r, uint32_t tag, char *text, size_t room);
/* Nothing failed, and nothing is left. */
bool state_ended(const struct state_reader *r);
