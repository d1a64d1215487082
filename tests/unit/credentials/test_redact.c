#include "base/buf.h"
#include "base/cleanup.h"
#include "credentials/redact.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static struct redactor *redactor_for(const char *const *values, size_t count)
{
    struct secret *secrets[8] = {NULL};
    struct redactor *r = NULL;
    for (size_t i = 0; i < count; i++)
        cr_assert_eq(secret_new(values[i], strlen(values[i]), &secrets[i], NULL), 0);
    cr_assert_eq(redactor_new(secrets, count, &r, NULL), 0);
    for (size_t i = 0; i < count; i++)
        secret_free(secrets[i]);
    return r;
}

/* Through a stream, in pieces of these lengths in turn (0: byte by byte after `first`). */
static char *stream(struct redactor *r, const char *text, size_t first, size_t then)
{
    struct redact_stream *s;
    cr_assert_eq(redact_open(r, &s, NULL), 0);
    size_t len = strlen(text), at = 0, got;
    struct buf out;
    buf_init(&out, 1 << 20);
    const char *piece;
    for (size_t take = first; at < len; take = then) {
        take = take < len - at ? take : len - at;
        cr_assert_geq(redact_feed(s, text + at, take, &piece, &got, NULL), 0);
        buf_add(&out, piece, got);
        at += take;
        cr_assert_leq(at - out.len, redactor_lag(r) + 8, "holds back too much");
    }
    cr_assert_geq(redact_flush(s, &piece, &got), 0);
    buf_add(&out, piece, got);
    redact_close(s);
    char *copy = strdup(buf_text(&out));
    buf_done(&out);
    return copy;
}

static void expect(const char *value, const char *text, const char *expected)
{
    struct redactor *r = redactor_for(&value, 1);
    size_t len = strlen(text);
    cr_assert_eq(strlen(expected), len, "the test itself: %s", text);
    cleanup_free char *whole = strdup(text);
    redact_text(r, whole, len);
    cr_assert_str_eq(whole, expected);
    for (size_t cut = 0; cut <= len; cut++) {
        cleanup_free char *two = stream(r, text, cut, len);
        cr_assert_str_eq(two, expected, "cut at %zu of %s", cut, text);
    }
    cleanup_free char *bytes = stream(r, text, 1, 1);
    cr_assert_str_eq(bytes, expected, "byte by byte: %s", text);
    redactor_free(r);
}

static void expect_hidden(const char *value, const char *before, const char *match,
                          const char *after)
{
    char text[512], expected[512];
    snprintf(text, sizeof text, "%s%s%s", before, match, after);
    memcpy(expected, text, sizeof expected);
    memset(expected + strlen(before), '*', strlen(match));
    expect(value, text, expected);
}

Test(redact, raw)
{
    expect("s3cr3t/v+l", "a s3cr3t/v+l b", "a ********** b");
    expect("s3cr3t/v+l", "s3cr3t/v+l", "**********");
    expect("s3cr3t/v+l", "s3cr3s3cr3t/v+l", "s3cr3**********");
    expect("s3cr3t/v+l", "s3cr3t/v+m s3cr3t/v", "s3cr3t/v+m s3cr3t/v");
}

Test(redact, in_whatever_case)
{
    expect("s3cr3T/v+L", "a S3CR3T/V+L b", "a ********** b");
    expect("s3cr3T/v+L", "a s3cr3t/v+l b S3cr3t/v+L", "a ********** b **********");
    expect("s3cr3T/v+L", "S3CR3T%2fV%2bl %53%33cr3t/v+l", "************** **************");
    expect("s3cr3T/v+L", "S3CR3T/V+M", "S3CR3T/V+M");
    /* hex and base64 of "S3CR3T/V+L" and "s3cr3t/v+l" */
    expect("s3cr3T/v+L", "x5333435233542f562b4cy", "x********************y");
    expect("s3cr3T/v+L", "x7333637233742F762B6Cy", "x********************y");
    expect("s3cr3T/v+L", "UzNDUjNUL1YrTA==", "**************==");
    expect("s3cr3T/v+L", "czNjcjN0L3YrbA==", "**************==");
}

Test(redact, backwards)
{
    expect("s3cr3t/v+l", "a l+v/t3rc3s b", "a ********** b");
    expect("s3cr3t/v+l", "a L%2BV/T3RC3S b", "a ************ b");
    expect("s3cr3t/v+l", "l+v/t3rc3s3cr3t/v+l", "*******************");
}

Test(redact, escaped_twice)
{
    expect("s3cr3t/v+l", "?next=%3Ft%3Ds3cr3t%252Fv%252Bl&", "?next=%3Ft%3D******************&");
    expect("s3%r3t/v+l", "s3%25r3t%2fv+l s3%2525r3t/v+l", "************** **************");
    expect("%25aaaaaa", "%25aaaaaa %2525aaaaaa", "********* ***********");
}

Test(redact, values_that_repeat_themselves)
{
    expect("abababab", "xababababababy", "x************y");
    expect("abababab", "abababa abababab", "abababa ********");
    expect("aaaaaaaa", "aaaaaaabaaaaaaaa", "aaaaaaab********");
}

Test(redact, percent_encoded_in_any_mixture)
{
    expect("s3cr3t/v+l", "?t=s3cr3t%2Fv%2Bl&", "?t=**************&");
    expect("s3cr3t/v+l", "%733cr%33t%2fv+l", "****************");
    expect("two words", "x=two+words;two%20words;two words", "x=*********;***********;*********");
}

Test(redact, json_escaped)
{
    expect_hidden("s3cr3t/v+l", "\"", "s3cr3t\\/v+l", "\"");
    expect_hidden("s3cr3t/v+l", "\"", "\\u0073\\u0033cr3t\\u002Fv\\u002bl", "\"");
    expect_hidden("a\"b\\c d e f", "\"", "a\\\"b\\\\c d e f", "\"");
    expect_hidden("a\"b\\c d e f", "", "a\"b\\c d e f", "");
}

Test(redact, html_escaped)
{
    expect_hidden("a<b&c>d\"e'f", "<p>", "a&lt;b&amp;c&gt;d&quot;e&#39;f", "</p>");
    expect_hidden("a<b&c>d\"e'f", "", "a&#x3c;b&#038;c&#62;d&#X22;e&apos;f", "");
}

Test(redact, hex)
{
    expect("s3cr3t/v", "x7333637233742f76y", "x****************y");
    expect("s3cr3t/v", "57333637233742F76", "5****************");
}

static void base64(const char *alphabet, const char *text, size_t len, char *out)
{
    for (size_t i = 0; i < len; i += 3) {
        unsigned v = 0;
        for (size_t k = 0; k < 3; k++)
            v = v << 8 | (i + k < len ? (unsigned char)text[i + k] : 0);
        for (int k = 3; k >= 0; k--)
            *out++ = (size_t)(3 - k) > len - i ? '=' : alphabet[v >> (6 * k) & 63];
    }
    *out = 0;
}
#define STANDARD "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
#define FOR_URLS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

/* What is left of the encoded text names at most the neighbours. */
static void expect_base64(const char *alphabet, const char *before, const char *value,
                          const char *after)
{
    char plain[256], encoded[512], expected[512];
    snprintf(plain, sizeof plain, "%s%s%s", before, value, after);
    base64(alphabet, plain, strlen(plain), encoded);
    memcpy(expected, encoded, sizeof expected);
    size_t from = strlen(before) * 8 / 6, to = ((strlen(before) + strlen(value)) * 8 + 5) / 6;
    memset(expected + from, '*', to - from);
    struct redactor *r = redactor_for(&value, 1);
    size_t len = strlen(encoded);
    cleanup_free char *whole = strdup(encoded);
    redact_text(r, whole, len);
    cr_assert_str_eq(whole, expected);
    for (size_t cut = 0; cut <= len; cut++) {
        cleanup_free char *two = stream(r, encoded, cut, len);
        /* A cut right there: the character that is shared with what stands before may be out
         * already. */
        if (cut == from + 1)
            two[from] = '*';
        cr_assert_str_eq(two, expected, "cut at %zu of %s", cut, encoded);
    }
    redactor_free(r);
}

Test(redact, base64_at_every_alignment_in_both_alphabets)
{
    static const char *const before[] = {"", "u", "us", "use", "user:", "user?>:"};
    static const char *const after[] = {"", "1", "12", "123"};
    static const char *const values[] = {"s3cr3t/v", "s3cr3t/v+", "s3cr3t?v>l", "~~~???~~~???~~~"};
    for (size_t b = 0; b < 6; b++) {
        for (size_t a = 0; a < 4; a++) {
            for (size_t v = 0; v < 4; v++) {
                expect_base64(STANDARD, before[b], values[v], after[a]);
                expect_base64(FOR_URLS, before[b], values[v], after[a]);
            }
        }
    }
}

Test(redact, base64_with_escapes_and_line_breaks)
{
    /* "~~~???~~~" is "fn5+Pz8/fn5+" */
    expect("~~~???~~~", "a=fn5%2BPz8%2Ffn5%2B&", "a=******************&");
    expect("~~~???~~~", "\"fn5+Pz8\\/fn5+\"", "\"*************\"");
    expect("~~~???~~~", "fn5+P\r\nz8/fn5+", "**************");
    expect("~~~???~~~", "fn5+P\\nz8/fn5+", "**************");
}

/* What stands in front may be chosen so that a reader of escapes eats the first bytes of the value.
 */
Test(redact, C05_nothing_in_front_hides_it)
{
    expect("1a2b3c4d", "%41a2b3c4d", "%4********");
    expect("1a2b3c4d", "%1a2b3c4d", "%********");
    expect("1a2b3c4d", "\\u0041a2b3c4d", "\\u004********");
    expect("1a/b3c4d", "%41a%2Fb3c4d", "%4**********");
    expect("/a2b3c4d", "\\/a2b3c4d", "*********");
    expect("9;b3c4d5", "&#39;b3c4d5", "&#3********");
    expect("amp;3c4d", "&amp;3c4d", "&********");
    expect("41414141", "%4141414141", "%**********");
}

Test(redact, several_values)
{
    static const char *const values[] = {"first-value", "value-second", "irst-val"};
    struct redactor *r = redactor_for(values, 3);
    cleanup_free char *out = stream(r, "first-value-second irst-val first-valu", 7, 3);
    cr_assert_str_eq(out, "****************** ******** f********u");
    redactor_free(r);
}

Test(redact, without_values_nothing_is_held_back)
{
    struct redactor *r = redactor_for(NULL, 0);
    cr_assert_eq(redactor_lag(r), 0);
    struct redact_stream *s;
    cr_assert_eq(redact_open(r, &s, NULL), 0);
    const char *out;
    size_t len;
    cr_assert_eq(redact_feed(s, "%", 1, &out, &len, NULL), 0);
    cr_assert_eq(len, 1);
    redact_close(s);
    redactor_free(r);
}

Test(redact, hands_out_all_that_cannot_begin_a_match)
{
    const char *value = "s3cr3t/v+l";
    struct redactor *r = redactor_for(&value, 1);
    struct redact_stream *s;
    cr_assert_eq(redact_open(r, &s, NULL), 0);
    const char *out;
    size_t len;
    cr_assert_eq(redact_feed(s, "data: {}\n\n", 10, &out, &len, NULL), 0);
    cr_assert_eq(len, 10);
    cr_assert_eq(redact_feed(s, "data: s3", 8, &out, &len, NULL), 0);
    cr_assert_eq(len, 6);
    cr_assert_eq(redact_feed(s, "cr3t/v+m", 8, &out, &len, NULL), 0);
    cr_assert_eq(len, 10);
    cr_assert_eq(redact_feed(s, "s3cr3t/v+l", 10, &out, &len, NULL), 1);
    cr_assert_eq(len, 9, "its last byte may be the first of it backwards");
    cr_assert_eq(redact_feed(s, "\n", 1, &out, &len, NULL), 1);
    cr_assert_eq(len, 2);
    cr_assert_arr_eq(out, "*\n", 2);
    redact_close(s);
    redactor_free(r);
}

Test(redact, a_stream_goes_on_after_a_flush)
{
    const char *value = "s3cr3t/v+l";
    struct redactor *r = redactor_for(&value, 1);
    struct redact_stream *s;
    cr_assert_eq(redact_open(r, &s, NULL), 0);
    const char *out;
    size_t len;
    redact_feed(s, "x s3c", 5, &out, &len, NULL);
    cr_assert_eq(redact_flush(s, &out, &len), 0);
    cr_assert_eq(len, 3);
    cr_assert_arr_eq(out, "s3c", 3);
    cr_assert_eq(redact_feed(s, "s3cr3t/v+l\n", 11, &out, &len, NULL), 1);
    cr_assert_arr_eq(out, "**********\n", 11);
    redact_close(s);
    redactor_free(r);
}

Test(redact, many_matches_in_one_text)
{
    const char *value = "s3cr3t/v+l";
    struct redactor *r = redactor_for(&value, 1);
    struct buf text, expected;
    buf_init(&text, 1 << 20);
    buf_init(&expected, 1 << 20);
    for (int i = 0; i < 1000; i++) {
        buf_str(&text, "s3cr3t/v+l.");
        buf_str(&expected, "**********.");
    }
    cleanup_free char *out = stream(r, buf_text(&text), 4000, 333);
    cr_assert_str_eq(out, buf_text(&expected));
    cr_assert_eq(redact_text(r, text.data, text.len), 1000);
    cr_assert_str_eq(buf_text(&text), buf_text(&expected));
    buf_done(&text);
    buf_done(&expected);
    redactor_free(r);
}

static void feed(struct redact_stream *s, const char *text, struct buf *out)
{
    const char *piece;
    size_t got;
    cr_assert_geq(text ? redact_feed(s, text, strlen(text), &piece, &got, NULL)
                       : redact_flush(s, &piece, &got),
                  0);
    buf_add(out, piece, got);
}

/* A value that is fetched while an answer is on its way may come back in that answer. */
Test(redact, other_values_count_for_streams_that_are_open)
{
    const char *before = "the-first-value", *after[] = {"the-second-value", "the-first-value"};
    struct redactor *r = redactor_for(&before, 1);
    struct secret *secrets[2] = {NULL};
    struct redact_stream *s;
    struct buf out;
    buf_init(&out, 1024);
    for (size_t i = 0; i < 2; i++)
        cr_assert_eq(secret_new(after[i], strlen(after[i]), &secrets[i], NULL), 0);
    cr_assert_eq(redact_open(r, &s, NULL), 0);
    feed(s, "a the-first-value, the-fi", &out);
    cr_assert_eq(redactor_renew(r, secrets, 2, NULL), 0);
    feed(s, "rst-value, the-sec", &out);
    feed(s, "ond-value, b the-second-val", &out);
    feed(s, NULL, &out);
    cr_assert_str_eq(buf_text(&out),
                     "a ***************, ***************, ****************, b the-second-val");
    /* What the old values found, and is not handed out yet. */
    buf_reset(&out);
    feed(s, "the-first-value", &out);
    cr_assert_eq(redactor_renew(r, secrets, 1, NULL), 0);
    feed(s, NULL, &out);
    cr_assert_str_eq(buf_text(&out), "***************");
    redact_close(s);
    for (size_t i = 0; i < 2; i++)
        secret_free(secrets[i]);
    redactor_free(r);
    buf_done(&out);
}
