#include "base/buf.h"
#include "base/cleanup.h"
#include "proxy/ws_search.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#define VALUE "s3cr3t/v+l"

static struct redactor *redactor;

static void setup(void)
{
    cleanup_secret struct secret *s = NULL;
    cr_assert_eq(secret_new(VALUE, strlen(VALUE), &s, NULL), 0);
    cr_assert_eq(redactor_new(&s, 1, &redactor, NULL), 0);
}

static void teardown(void)
{
    redactor_free(redactor);
}

TestSuite(ws_search, .init = setup, .fini = teardown);

static int collect(void *ctx, const char *data, size_t len)
{
    buf_add(ctx, data, len);
    return 1;
}

static void frame(struct buf *to, unsigned first, const char *payload)
{
    size_t len = strlen(payload);
    buf_chr(to, (char)first);
    if (len > 125) {
        buf_chr(to, 126);
        buf_chr(to, (char)(len >> 8));
        buf_chr(to, (char)len);
    } else {
        buf_chr(to, (char)len);
    }
    buf_str(to, payload);
}

/* Whole, cut in two at every place, and byte by byte. */
static void expect(const struct buf *in, const struct buf *expected)
{
    for (size_t cut = 0; cut <= in->len + 1; cut++) {
        struct redact_stream *s;
        struct buf out cleanup_buf;
        buf_init(&out, 1 << 16);
        cr_assert_eq(redact_open(redactor, &s, NULL), 0);
        struct ws_search w = {.redactor = redactor, .redact = s};
        for (size_t at = 0; at < in->len;) {
            size_t n = cut > in->len ? 1 : at < cut ? cut - at : in->len - at;
            cr_assert_geq(ws_search_feed(&w, in->data + at, n, collect, &out), 0);
            at += n;
        }
        cr_assert_eq(out.len, expected->len, "cut at %zu", cut);
        cr_assert_arr_eq(out.data, expected->data, out.len, "cut at %zu", cut);
        redact_close(s);
    }
}

#define BUFFERS                                                                                    \
    struct buf in cleanup_buf, out cleanup_buf;                                                    \
    buf_init(&in, 1 << 16);                                                                        \
    buf_init(&out, 1 << 16)

Test(ws_search, one_frame)
{
    BUFFERS;
    frame(&in, 0x81, "a " VALUE " b");
    frame(&out, 0x81, "a ********** b");
    frame(&in, 0x82, "nothing");
    frame(&out, 0x82, "nothing");
    expect(&in, &out);
}

Test(ws_search, C05_a_message_in_pieces)
{
    BUFFERS;
    frame(&in, 0x01, "x s3cr");
    frame(&in, 0x00, "");
    frame(&in, 0x89, "ping");
    frame(&in, 0x00, "3t/");
    frame(&in, 0x80, "v+l y");
    frame(&out, 0x01, "x ****");
    frame(&out, 0x00, "");
    frame(&out, 0x89, "ping");
    frame(&out, 0x00, "***");
    frame(&out, 0x80, "*** y");
    expect(&in, &out);
}

Test(ws_search, two_messages_are_two)
{
    BUFFERS;
    frame(&in, 0x81, "s3cr3t");
    frame(&in, 0x81, "/v+l");
    buf_add(&out, in.data, in.len);
    expect(&in, &out);
}

Test(ws_search, control_frames_are_searched_by_themselves)
{
    BUFFERS;
    frame(&in, 0x01, "s3cr");
    frame(&in, 0x8a, VALUE);
    frame(&in, 0x80, "other");
    frame(&out, 0x01, "s3cr");
    frame(&out, 0x8a, "**********");
    frame(&out, 0x80, "other");
    expect(&in, &out);
}

Test(ws_search, long_frames)
{
    char text[400], hidden[400];
    memset(text, '.', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    memcpy(hidden, text, sizeof text);
    memcpy(text + 300, VALUE, strlen(VALUE));
    memset(hidden + 300, '*', strlen(VALUE));
    BUFFERS;
    frame(&in, 0x81, text);
    frame(&out, 0x81, hidden);
    expect(&in, &out);
}

/* What may be a value is held back with everything between: not without end. */
Test(ws_search, pieces_without_end_are_refused)
{
    BUFFERS;
    struct redact_stream *s;
    frame(&in, 0x01, "s3cr");
    for (int i = 0; i < 100; i++)
        frame(&in, 0x00, "");
    cr_assert_eq(redact_open(redactor, &s, NULL), 0);
    struct ws_search w = {.redactor = redactor, .redact = s};
    cr_assert_eq(ws_search_feed(&w, in.data, in.len, collect, &out), -EPROTO);
    redact_close(s);
    buf_reset(&in);
    buf_reset(&out);
    frame(&in, 0x01, "other");
    for (int i = 0; i < 100; i++)
        frame(&in, 0x00, "");
    cr_assert_eq(redact_open(redactor, &s, NULL), 0);
    w = (struct ws_search){.redactor = redactor, .redact = s};
    cr_assert_eq(ws_search_feed(&w, in.data, in.len, collect, &out), 1, "control");
    redact_close(s);
}
