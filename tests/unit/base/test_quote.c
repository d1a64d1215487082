#include "base/quote.h"

#include <criterion/criterion.h>
#include <string.h>

static void check(const char *text, const char *expected)
{
    struct quoted q;
    cr_assert_str_eq(quote(&q, text), expected);
}

Test(quote, keeps_ordinary_text)
{
    check("", "\"\"");
    check(NULL, "\"\"");
    check("/opt/tools", "\"/opt/tools\"");
    check("B\xc3\xbc"
          "cher \xe2\x82\xac \xf0\x9f\x98\x80",
          "\"B\xc3\xbc"
          "cher \xe2\x82\xac \xf0\x9f\x98\x80\"");
}

Test(quote, escapes_what_is_not_text)
{
    check("a\"b\\c", "\"a\\\"b\\\\c\"");
    check("a\nb\tc", "\"a\\nb\\x09c\"");
    check("\x1b[31m\x7f", "\"\\x1b[31m\\x7f\"");
    check("\xff\xfe", "\"\\xff\\xfe\"");
    check("\xc2", "\"\\xc2\"");
    check("\xc2\x9b", "\"\\xc2\\x9b\""); /* a C1 control: the one-byte form of ESC [ */
    check("\xed\xa0\x80", "\"\\xed\\xa0\\x80\"");
}

Test(quote, cuts_long_text_between_characters)
{
    struct quoted q;
    char text[400];
    for (size_t lead = 0; lead < 4; lead++) {
        memset(text, 'a', lead);
        for (size_t i = lead; i + 3 < sizeof text; i += 3)
            memcpy(text + i, "\xe2\x82\xac", 4);
        quote(&q, text);
        cr_assert_leq(strlen(q.text), sizeof q.text - 1);
        cr_assert(text_is_utf8(q.text));
        cr_assert(strstr(q.text, "...\""), "%s", q.text);
    }
}

Test(quote, knows_text_from_bytes)
{
    cr_assert(text_is_utf8("gr\xc3\xbc\xc3\x9f"));
    cr_assert_not(text_is_utf8("gr\xfc\xdf"));
    cr_assert_not(text_is_utf8("\xe2\x82"));
    cr_assert(text_has_control("a\x01"));
    cr_assert(text_has_control("a\xc2\x85"));
    cr_assert_not(text_has_control("gr\xc3\xbc"));
}
