#include "base/sha1.h"

#include <string.h>

static inline uint32_t rotate(uint32_t x, unsigned n)
{
    return x << n | x >> (32 - n);
}

static inline uint32_t load_be32(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static void store_be32(uint8_t *p, uint32_t x)
{
    p[0] = (uint8_t)(x >> 24);
    p[1] = (uint8_t)(x >> 16);
    p[2] = (uint8_t)(x >> 8);
    p[3] = (uint8_t)x;
}

/* The five working variables of the standard. */
struct vars {
    uint32_t a, b, c, d, e;
};

static inline void step(struct vars *v, uint32_t mixed, uint32_t kw)
{
    uint32_t t = rotate(v->a, 5) + mixed + v->e + kw;
    v->e = v->d;
    v->d = v->c;
    v->c = rotate(v->b, 30);
    v->b = v->a;
    v->a = t;
}

static inline uint32_t choice(const struct vars *v)
{
    return v->d ^ (v->b & (v->c ^ v->d));
}

static inline uint32_t parity(const struct vars *v)
{
    return v->b ^ v->c ^ v->d;
}

static inline uint32_t majority(const struct vars *v)
{
    return (v->b & v->c) | (v->d & (v->b | v->c));
}

static void compress(struct sha1 *h, const uint8_t block[static 64])
{
    uint32_t w[80];
    for (int i = 0; i < 16; i++)
        w[i] = load_be32(block + 4 * i);
    for (int i = 16; i < 80; i++)
        w[i] = rotate(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
    struct vars v = {h->state[0], h->state[1], h->state[2], h->state[3], h->state[4]};
    for (int i = 0; i < 20; i++)
        step(&v, choice(&v), 0x5a827999 + w[i]);
    for (int i = 20; i < 40; i++)
        step(&v, parity(&v), 0x6ed9eba1 + w[i]);
    for (int i = 40; i < 60; i++)
        step(&v, majority(&v), 0x8f1bbcdc + w[i]);
    for (int i = 60; i < 80; i++)
        step(&v, parity(&v), 0xca62c1d6 + w[i]);
    h->state[0] += v.a;
    h->state[1] += v.b;
    h->state[2] += v.c;
    h->state[3] += v.d;
    h->state[4] += v.e;
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
