#include "base/utf8.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

static void becomes(const char *name, const char *text)
{
    char out[256], back[256];
    size_t n = utf8_escape(name, strlen(name), out);
    cr_assert(n == strlen(text) && memcmp(out, text, n) == 0, "%s", name);
    cr_assert_leq(n, UTF8_ESCAPED_MAX(strlen(name)));
    n = utf8_unescape(out, n, back);
    cr_assert(n == strlen(name) && memcmp(back, name, n) == 0, "%s", name);
}

Test(utf8, names_become_text_and_come_back)
{
    becomes("", "");
    becomes("plain.txt", "plain.txt");
    becomes("\xc3\xa9\xf0\x9f\x98\x80", "\xc3\xa9\xf0\x9f\x98\x80");
    becomes("a\xff", "a\xef\x9f\xbf");
    becomes("\x80/\xc3", "\xef\x9e\x80/\xef\x9f\x83");
    becomes("\xe2\x82", "\xef\x9f\xa2\xef\x9e\x82");                 /* cut short */
    becomes("\xed\xa0\x80", "\xef\x9f\xad\xef\x9e\xa0\xef\x9e\x80"); /* a surrogate */
    /* The escape itself is escaped: two names never have one text. */
    becomes("\xef\x9f\xbf", "\xef\x9f\xaf\xef\x9e\x9f\xef\x9e\xbf");
    becomes("\xef\x9d\xbf", "\xef\x9d\xbf"); /* U+F77F is none */
    becomes("\xef\xa0\x80", "\xef\xa0\x80"); /* nor U+F800 */
}

Test(utf8, any_bytes_come_back_and_no_separator_hides)
{
    srand(7);
    for (int round = 0; round < 20000; round++) {
        char name[24], text[UTF8_ESCAPED_MAX(sizeof name)], back[sizeof text];
        static const unsigned char some[] = {0xef, 0x9e, 0x9f, 0x80, 0xbf,
                                             0xff, 0xc3, '/',  '.',  'a'};
        size_t len = (size_t)rand() % sizeof name, slashes = 0, before = 0;
        for (size_t i = 0; i < len; i++)
            name[i] = (char)(rand() % 2 ? some[(size_t)rand() % sizeof some] : rand() % 256);
        size_t n = utf8_escape(name, len, text);
        for (size_t i = 0, step; i < n; i += step) {
            uint32_t code;
            step = utf8_decode(text + i, n - i, &code);
            cr_assert_neq(step, 0, "it is text");
        }
        cr_assert_eq(utf8_unescape(text, n, back), len);
        cr_assert_eq(memcmp(back, name, len), 0);
        for (size_t i = 0; i < n; i++)
            slashes += text[i] == '/';
        for (size_t i = 0; i < len; i++)
            before += name[i] == '/';
        cr_assert_eq(slashes, before);
    }
}

Test(utf8, what_may_be_either_is_escaped_once)
{
    char out[64], again[64];
    size_t n = utf8_mend("a\xff", 2, out);
    cr_assert(n == 4 && memcmp(out, "a\xef\x9f\xbf", n) == 0);
    cr_assert_eq(utf8_mend(out, n, again), n);
    cr_assert_eq(memcmp(out, again, n), 0);
    n = utf8_unescape(out, n, out);
    cr_assert(n == 2 && memcmp(out, "a\xff", n) == 0, "in place");
}
