/* What clients make the proxy keep of what they have not finished saying: heads of requests,
 * hellos, bodies that are collected. Each is bounded by itself; this is how much all of them have
 * together, since a client can begin thousands and leave each where it is largest.
 *
 * N-10  Memory is bounded whatever a client does. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define HELD_ALL (64u << 20)

/* The part of one who holds something; starts as zero. */
struct held {
    size_t bytes;
};

/* It holds so much from now on. False: there is no room for it, and nothing has changed. */
bool held_set(struct held *h, size_t bytes);
