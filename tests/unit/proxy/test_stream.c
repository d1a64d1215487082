#include "proxy/stream.h"

#include "base/cleanup.h"

#include "../../lib/unit/loop_seen.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

/* Runs for a moment. */
static void run(void)
{
    run_for(30);
}

static struct stream *a;
static unsigned count = 1;

static void on_stream(void *ctx, unsigned ready)
{
    cr_assert_eq(ctx, &count);
    cr_assert_eq(ready, STREAM_READABLE);
    char data[8];
    ssize_t n = stream_read(a, data, sizeof data);
    note(n > 0 ? data[0] : n == 0 ? '$' : '!');
    if (n <= 0)
        stream_close(a);
}

Test(stream, reads_and_closes_inside_its_own_callback, .init = begin)
{
    int pair[2];
    cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair), 0);
    a = stream_new(loop, pair[0]);
    a->counted = &count;
    stream_on(a, on_stream, &count);
    stream_want(a, STREAM_READABLE);
    char data[8];
    cr_assert_eq(stream_read(a, data, sizeof data), -EAGAIN);
    cr_assert_eq(write(pair[1], "x", 1), 1);
    run();
    cr_assert_str_eq(seen, "x");
    close(pair[1]);
    run();
    cr_assert_str_eq(seen, "x$");
    cr_assert_eq(count, 0);
    loop_free(loop);
}

Test(stream, finish_ends_one_direction, .init = begin)
{
    int pair[2];
    cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair), 0);
    a = stream_new(loop, pair[0]);
    cr_assert_eq(stream_write(a, "abc", 3), 3);
    stream_finish(a);
    char data[8];
    cr_assert_eq(read(pair[1], data, sizeof data), 3);
    cr_assert_eq(read(pair[1], data, sizeof data), 0);
    cr_assert_eq(write(pair[1], "x", 1), 1);
    cr_assert_eq(stream_read(a, data, sizeof data), 1);
    close(pair[1]);
    cr_assert_eq(stream_write(a, "abc", 3), -EPIPE, "no signal");
    stream_close(a);
    run();
    loop_free(loop);
}
