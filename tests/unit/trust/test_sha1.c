/* The vectors are the examples of FIPS 180-4 and of RFC 3174. */
#include "trust/sha1.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void check(const void *data, size_t len, size_t step, const char *expected)
{
    struct sha1 h;
    uint8_t digest[SHA1_SIZE];
    char hex[2 * SHA1_SIZE + 1];
    sha1_init(&h);
    for (size_t i = 0; i < len; i += step)
        sha1_add(&h, (const char *)data + i, step < len - i ? step : len - i);
    sha1_finish(&h, digest);
    for (size_t i = 0; i < SHA1_SIZE; i++)
        snprintf(hex + 2 * i, 3, "%02x", digest[i]);
    cr_assert_str_eq(hex, expected);
}

Test(sha1, examples)
{
    check("", 0, 1, "da39a3ee5e6b4b0d3255bfef95601890afd80709");
    check("abc", 3, 3, "a9993e364706816aba3e25717850c26c9cd0d89d");
    check("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 56, 56,
          "84983e441c3bd26ebaae4aa1f95129e5e54670f1");
    char *text = malloc(1000000);
    memset(text, 'a', 1000000);
    for (size_t step = 1; step < 200; step += 37)
        check(text, 1000000, step, "34aa973cd4c4daa4f61eeb2bdbad27316534016f");
    free(text);
}

/* Every length around the borders of a block, against one another. */
Test(sha1, pieces_give_the_same_as_the_whole)
{
    uint8_t data[200], whole[SHA1_SIZE], pieces[SHA1_SIZE];
    struct sha1 h;
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (uint8_t)(i * 31);
    for (size_t len = 0; len < sizeof data; len++)
        for (size_t cut = 0; cut <= len; cut += 7) {
            sha1_init(&h);
            sha1_add(&h, data, len);
            sha1_finish(&h, whole);
            sha1_init(&h);
            sha1_add(&h, data, cut);
            sha1_add(&h, data + cut, len - cut);
            sha1_finish(&h, pieces);
            cr_assert_arr_eq(whole, pieces, SHA1_SIZE);
        }
}
