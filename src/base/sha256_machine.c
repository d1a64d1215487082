/* SHA-256 by the processor's own instructions: some seven times as fast, which shows where whole
 * kernels, programs and images are named by their hash at every start.
 *
 * aarch64 has them nearly everywhere. Those of x86-64 are not used yet: no machine that could show
 * that they are used rightly was at hand. */
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
#else
bool sha256_blocks_machine(uint32_t state[static 8], const uint8_t *data, size_t blocks)
{
    (void)state, (void)data, (void)blocks;
    return false;
}
#endif
