/* SHA-256 (FIPS 180-4). */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define SHA256_SIZE     32
#define SHA256_HEX_SIZE 65 /* with the final NUL */

struct sha256 {
    uint32_t state[8];
    uint64_t length; /* bytes seen so far */
    uint8_t block[64];
};

void sha256_init(struct sha256 *h);
void sha256_add(struct sha256 *h, const void *data, size_t len);
/* Ends the computation; h must be initialised again before it is used again. */
void sha256_finish(struct sha256 *h, uint8_t out[static SHA256_SIZE]);

/* In one go, as lower-case hexadecimal text. */
void sha256_hex(const void *data, size_t len, char out[static SHA256_HEX_SIZE]);
