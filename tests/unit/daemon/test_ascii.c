#include "daemon/e2b/ascii.h"

#include <criterion/criterion.h>
#include <string.h>

static const char *ascii(const char *text)
{
    static struct buf out;
    buf_done(&out);
    buf_init(&out, 4096);
    ascii_write(&out, text, strlen(text));
    return buf_text(&out);
}

Test(ascii, escapes_what_is_not_ascii)
{
    cr_assert_str_eq(ascii("{\"a\":\"b\\n\"}"), "{\"a\":\"b\\n\"}");
    cr_assert_str_eq(ascii("\"é\""), "\"\\u00e9\"");
    cr_assert_str_eq(ascii("\"日本\""), "\"\\u65e5\\u672c\"");
    cr_assert_str_eq(ascii("\"\xf0\x9f\x98\x80\""), "\"\\ud83d\\ude00\"");
    cr_assert_str_eq(ascii("\"\x7f\""), "\"\\u007f\"");
    cr_assert_str_eq(ascii("\"\xff\""), "\"\\ufffd\"");
}

/* However a text is cut, its pieces say the same. */
Test(ascii, characters_are_not_torn)
{
    static const char text[] = "a\xc3\xa9\xe6\x97\xa5\xf0\x9f\x98\x80z\xf0\x9f\x98\x80";
    size_t len = strlen(text);
    for (size_t step = 1; step <= len; step++) {
        struct utf8_tail tail = {0};
        struct buf all;
        buf_init(&all, 256);
        for (size_t at = 0; at < len; at += step) {
            struct buf piece;
            size_t n = len - at < step ? len - at : step;
            buf_init(&piece, 64);
            utf8_tail_join(&tail, text + at, n, &piece);
            ascii_write(&all, buf_text(&piece), piece.len);
            buf_done(&piece);
        }
        cr_assert_eq(tail.len, 0);
        cr_assert_str_eq(buf_text(&all), ascii(text), "in pieces of %zu", step);
        buf_done(&all);
    }
}

Test(ascii, what_can_be_no_character_is_not_kept_back)
{
    struct utf8_tail tail = {0};
    struct buf out;
    buf_init(&out, 64);
    utf8_tail_join(&tail, "a\x80\x80\x80", 4, &out);
    cr_assert_eq(tail.len, 0);
    cr_assert_eq(out.len, 4);
    buf_reset(&out);
    utf8_tail_join(&tail, "a\xff", 2, &out);
    cr_assert_leq(tail.len, 1);
    buf_done(&out);
}
