/* A quarter of a long matrix, for every test run; all of it with BRIG_TEST_FULL=1. The quarter is
 * spread, so that it does not follow any one digit of the number: each value of each part of the
 * matrix is met, beside every value of every other. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

static inline bool all_of_it(void)
{
    static int all = -1;
    if (all < 0)
        all = getenv("BRIG_TEST_FULL") != NULL;
    return all;
}

static inline bool in_part(uint64_t n)
{
    return all_of_it() || (n * 0x9e3779b97f4a7c15u) >> 62 == 0;
}

/* What is to be expected of the part, of n in the whole. */
static inline size_t part_of(size_t n)
{
    return all_of_it() ? n : n / 4;
}
