#include "trust/pem.h"

#include <criterion/criterion.h>
#include <string.h>

#define BEGIN "-----BEGIN CERTIFICATE-----\n"
#define END   "-----END CERTIFICATE-----\n"

/* 1 with the bytes in out, 0 or negative. */
static int first(const char *text, struct buf *out)
{
    struct pem_block block;
    struct err err = ERR_INIT;
    size_t at = 0;
    int found = pem_next(text, strlen(text), &at, &block, &err);
    if (found <= 0)
        return found;
    cr_assert_eq(memcmp(block.text, "-----BEGIN", 10), 0);
    int result = pem_decode(&block, out, &err);
    cr_assert_eq(result < 0, err.message[0] != '\0');
    return result < 0 ? result : 1;
}

static void good(const char *text, const char *bytes, size_t len)
{
    cleanup_buf struct buf out;
    buf_init(&out, 1 << 20);
    cr_assert_eq(first(text, &out), 1, "%s", text);
    cr_assert(out.len == len && memcmp(out.data, bytes, len) == 0, "%s", text);
}

static void bad(const char *text)
{
    cleanup_buf struct buf out;
    buf_init(&out, 1 << 20);
    buf_str(&out, "before");
    cr_assert_leq(first(text, &out), 0, "%s", text);
    cr_assert_str_eq(buf_text(&out), "before", "%s", text);
}

Test(pem, blocks)
{
    good(BEGIN "MAA=\n" END, "\x30\x00", 2);
    good("text before\n" BEGIN "MAA=\n" END "text after", "\x30\x00", 2);
    good("-----BEGIN CERTIFICATE-----\r\nMAA=\r\n-----END CERTIFICATE-----\r\n", "\x30\x00", 2);
    good(BEGIN "MAA=\n-----END CERTIFICATE-----", "\x30\x00", 2);
    good(BEGIN "MAEA\n" END, "\x30\x01\x00", 3);
    good(BEGIN "MAIB\nAg==\n" END, "\x30\x02\x01\x02", 4);
    good("-----BEGIN PUBLIC KEY-----\nMAEB\n-----END PUBLIC KEY-----\n" BEGIN "MAA=\n" END,
         "\x30\x00", 2);
}

Test(pem, what_is_no_block)
{
    bad("");
    bad("-----BEGIN CERTIFICATE-----");
    bad(BEGIN);
    bad(BEGIN "MAA=\n");
    bad(BEGIN "MAA=\n" BEGIN "MAA=\n" END); /* the first has no end */
    bad(" -----BEGIN CERTIFICATE-----\nMAA=\n" END);
    bad("-----BEGIN CERTIFICATE----- \nMAA=\n" END);
    bad(BEGIN "MAA=\n-----END PUBLIC KEY-----\n");
    bad("-----BEGIN TRUSTED CERTIFICATE-----\nMAA=\n-----END TRUSTED CERTIFICATE-----\n");
}

Test(pem, base64)
{
    bad(BEGIN END);
    bad(BEGIN "\nMAA=\n" END);
    bad(BEGIN "MAA\n" END);
    bad(BEGIN "MAB=\n" END);     /* a bit that nobody reads */
    bad(BEGIN "MA==\n" END);     /* half of a header */
    bad(BEGIN "MAA=MAA=\n" END); /* something after the padding */
    bad(BEGIN "MAA=\nMAA=\n" END);
    bad(BEGIN "MA =\n" END);
    bad(BEGIN " MAA=\n" END);
    bad(BEGIN "M=A=\n" END);
    bad(BEGIN "MAA=\r\r\n" END);
    bad(BEGIN "M\xc3\xa4=\n" END);
    bad(BEGIN "Proc-Type: 4,ENCRYPTED\n\nMAA=\n" END);
}

Test(pem, der)
{
    bad(BEGIN "MAEBAg==\n" END); /* a byte after the sequence */
    bad(BEGIN "MAIB\n" END);     /* shorter than it says */
    bad(BEGIN "MQA=\n" END);     /* a set */
    bad(BEGIN "MIAAAA==\n" END); /* indefinite length */
    bad(BEGIN "MIEA\n" END);     /* a length that is not minimal */
}

Test(pem, one_after_another)
{
    const char *text = BEGIN "MAA=\n" END "# comment\n" BEGIN "MAEA\n" BEGIN "MAEB\n" END;
    struct pem_block block;
    size_t at = 0, len = strlen(text);
    cr_assert_eq(pem_next(text, len, &at, &block, NULL), 1);
    cr_assert_lt(pem_next(text, len, &at, &block, NULL), 0, "no end");
    cr_assert_eq(pem_next(text, len, &at, &block, NULL), 1, "and on");
    cr_assert_eq(memcmp(block.body, "MAEB\n", block.body_len), 0);
    cr_assert_eq(pem_next(text, len, &at, &block, NULL), 0);
    cr_assert_eq(at, len);
}

Test(pem, the_cap_of_the_buffer_holds)
{
    cleanup_buf struct buf out;
    buf_init(&out, 4);
    cr_assert_lt(first(BEGIN "MAIB\nAg==\n" END, &out), 0);
}
