/* The vectors are the examples of FIPS 180-4 and the NIST short and long message tests. */
#include "base/sha256.h"

#include "base/cleanup.h"
#include "base/sha256_machine.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void check(const void *data, size_t len, const char *expected)
{
    char hex[SHA256_HEX_SIZE];
    sha256_hex(data, len, hex);
    cr_assert_str_eq(hex, expected);
}

Test(sha256, nist_examples)
{
    check("", 0, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    check("abc", 3, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    check("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 56,
          "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    check("abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmn"
          "hijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqrstu",
          112, "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1");
}

Test(sha256, nist_short_messages)
{
    check("\xd3", 1, "28969cdfa74a12c82f3bad960b0b000aca2ac329deea5c2328ebc6f2ba9802c1");
    check("\x11\xaf", 2, "5ca7133fa735326081558ac312c620eeca9970d1e70a4b95533d956f072d1f98");
    check("\x74\xba\x25\x21", 4,
          "b16aa56be3880d18cd41e68384cf1ec8c17680c45a02b1575dc1518923ae8b0e");
}

Test(sha256, a_million_letters)
{
    cleanup_free char *text = malloc(1000000);
    memset(text, 'a', 1000000);
    check(text, 1000000, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

Test(sha256, pieces_make_no_difference)
{
    uint8_t data[300];
    char whole[SHA256_HEX_SIZE];
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (uint8_t)(i * 7);
    sha256_hex(data, sizeof data, whole);
    for (size_t step = 1; step < 130; step++) {
        struct sha256 h;
        uint8_t sum[SHA256_SIZE];
        char hex[SHA256_HEX_SIZE];
        sha256_init(&h);
        for (size_t at = 0; at < sizeof data; at += step)
            sha256_add(&h, data + at, step < sizeof data - at ? step : sizeof data - at);
        sha256_finish(&h, sum);
        for (size_t i = 0; i < sizeof sum; i++)
            snprintf(hex + 2 * i, 3, "%02x", sum[i]);
        cr_assert_str_eq(hex, whole);
    }
}

/* Lengths around the block and padding borders, each folded into one sum; compared with
 * sha256sum(1). */
Test(sha256, every_length_around_a_block)
{
    uint8_t data[130];
    struct sha256 all;
    uint8_t sum[SHA256_SIZE];
    memset(data, 'x', sizeof data);
    sha256_init(&all);
    for (size_t len = 0; len <= sizeof data; len++) {
        char hex[SHA256_HEX_SIZE];
        sha256_hex(data, len, hex);
        sha256_add(&all, hex, 64);
    }
    sha256_finish(&all, sum);
    char hex[SHA256_HEX_SIZE];
    for (size_t i = 0; i < sizeof sum; i++)
        snprintf(hex + 2 * i, 3, "%02x", sum[i]);
    cr_assert_str_eq(hex, "87aca1c44bc7ba8897768170211f0a02063de70801131ff86c7edb9ce32c6a50");
}

/* A stream of bytes that repeats nothing within a test. */
static uint8_t next_byte(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (uint8_t)(*seed >> 56);
}

Test(sha256, the_processor_and_arithmetic_agree)
{
    uint64_t seed = 1;
    for (unsigned n = 0; n < 2000; n++) {
        uint32_t a[8], b[8];
        uint8_t data[5 * 64 + 1];
        size_t blocks = n % 5 + 1, off = n & 1; /* also where nothing is aligned */
        for (size_t i = 0; i < sizeof data; i++)
            data[i] = next_byte(&seed);
        for (size_t i = 0; i < sizeof a; i++)
            ((uint8_t *)a)[i] = next_byte(&seed);
        memcpy(b, a, sizeof b);
        if (!sha256_blocks_machine(a, data + off, blocks))
            cr_skip_test("this processor has no instructions for it");
        sha256_blocks_portable(b, data + off, blocks);
        cr_assert_arr_eq(a, b, sizeof a, "round %u", n);
    }
}

Test(sha256, in_pieces_it_is_the_same)
{
    uint8_t data[300], sum[SHA256_SIZE], whole[SHA256_SIZE];
    uint64_t seed = 2;
    struct sha256 h;
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = next_byte(&seed);
    sha256_init(&h);
    sha256_add(&h, data, sizeof data);
    sha256_finish(&h, whole);
    for (size_t a = 0; a <= 130; a++)
        for (size_t b = a; b <= sizeof data; b += 7) {
            sha256_init(&h);
            sha256_add(&h, data, a);
            sha256_add(&h, data + a, b - a);
            sha256_add(&h, data + b, sizeof data - b);
            sha256_finish(&h, sum);
            cr_assert_arr_eq(sum, whole, sizeof sum, "%zu and %zu", a, b);
        }
}
