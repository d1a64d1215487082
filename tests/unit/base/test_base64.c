#include "base/base64.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

static const char *encoded(const char *in)
{
    static struct buf out;
    buf_done(&out);
    buf_init(&out, 4096);
    base64_encode(in, strlen(in), &out);
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
    base64url_encode("\xfb\xff\xfe", 3, out);
    cr_assert_str_eq(out, "-__-");
    base64url_encode("f", 1, out);
    cr_assert_str_eq(out, "Zg");
    base64url_encode("", 0, out);
    cr_assert_str_eq(out, "");
}

Test(base64, what_was_encoded_comes_back)
{
    unsigned char in[700];
    for (size_t i = 0; i < sizeof(in); i++)
        in[i] = (unsigned char)(i * 7 + i / 256);
    for (size_t len = 0; len < sizeof(in); len++) {
        struct buf text, back;
        buf_init(&text, 4096);
        buf_init(&back, 4096);
        base64_encode(in, len, &text);
        cr_assert_eq(base64_decode(buf_text(&text), text.len, &back, NULL), 0);
        cr_assert_eq(back.len, len);
        cr_assert(!len || !memcmp(back.data, in, len));
        buf_done(&text);
        buf_done(&back);
    }
}

Test(base64, refuses_what_is_not_base64)
{
    static const char *const bad[] = {"Z",    "Zg=", "Zg===", "Zm9v=", "Zm 9", "Zm9v\n",
                                      "====", "=",   "Zh==",  "Zm9=",  "Z*==", "Zg==Zg=="};
    struct buf out;
    buf_init(&out, 64);
    buf_str(&out, "x");
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        cr_assert_lt(base64_decode(bad[i], strlen(bad[i]), &out, NULL), 0, "%s", bad[i]);
    cr_assert_eq(out.len, 1, "nothing of what is refused is kept");
    cr_assert_eq(base64_decode("Zg", 2, &out, NULL), 0);
    cr_assert_str_eq(buf_text(&out), "xf");
    buf_done(&out);
}
