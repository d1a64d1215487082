#include "http/chunk.h"

#include "base/buf.h"
#include "base/cleanup.h"

#include <criterion/criterion.h>
#include <string.h>

/* Feeds in pieces of `step` bytes. Returns what is left over behind the end, or negative. */
static ssize_t read_all(const char *text, size_t len, size_t step, struct buf *body, bool *done)
{
    struct chunk_reader r;
    size_t at = 0;
    chunk_reader_init(&r);
    while (at < len && !r.done) {
        size_t piece = len - at < step ? len - at : step;
        const char *data;
        size_t data_len;
        ssize_t n = chunk_read(&r, text + at, piece, &data, &data_len, NULL);
        if (n < 0)
            return n;
        buf_add(body, data, data_len);
        at += (size_t)n;
    }
    *done = r.done;
    return (ssize_t)(len - at);
}

static const struct {
    const char *text;
    const char *body;
    size_t left;
} good[] = {
    {"0\r\n\r\n", "", 0},
    {"5\r\nhello\r\n0\r\n\r\n", "hello", 0},
    {"5\r\nhello\r\n6\r\n world\r\n0\r\n\r\nGET ", "hello world", 4},
    {"000a\r\n0123456789\r\n0000000000000000\r\n\r\n", "0123456789", 0},
    {"A\r\n0123456789\r\n0\r\nTrailer: x\r\nOther:\r\n\r\n", "0123456789", 0},
    {"2\r\n\r\n\r\n0\r\n\r\n", "\r\n", 0},
};

Test(chunk, good_in_pieces_of_every_size)
{
    for (size_t i = 0; i < ARRAY_LEN(good); i++)
        for (size_t step = 1; step < 40; step++) {
            struct buf body;
            bool done = false;
            buf_init(&body, 1000);
            ssize_t left = read_all(good[i].text, strlen(good[i].text), step, &body, &done);
            cr_assert_eq(left, (ssize_t)good[i].left, "%zu/%zu: %zd", i, step, left);
            cr_assert(done);
            cr_assert_str_eq(buf_text(&body), good[i].body);
            buf_done(&body);
        }
}

static const char *const bad[] = {
    "\r\n",
    " 5\r\nhello\r\n",
    "5 \r\nhello\r\n",
    "+5\r\nhello\r\n",
    "-5\r\nhello\r\n",
    "0x5\r\nhello\r\n",
    "5;ext=1\r\nhello\r\n",
    "5;\r\nhello\r\n",
    "5\nhello\r\n",
    "5\r\rhello",
    "5\r\nhello\n",
    "5\r\nhelloX\r\n",
    "5\r\nhello\rX",
    "5\r\nhell\r\n0\r\n\r\n",
    "g\r\n",
    "5\t\r\nhello",
    "5,5\r\n",
    "ffffffffffffffff\r\n",
    "00000000000000005\r\nhello\r\n",
    "8000000000000000\r\n",
    "10000000000000000\r\n",
    "0\r\n\n",
    "0\n\r\n",
    "0\r\n\rX",
    "0\r\n folded\r\n\r\n",
    "0\r\nA : b\r\n\r\n",
    "0\r\n: b\r\n\r\n",
    "0\r\nA\r\n\r\n",
    "0\r\nA: b\n\r\n",
    "0\r\nA: \x01\r\n\r\n",
    "0\r\nA: b\rc\r\n\r\n",
    "0;a\r\n\r\n",
};

Test(chunk, bad_in_pieces_of_every_size)
{
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        for (size_t step = 1; step < 30; step++) {
            struct buf body;
            bool done = false;
            buf_init(&body, 1000);
            cr_assert_lt(read_all(bad[i], strlen(bad[i]), step, &body, &done), 0, "%zu: %s", i,
                         bad[i]);
            cr_assert_not(done);
            buf_done(&body);
        }
}

Test(chunk, endless_trailers)
{
    struct chunk_reader r;
    const char *data;
    size_t data_len;
    chunk_reader_init(&r);
    cr_assert_eq(chunk_read(&r, "0\r\n", 3, &data, &data_len, NULL), 3);
    int i = 0;
    while (chunk_read(&r, "A: bcdefgh\r\n", 12, &data, &data_len, NULL) > 0)
        cr_assert_lt(++i, 10000);
    cr_assert_not(r.done);
}

Test(chunk, after_the_end)
{
    struct chunk_reader r;
    const char *data;
    size_t data_len;
    chunk_reader_init(&r);
    cr_assert_eq(chunk_read(&r, "0\r\n\r\nX", 6, &data, &data_len, NULL), 5);
    cr_assert(r.done);
    cr_assert_eq(chunk_read(&r, "X", 1, &data, &data_len, NULL), 0);
}
