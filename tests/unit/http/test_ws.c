#include "http/ws.h"

#include "base/cleanup.h"

#include <criterion/criterion.h>
#include <string.h>

struct row {
    bool from_client;
    size_t len;
    uint8_t bytes[24];
};

static int check(const struct row *row, size_t step)
{
    struct ws_reader r;
    ws_reader_init(&r, row->from_client);
    for (size_t at = 0; at < row->len; at += step) {
        size_t piece = row->len - at < step ? row->len - at : step;
        if (ws_check(&r, row->bytes + at, piece, NULL) < 0)
            return -1;
    }
    return 0;
}

static const struct row good[] = {
    {true, 8, {0x81, 0x82, 1, 2, 3, 4, 'a', 'b'}},
    {false, 4, {0x82, 2, 'a', 'b'}},
    {false, 2, {0x81, 0}},
    /* in parts, with a ping between */
    {false, 12, {0x01, 1, 'a', 0x89, 1, 'p', 0x00, 1, 'b', 0x80, 1, 'c'}},
    {false, 4, {0x88, 2, 3, 0xe8}},
    {true, 6, {0x88, 0x80, 1, 2, 3, 4}},
    {true, 14, {0x8a, 0x80, 1, 2, 3, 4, 0x88, 0x82, 1, 2, 3, 4, 0, 0}},
    {false, 4, {0x82, 126, 0, 126}},
    {false, 10, {0x82, 127, 0, 0, 0, 0, 0, 1, 0, 0}},
};

static const struct row bad[] = {
    {true, 4, {0x81, 2, 'a', 'b'}},
    {false, 8, {0x81, 0x82, 1, 2, 3, 4, 'a', 'b'}},
    {false, 2, {0xc1, 0}},
    {false, 2, {0xa1, 0}},
    {false, 2, {0x91, 0}},
    {false, 2, {0x83, 0}},
    {false, 2, {0x8b, 0}},
    {false, 2, {0x8f, 0}},
    {false, 2, {0x80, 0}},
    {false, 5, {0x01, 1, 'a', 0x81, 0}},
    {false, 2, {0x09, 0}},
    {false, 2, {0x89, 126}},
    {false, 3, {0x88, 1, 0}},
    {false, 4, {0x88, 0, 0x81, 0}},
    {false, 4, {0x82, 126, 0, 125}},
    {false, 10, {0x82, 127, 0, 0, 0, 0, 0, 0, 0xff, 0xff}},
    {false, 10, {0x82, 127, 0x80, 0, 0, 0, 0, 1, 0, 0}},
    {true, 7, {0x88, 0x80, 1, 2, 3, 4, 0x88}},
    /* another protocol */
    {true, 16, "SSH-2.0-OpenSSH"},
    {true, 16, "GET / HTTP/1.1\r\n"},
};

Test(ws, frames)
{
    for (size_t step = 1; step < 20; step++) {
        for (size_t i = 0; i < ARRAY_LEN(good); i++)
            cr_assert_eq(check(&good[i], step), 0, "good %zu in steps of %zu", i, step);
        for (size_t i = 0; i < ARRAY_LEN(bad); i++)
            cr_assert_lt(check(&bad[i], step), 0, "bad %zu in steps of %zu", i, step);
    }
}
