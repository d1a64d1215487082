/* Blocks of 64 bytes for sha256.c, by the processor's own instructions where it has them. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

extern const uint32_t sha256_constants[64];

/* false: this processor has none, and nothing was done. */
bool sha256_blocks_machine(uint32_t state[static 8], const uint8_t *data, size_t blocks);
/* By arithmetic alone: everywhere. */
void sha256_blocks_portable(uint32_t state[static 8], const uint8_t *data, size_t blocks);
