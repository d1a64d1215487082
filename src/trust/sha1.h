/* SHA-1 (FIPS 180-4). For formats that demand it, never as a promise of ours. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define SHA1_SIZE 20

struct sha1 {
    uint32_t state[5];
    uint64_t length; /* bytes seen so far */
    uint8_t block[64];
};

void sha1_init(struct sha1 *h);
void sha1_add(struct sha1 *h, const void *data, size_t len);
/* Ends the computation; h must be initialised again before it is used again. */
void sha1_finish(struct sha1 *h, uint8_t out[static SHA1_SIZE]);
