#include "base/hex.h"

#include <criterion/criterion.h>
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

Test(hex, digits_are_what_the_library_takes_for_digits)
{
    for (int c = -129; c < 400; c++) {
        bool digit = c >= 0 && c < 128 && isxdigit(c);
        int value = digit ? (int)strtol((char[]){(char)c, '\0'}, NULL, 16) : -1;
        cr_expect_eq(hex_digit(c), value, "%d", c);
        cr_expect_eq(hex_digit_lower(c), c >= 'A' && c <= 'F' ? -1 : value, "%d", c);
    }
}

Test(hex, a_byte_is_two_digits_and_a_text_may_end_before_them)
{
    cr_assert_eq(hex_byte("fF"), 0xff);
    cr_assert_eq(hex_byte("0a"), 10);
    cr_assert_eq(hex_byte("00"), 0);
    cr_assert_eq(hex_byte("g0"), -1);
    cr_assert_eq(hex_byte("0\xe4"), -1);
    char *end = strdup(""), *one = strdup("7"); /* where a reader past the end is noticed */
    cr_assert_eq(hex_byte(end), -1);
    cr_assert_eq(hex_byte(one), -1);
    free(end);
    free(one);
}

Test(hex, bytes_there_and_back)
{
    uint8_t bytes[256], back[256];
    char text[513];
    for (int i = 0; i < 256; i++)
        bytes[i] = (uint8_t)i;
    hex_encode(bytes, sizeof bytes, text);
    cr_assert_eq(strlen(text), 512);
    cleanup_buf struct buf out;
    buf_init(&out, 1024);
    hex_write(&out, bytes, sizeof bytes);
    cr_assert_str_eq(buf_text(&out), text);
    cr_assert(hex_decode(text, back, sizeof back));
    cr_assert_arr_eq(back, bytes, sizeof back);
    hex_encode(bytes, 0, text);
    cr_assert_str_eq(text, "");
}

Test(hex, only_exactly_so_many_lower_case_digits_are_decoded)
{
    uint8_t two[2];
    cr_assert(hex_decode("12ef", two, 2));
    cr_assert(!hex_decode("12eF", two, 2));
    cr_assert(!hex_decode("12e", two, 2));
    cr_assert(!hex_decode("12ef0", two, 2));
    cr_assert(!hex_decode("12eg", two, 2));
    cr_assert(!hex_decode(NULL, two, 2));
    cr_assert(hex_decode("", two, 0));
}

Test(hex, a_number_has_sixteen_digits)
{
    char text[17];
    hex_u64(0, text);
    cr_assert_str_eq(text, "0000000000000000");
    hex_u64(0x0123456789abcdefu, text);
    cr_assert_str_eq(text, "0123456789abcdef");
}
