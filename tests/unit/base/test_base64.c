#include "base/base64.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

static const char *encoded(const char *in)
{
    static struct buf out;
    buf_done(&out);
    buf_init(&out, 4096);
    base64_encode(&out, in, strlen(in));
    return buf_text(&out);
}

Test(base64, encodes_the_vectors_of_the_standard)
{
    cr_assert_str_eq(encoded(""), "");
    cr_assert_str_eq(encoded("f"), "Zg==");
    cr_assert_str_eq(encoded("fo"), "Zm8=");
    cr_assert_str_eq(encoded("foo"), "Zm9v");
    cr_assert_str_eq(encoded("foob"), "Zm9vYg==");
    cr_assert_str_eq(encoded("fooba"), "Zm9vYmE=");
    cr_assert_str_eq(encoded("foobar"), "Zm9vYmFy");
}

Test(base64, url_alphabet_has_no_padding)
{
    char out[BASE64_SIZE(4)];
    base64url_encode(out, "\xfb\xff\xfe", 3);
    cr_assert_str_eq(out, "-__-");
    base64url_encode(out, "f", 1);
    cr_assert_str_eq(out, "Zg");
    base64url_encode(out, "", 0);
    cr_assert_str_eq(out, "");
}

Test(base64, what_was_encoded_comes_back)
{
    unsigned char in[700];
    for (size_t i = 0; i < sizeof(in); i++)
        in[i] = (unsigned char)(i * 7 + i / 256);
    for (size_t len = 0; len < sizeof(in); len++) {
        unsigned char back[sizeof(in) + 8];
        struct buf text;
        buf_init(&text, 4096);
        base64_encode(&text, in, len);
        cr_assert_eq(base64_decode(back, buf_text(&text), text.len), (ssize_t)len);
        cr_assert_eq(memcmp(back, in, len), 0);
        buf_done(&text);
    }
}

Test(base64, refuses_what_is_not_base64)
{
    static const char *const bad[] = {"Z",    "Zg=", "Zg===", "Zm9v=", "Zm 9", "Zm9v\n",
                                      "====", "=",   "Zh==",  "Zm9=",  "Z*==", "Zg==Zg=="};
    unsigned char out[32];
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        cr_assert_lt(base64_decode(out, bad[i], strlen(bad[i])), 0, "%s", bad[i]);
    cr_assert_eq(base64_decode(out, "Zg", 2), 1);
}
