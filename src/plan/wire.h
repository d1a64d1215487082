/* The bytes of a plan, shared by encoder and decoder. All fields are in host order: a plan never
 * leaves the machine. */
#pragma once

#include <stdint.h>

#define PLAN_MAGIC 0x31676c70u /* "plg1" */

struct wire_head {
    uint32_t magic;
    uint32_t count;
};

/* Followed by a (with NUL), b (with NUL), data, then zeros up to a multiple of 8. A length of 0
 * means NULL. */
struct wire_op {
    uint32_t kind;
    uint32_t a_len; /* including the NUL */
    uint32_t b_len;
    uint32_t data_len;
    uint64_t num[4];
};
