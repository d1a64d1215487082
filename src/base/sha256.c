/* SHA-256: the padding, the blocks, and the blocks by arithmetic alone. */
#include "base/sha256.h"

#include "base/be32.h"
#include "base/hex.h"
#include "base/sha256_machine.h"

#include <string.h>

const uint32_t sha256_constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static uint32_t rotate(uint32_t x, unsigned n)
{
    return x >> n | x << (32 - n);
}

/* One round. Instead of moving the eight working variables a to h of the standard each time, the
 * caller names them one place further on. Choice and majority are written with an operation less
 * than the standard has; `ab` is a ^ b, which is the next round's b ^ c. */
#define ROUND(a, b, c, d, e, f, g, h, kw)                                                          \
    do {                                                                                           \
        uint32_t ab = (a) ^ (b);                                                                   \
        (h) +=                                                                                     \
            (rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25)) + ((g) ^ ((e) & ((f) ^ (g)))) + (kw);   \
        (d) += (h);                                                                                \
        (h) += (rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22)) + ((b) ^ (ab & bc));                 \
        bc = ab;                                                                                   \
    } while (0)

/* Of the 64 words of the schedule the last 16 are kept. */
static inline __attribute__((always_inline)) uint32_t next_word(uint32_t w[static 16], unsigned i)
{
    uint32_t x = w[(i + 1) & 15], y = w[(i + 14) & 15];
    uint32_t s0 = rotate(x, 7) ^ rotate(x, 18) ^ x >> 3;
    uint32_t s1 = rotate(y, 17) ^ rotate(y, 19) ^ y >> 10;
    return w[i & 15] += s0 + w[(i + 9) & 15] + s1;
}

/* Everything that the loop needs stays in registers: this runs over each byte of each image. */
static inline __attribute__((always_inline)) void compress(uint32_t state[static 8],
                                                           const uint8_t block[static 64])
{
    uint32_t w[16];
    uint32_t a = state[0], b = state[1], c = state[2], d = state[3];
    uint32_t e = state[4], f = state[5], g = state[6], h = state[7], bc = b ^ c;
#define EIGHT(WORD, i)                                                                             \
    ROUND(a, b, c, d, e, f, g, h, k[i] + WORD(i));                                                 \
    ROUND(h, a, b, c, d, e, f, g, k[(i) + 1] + WORD((i) + 1));                                     \
    ROUND(g, h, a, b, c, d, e, f, k[(i) + 2] + WORD((i) + 2));                                     \
    ROUND(f, g, h, a, b, c, d, e, k[(i) + 3] + WORD((i) + 3));                                     \
    ROUND(e, f, g, h, a, b, c, d, k[(i) + 4] + WORD((i) + 4));                                     \
    ROUND(d, e, f, g, h, a, b, c, k[(i) + 5] + WORD((i) + 5));                                     \
    ROUND(c, d, e, f, g, h, a, b, k[(i) + 6] + WORD((i) + 6));                                     \
    ROUND(b, c, d, e, f, g, h, a, k[(i) + 7] + WORD((i) + 7))
#define FIRST(i) (w[i] = load_be32(block + 4 * (i)))
#define NEXT(i)  next_word(w, i)
    const uint32_t *k = sha256_constants;
    EIGHT(FIRST, 0);
    EIGHT(FIRST, 8);
    for (k += 16; k < sha256_constants + 64; k += 16) {
        EIGHT(NEXT, 0);
        EIGHT(NEXT, 8);
    }
    state[0] += a;
    state[1] += b;
    state[2] += c;
    state[3] += d;
    state[4] += e;
    state[5] += f;
    state[6] += g;
    state[7] += h;
}

#if defined(__x86_64__)
/* The same, with rotations that leave their operand as it is. */
__attribute__((target("bmi,bmi2"))) static void blocks_bmi2(uint32_t state[static 8],
                                                            const uint8_t *data, size_t blocks)
{
    for (size_t i = 0; i < blocks; i++)
        compress(state, data + 64 * i);
}
#endif

void sha256_blocks_portable(uint32_t state[static 8], const uint8_t *data, size_t blocks)
{
    for (size_t i = 0; i < blocks; i++)
        compress(state, data + 64 * i);
}

/* The kernel saves what these instructions need wherever there are general registers. */
static bool add_blocks_fast(uint32_t state[static 8], const uint8_t *data, size_t blocks)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2")) {
        blocks_bmi2(state, data, blocks);
        return true;
    }
#endif
    (void)state, (void)data, (void)blocks;
    return false;
}

static void add_blocks(struct sha256 *h, const uint8_t *data, size_t blocks)
{
    if (!sha256_blocks_machine(h->state, data, blocks) && !add_blocks_fast(h->state, data, blocks))
        sha256_blocks_portable(h->state, data, blocks);
}

void sha256_init(struct sha256 *h)
{
    *h = (struct sha256){.state = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f,
                                   0x9b05688c, 0x1f83d9ab, 0x5be0cd19}};
}

void sha256_add(struct sha256 *h, const void *data, size_t len)
{
    const uint8_t *p = data;
    size_t used = h->length % 64;
    h->length += len;
    if (used > 0) {
        size_t n = len < 64 - used ? len : 64 - used;
        memcpy(h->block + used, p, n);
        p += n;
        len -= n;
        if (used + n < 64)
            return;
        add_blocks(h, h->block, 1);
    }
    if (len >= 64)
        add_blocks(h, p, len / 64);
    if (len % 64)
        memcpy(h->block, p + (len - len % 64), len % 64);
}

void sha256_finish(struct sha256 *h, uint8_t out[static SHA256_SIZE])
{
    static const uint8_t padding[64] = {0x80};
    uint64_t bits = h->length * 8;
    size_t used = h->length % 64;
    uint8_t length[8];
    sha256_add(h, padding, used < 56 ? 56 - used : 120 - used);
    store_be32(length, (uint32_t)(bits >> 32));
    store_be32(length + 4, (uint32_t)bits);
    sha256_add(h, length, sizeof length);
    for (int i = 0; i < 8; i++)
        store_be32(out + 4 * i, h->state[i]);
}

void sha256_hex(const void *data, size_t len, char out[static SHA256_HEX_SIZE])
{
    uint8_t sum[SHA256_SIZE];
    struct sha256 h;
    sha256_init(&h);
    sha256_add(&h, data, len);
    sha256_finish(&h, sum);
    hex_encode(sum, sizeof sum, out);
}
