/* SHA-256 by the processor's own instructions: some seven times as fast, which shows where whole
 * kernels, programs and images are named by their hash at every start.
 *
 * aarch64 has them nearly everywhere, x86-64 since Zen and Ice Lake. */
#include "base/sha256_machine.h"

#include <string.h>

#if defined(__aarch64__)
#include <sys/auxv.h>

#define HAS_SHA2 (1u << 6) /* HWCAP_SHA2, asm/hwcap.h */

typedef uint32_t v4 __attribute__((vector_size(16)));

/* Four rounds: the first half of the working variables. */
static v4 rounds_abcd(v4 abcd, v4 efgh, v4 wk)
{
    __asm__(".arch_extension sha2\n\tsha256h %q0, %q1, %2.4s" : "+w"(abcd) : "w"(efgh), "w"(wk));
    return abcd;
}

/* The second half; abcd is what it was before these rounds. */
static v4 rounds_efgh(v4 efgh, v4 abcd, v4 wk)
{
    __asm__(".arch_extension sha2\n\tsha256h2 %q0, %q1, %2.4s" : "+w"(efgh) : "w"(abcd), "w"(wk));
    return efgh;
}

/* The schedule: from sixteen words, the next four. */
static v4 next_words(v4 w0, v4 w1, v4 w2, v4 w3)
{
    __asm__(".arch_extension sha2\n\tsha256su0 %0.4s, %1.4s\n\tsha256su1 %0.4s, %2.4s, %3.4s"
            : "+w"(w0)
            : "w"(w1), "w"(w2), "w"(w3));
    return w0;
}

static v4 load_words(const uint8_t *p)
{
    v4 words;
    memcpy(&words, p, sizeof words);
    __asm__("rev32 %0.16b, %0.16b" : "+w"(words));
    return words;
}

static void block(v4 state[static 2], const uint8_t *p)
{
    v4 w[4], wk, abcd = state[0], efgh = state[1];
    for (unsigned i = 0; i < 4; i++)
        w[i] = load_words(p + 16 * i);
    for (unsigned i = 0; i < 16; i++) {
        v4 before = abcd;
        memcpy(&wk, sha256_constants + 4 * i, sizeof wk);
        wk += w[i & 3];
        if (i < 12)
            w[i & 3] = next_words(w[i & 3], w[(i + 1) & 3], w[(i + 2) & 3], w[(i + 3) & 3]);
        abcd = rounds_abcd(abcd, efgh, wk);
        efgh = rounds_efgh(efgh, before, wk);
    }
    state[0] += abcd;
    state[1] += efgh;
}

bool sha256_blocks_machine(uint32_t state[static 8], const uint8_t *data, size_t blocks)
{
    v4 now[2];
    if (!(getauxval(AT_HWCAP) & HAS_SHA2))
        return false;
    memcpy(now, state, sizeof now);
    for (size_t i = 0; i < blocks; i++)
        block(now, data + 64 * i);
    memcpy(state, now, sizeof now);
    return true;
}
#elif defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#include <stdatomic.h>

#define WITH_SHA __attribute__((target("sha,sse4.1,ssse3")))

/* They work on the registers that every x86-64 has and every kernel keeps. Asked for once: a
 * guest's processor has to ask its host each time. */
static bool have_them(void)
{
    static atomic_int known; /* 0: not asked yet */
    unsigned a, b, c, d;
    int have = atomic_load_explicit(&known, memory_order_relaxed);
    if (!have) {
        have = __get_cpuid(1, &a, &b, &c, &d) && (c & bit_SSE4_1) && (c & bit_SSSE3) &&
                       __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & bit_SHA)
                   ? 1
                   : -1;
        atomic_store_explicit(&known, have, memory_order_relaxed);
    }
    return have > 0;
}

/* Both halves of the state as the instructions want them: a, b, e, f and c, d, g, h. */
struct halves {
    __m128i abef, cdgh;
};

WITH_SHA static struct halves load_state(const uint32_t state[static 8])
{
    __m128i low = _mm_loadu_si128((const __m128i *)(const void *)state);
    __m128i high = _mm_loadu_si128((const __m128i *)(const void *)(state + 4));
    low = _mm_shuffle_epi32(low, 0xb1);
    high = _mm_shuffle_epi32(high, 0x1b);
    return (struct halves){_mm_alignr_epi8(low, high, 8), _mm_blend_epi16(high, low, 0xf0)};
}

WITH_SHA static void store_state(uint32_t state[static 8], struct halves h)
{
    __m128i feba = _mm_shuffle_epi32(h.abef, 0x1b), dchg = _mm_shuffle_epi32(h.cdgh, 0xb1);
    _mm_storeu_si128((__m128i *)(void *)state, _mm_blend_epi16(feba, dchg, 0xf0));
    _mm_storeu_si128((__m128i *)(void *)(state + 4), _mm_alignr_epi8(dchg, feba, 8));
}

WITH_SHA static __m128i load_words(const uint8_t *p)
{
    const __m128i turned = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
    return _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)(const void *)p), turned);
}

/* The schedule: from sixteen words, the next four. */
WITH_SHA static __m128i next_words(__m128i w0, __m128i w1, __m128i w2, __m128i w3)
{
    __m128i sum = _mm_add_epi32(_mm_sha256msg1_epu32(w0, w1), _mm_alignr_epi8(w3, w2, 4));
    return _mm_sha256msg2_epu32(sum, w3);
}

WITH_SHA static struct halves add_block(struct halves h, const uint8_t *p)
{
    struct halves before = h;
    __m128i w[4];
    for (unsigned i = 0; i < 4; i++)
        w[i] = load_words(p + 16 * i);
    for (unsigned i = 0; i < 16; i++) {
        __m128i wk = _mm_loadu_si128((const __m128i *)(const void *)(sha256_constants + 4 * i));
        wk = _mm_add_epi32(wk, w[i & 3]);
        if (i < 12)
            w[i & 3] = next_words(w[i & 3], w[(i + 1) & 3], w[(i + 2) & 3], w[(i + 3) & 3]);
        /* Two rounds each: what comes out is the first half, and the old one the second. */
        h.cdgh = _mm_sha256rnds2_epu32(h.cdgh, h.abef, wk);
        h.abef = _mm_sha256rnds2_epu32(h.abef, h.cdgh, _mm_shuffle_epi32(wk, 0x0e));
    }
    return (struct halves){_mm_add_epi32(h.abef, before.abef), _mm_add_epi32(h.cdgh, before.cdgh)};
}

WITH_SHA static void add_blocks(uint32_t state[static 8], const uint8_t *data, size_t blocks)
{
    struct halves now = load_state(state);
    for (size_t i = 0; i < blocks; i++)
        now = add_block(now, data + 64 * i);
    store_state(state, now);
}

bool sha256_blocks_machine(uint32_t state[static 8], const uint8_t *data, size_t blocks)
{
    if (!have_them())
        return false;
    add_blocks(state, data, blocks);
    return true;
}
#else
bool sha256_blocks_machine(uint32_t state[static 8], const uint8_t *data, size_t blocks)
{
    (void)state, (void)data, (void)blocks;
    return false;
}
#endif
