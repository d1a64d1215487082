/* SHA-1, for formats that demand it. */
#include "trust/sha1.h"

#include "base/be32.h"

#include <string.h>

static inline uint32_t rotate(uint32_t x, unsigned n)
{
    return x << n | x >> (32 - n);
}

#define CHOICE(b, c, d)   ((d) ^ ((b) & ((c) ^ (d))))
#define PARITY(b, c, d)   ((b) ^ (c) ^ (d))
#define MAJORITY(b, c, d) (((b) & (c)) | ((d) & ((b) | (c))))

/* One step of the standard. Instead of moving the five variables along, the next step names them in
 * turned order. */
#define STEP(mix, a, b, c, d, e, kw)                                                               \
    do {                                                                                           \
        (e) += rotate(a, 5) + mix(b, c, d) + (kw);                                                 \
        (b) = rotate(b, 30);                                                                       \
    } while (0)
#define FIVE(mix, k, i)                                                                            \
    do {                                                                                           \
        STEP(mix, a, b, c, d, e, (k) + w[i]);                                                      \
        STEP(mix, e, a, b, c, d, (k) + w[(i) + 1]);                                                \
        STEP(mix, d, e, a, b, c, (k) + w[(i) + 2]);                                                \
        STEP(mix, c, d, e, a, b, (k) + w[(i) + 3]);                                                \
        STEP(mix, b, c, d, e, a, (k) + w[(i) + 4]);                                                \
    } while (0)

static void compress(struct sha1 *h, const uint8_t block[static 64])
{
    uint32_t w[80];
    for (int i = 0; i < 16; i++)
        w[i] = load_be32(block + 4 * i);
    for (int i = 16; i < 80; i++)
        w[i] = rotate(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
    uint32_t a = h->state[0], b = h->state[1], c = h->state[2], d = h->state[3], e = h->state[4];
    for (int i = 0; i < 20; i += 5)
        FIVE(CHOICE, 0x5a827999, i);
    for (int i = 20; i < 40; i += 5)
        FIVE(PARITY, 0x6ed9eba1, i);
    for (int i = 40; i < 60; i += 5)
        FIVE(MAJORITY, 0x8f1bbcdc, i);
    for (int i = 60; i < 80; i += 5)
        FIVE(PARITY, 0xca62c1d6, i);
    h->state[0] += a;
    h->state[1] += b;
    h->state[2] += c;
    h->state[3] += d;
    h->state[4] += e;
}

void sha1_init(struct sha1 *h)
{
    *h = (struct sha1){.state = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0}};
}

void sha1_add(struct sha1 *h, const void *data, size_t len)
{
    const uint8_t *p = data;
    size_t used = h->length % 64;
    h->length += len;
    if (used > 0) {
        size_t n = 64 - used < len ? 64 - used : len;
        memcpy(h->block + used, p, n);
        p += n;
        len -= n;
        if (used + n < 64)
            return;
        compress(h, h->block);
    }
    for (; len >= 64; p += 64, len -= 64)
        compress(h, p);
    if (len > 0)
        memcpy(h->block, p, len);
}

void sha1_finish(struct sha1 *h, uint8_t out[static SHA1_SIZE])
{
    static const uint8_t padding[64] = {0x80};
    uint8_t bits[8];
    store_be32(bits, (uint32_t)(h->length >> 29));
    store_be32(bits + 4, (uint32_t)(h->length << 3));
    sha1_add(h, padding, 1 + (119 - h->length % 64) % 64);
    sha1_add(h, bits, sizeof bits);
    for (int i = 0; i < 5; i++)
        store_be32(out + 4 * i, h->state[i]);
}
