/* Random ids and tokens. From the kernel, never reused. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* `len` lower-case letters and digits, and a NUL. */
void random_id(char *out, size_t len);
/* 43 characters of base64url, 256 bits, and a NUL. */
void random_token(char out[static 44]);
/* As RFC 9562 writes a random one: 36 characters and a NUL. */
void random_uuid(char out[static 37]);
uint32_t random_below(uint32_t bound); /* 0 for 0 */
