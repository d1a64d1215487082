#include "base/shake_parse.h"

#include <criterion/criterion.h>

#define MAX 1000

/* A handshake message of `claim` bytes, of which none has come, in a record that says the same. */
#define CLAIM(claim) 22, 3, 1, 0x20, 0, 1, 0, (claim) >> 8, (claim)&255

static bool whole(const uint8_t *data, size_t len, bool changes_cipher)
{
    struct shake s = {0};
    return shake_take(&s, data, len, MAX, changes_cipher);
}

static bool in_pieces(const uint8_t *data, size_t len, bool changes_cipher)
{
    struct shake s = {0};
    bool good = true;
    for (size_t i = 0; i < len; i++)
        good = shake_take(&s, data + i, 1, MAX, changes_cipher);
    return good;
}

static void check(const uint8_t *data, size_t len, bool changes_cipher, bool expected)
{
    cr_assert_eq(whole(data, len, changes_cipher), expected);
    cr_assert_eq(in_pieces(data, len, changes_cipher), expected);
}

#define BYTES(...) (const uint8_t[]){__VA_ARGS__}, sizeof((const uint8_t[]){__VA_ARGS__})

Test(shake, a_claim_is_judged_when_it_is_complete)
{
    check(BYTES(CLAIM(1000)), false, true);
    check(BYTES(CLAIM(1001)), false, false);
    check(BYTES(22, 3, 1, 0, 4, 1, 255, 255), false, true);
    check(BYTES(22, 3, 1, 0, 4, 1, 255, 255, 255), false, false);
}

Test(shake, messages_may_be_spread_and_share_records)
{
    check(BYTES(22, 3, 1, 0, 1, 1, 22, 3, 1, 0, 3, 0, 255, 0), false, false);
    check(BYTES(22, 3, 1, 0, 1, 1, 21, 3, 1, 0, 2, 9, 9, 22, 3, 1, 0, 3, 0, 255, 0), false, false);
    check(BYTES(22, 3, 1, 0, 9, 1, 0, 0, 1, 99, 1, 0, 255, 0), false, false);
    check(BYTES(22, 3, 1, 0, 9, 1, 0, 0, 1, 99, 1, 0, 0, 1), false, true);
    check(BYTES(22, 3, 1, 0, 5, 1, 0, 0, 2, 99, 22, 3, 1, 0, 5, 99, 1, 0, 255, 0), false, false);
}

Test(shake, what_is_encrypted_is_not_judged)
{
    check(BYTES(20, 3, 1, 0, 1, 1, CLAIM(2000)), true, true);
    check(BYTES(20, 3, 1, 0, 1, 1, CLAIM(2000)), false, false); /* of TLS 1.3 it is no change */
    check(BYTES(23, 3, 1, 0, 1, 1, CLAIM(2000)), false, true);
    check(BYTES(21, 3, 1, 0, 9, CLAIM(2000)), false, true);
}

Test(shake, a_refusal_is_for_ever)
{
    struct shake s = {0};
    const uint8_t more[3000] = {0};
    cr_assert_not(shake_take(&s, BYTES(CLAIM(1001)), MAX, false));
    for (int i = 0; i < 3; i++)
        cr_assert_not(shake_take(&s, more, sizeof more, MAX, false));
}
