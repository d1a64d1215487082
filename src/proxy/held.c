/* The sum of what is held for clients: see held.h. One thread. */
#include "proxy/held.h"

static size_t all;

bool held_set(struct held *h, size_t bytes)
{
    size_t others = all - h->bytes;
    if (bytes > h->bytes && (bytes > HELD_ALL || others > HELD_ALL - bytes))
        return false;
    all = others + bytes;
    h->bytes = bytes;
    return true;
}
