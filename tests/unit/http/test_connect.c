#include "http/connect.h"

#include <criterion/criterion.h>
#include <string.h>

static struct buf frames(void)
{
    struct buf b;
    buf_init(&b, 1u << 20);
    connect_frame_write(&b, 0, "{\"a\":1}", 7);
    connect_frame_write(&b, 0, "", 0);
    connect_frame_write(&b, CONNECT_END, "{}", 2);
    return b;
}

Test(connect, what_is_written_is_read)
{
    struct buf b = frames();
    struct connect_frame f;
    ssize_t n = connect_frame_parse(b.data, b.len, 100, &f, NULL);
    cr_assert_eq(n, 12);
    cr_assert_eq(f.flags, 0);
    cr_assert_eq(f.len, 7);
    cr_assert_eq(memcmp(f.data, "{\"a\":1}", 7), 0);
    for (size_t i = 0; i < 12; i++)
        cr_assert_eq(connect_frame_parse(b.data, i, 100, &f, NULL), 0);
    cr_assert_lt(connect_frame_parse(b.data, b.len, 6, &f, NULL), 0, "longer than allowed");
    buf_done(&b);
}

Test(connect, a_stream_in_any_pieces)
{
    struct buf b = frames();
    for (size_t step = 1; step <= b.len; step++) {
        struct connect_reader r;
        struct connect_frame f;
        unsigned seen = 0;
        connect_reader_init(&r);
        for (size_t at = 0; at < b.len; at += step) {
            connect_reader_feed(&r, b.data + at, b.len - at < step ? b.len - at : step);
            while (connect_reader_next(&r, &f, NULL) > 0)
                cr_assert_eq(f.flags, ++seen == 3 ? CONNECT_END : 0);
        }
        cr_assert_eq(seen, 3);
        cr_assert(!connect_reader_pending(&r));
        connect_reader_done(&r);
    }
    buf_done(&b);
}

Test(connect, flags_that_are_not_understood)
{
    struct connect_frame f;
    cr_assert_lt(connect_frame_parse("\x01\0\0\0\0", 5, 100, &f, NULL), 0);
    cr_assert_lt(connect_frame_parse("\x80", 1, 100, &f, NULL), 0);
    cr_assert_eq(connect_frame_parse("\x02\0\0\0\0", 5, 100, &f, NULL), 5);
}

Test(connect, one_message_is_one_message)
{
    struct connect_frame f;
    cr_assert_eq(connect_body_parse("\0\0\0\0\2{}", 7, 100, &f, NULL), 0);
    cr_assert_eq(f.len, 2);
    cr_assert_lt(connect_body_parse("\0\0\0\0\2{}x", 8, 100, &f, NULL), 0);
    cr_assert_lt(connect_body_parse("\0\0\0\0\2{", 6, 100, &f, NULL), 0);
    cr_assert_lt(connect_body_parse("\2\0\0\0\2{}", 7, 100, &f, NULL), 0);
    cr_assert_lt(connect_body_parse("", 0, 100, &f, NULL), 0);
}
