/* Random ids, tokens, UUIDs and numbers from the kernel's generator. */
#include "daemon/base/random.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

/* Ends the process if the kernel has none to give: an id that can be guessed is worse. */
static void random_fill(void *out, size_t len)
{
    char *at = out;
    while (len > 0) {
        ssize_t n = getrandom(at, len, 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            abort();
        at += n;
        len -= (size_t)n;
    }
}

void random_id(char *out, size_t len)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789";
    uint8_t bytes[64];
    size_t made = 0;
    while (made < len) {
        random_fill(bytes, sizeof bytes);
        /* 252 is the greatest multiple of 36 in a byte: beyond it some letters would be likelier.
         */
        for (size_t i = 0; i < sizeof bytes && made < len; i++)
            if (bytes[i] < 252)
                out[made++] = letters[bytes[i] % 36];
    }
    out[len] = '\0';
}

void random_token(char out[static 44])
{
    static const char letters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    uint8_t bytes[33] = {0}; /* the last one pads to a multiple of three */
    random_fill(bytes, 32);
    for (unsigned i = 0; i < 43; i++) {
        unsigned bit = i * 6, at = bit / 8, shift = bit % 8;
        unsigned two = ((unsigned)bytes[at] << 8) | bytes[at + 1];
        out[i] = letters[(two >> (10 - shift)) & 63];
    }
    out[43] = '\0';
}

void random_uuid(char out[static 37])
{
    uint8_t b[16];
    random_fill(b, sizeof b);
    b[6] = (uint8_t)((b[6] & 0x0f) | 0x40);
    b[8] = (uint8_t)((b[8] & 0x3f) | 0x80);
    snprintf(out, 37, "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", b[0],
             b[1], b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13],
             b[14], b[15]);
}

uint32_t random_below(uint32_t bound)
{
    uint32_t n;
    random_fill(&n, sizeof n);
    return bound ? (uint32_t)(((uint64_t)n * bound) >> 32) : 0;
}
