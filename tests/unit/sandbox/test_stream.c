/* Output and input of the code: limits, truncation, and callers that read slowly, never, or no
 * longer. */
#include "base/cleanup.h"
#include "base/container.h"
#include "sandbox/stream.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

/* code → from: the stream reads there; to → caller: it writes there. */
struct joint {
    struct stream s;
    struct buf kept;
    int code;
    int caller;
};

static void join(struct joint *j, uint64_t limit, bool passed_on)
{
    int in[2], out[2] = {-1, -1};
    cr_assert_eq(pipe2(in, O_CLOEXEC), 0);
    if (passed_on)
        cr_assert_eq(pipe2(out, O_CLOEXEC), 0);
    buf_init(&j->kept, 1 << 22);
    stream_open(&j->s, in[0], out[1], &j->kept, limit);
    j->code = in[1];
    j->caller = out[0];
}

static void part(struct joint *j)
{
    int to = j->s.to;
    stream_done(&j->s);
    buf_done(&j->kept);
    close(j->code);
    if (to >= 0)
        close(to);
    if (j->caller >= 0)
        close(j->caller);
}

static void say(struct joint *j, const char *text)
{
    cr_assert_eq(write(j->code, text, strlen(text)), (ssize_t)strlen(text));
}

Test(stream, what_is_said_is_kept_and_passed_on)
{
    struct joint j;
    char got[16] = "";
    join(&j, UINT64_MAX, true);
    say(&j, "hello");
    cr_assert(stream_wants_read(&j.s) && !stream_wants_write(&j.s));
    stream_read(&j.s);
    cr_assert(!stream_wants_read(&j.s) && stream_wants_write(&j.s), "one block at a time");
    stream_write(&j.s);
    cr_assert_eq(read(j.caller, got, sizeof got), 5);
    cr_assert_str_eq(got, "hello");
    cr_assert_str_eq(buf_text(&j.kept), "hello");
    cr_assert(!j.s.truncated && j.s.total == 5);
    part(&j);
}

Test(stream, the_limit_is_exact)
{
    struct joint j;
    join(&j, 8, false);
    say(&j, "12345");
    stream_read(&j.s);
    say(&j, "678");
    stream_read(&j.s);
    cr_assert(!j.s.truncated && j.s.total == 8, "all of it fits");
    say(&j, "9");
    stream_read(&j.s);
    cr_assert(j.s.truncated && j.s.total == 8);
    cr_assert_str_eq(buf_text(&j.kept), "12345678");
    say(&j, "more, read and dropped");
    stream_read(&j.s);
    cr_assert(stream_wants_read(&j.s) && j.kept.len == 8, "the code goes on, nothing grows");
    part(&j);
}

Test(stream, no_limit_is_no_limit)
{
    struct joint j;
    join(&j, UINT64_MAX, false);
    j.s.total = UINT64_MAX - 3; /* as after a very long run */
    say(&j, "abc");
    stream_read(&j.s);
    cr_assert_eq(j.s.truncated, false);
    part(&j);
}

Test(stream, a_full_capture_is_told)
{
    struct joint j;
    join(&j, UINT64_MAX, false);
    buf_done(&j.kept);
    buf_init(&j.kept, 4);
    say(&j, "12345678");
    stream_read(&j.s);
    cr_assert(j.s.truncated);
    part(&j);
}

Test(stream, the_end_of_the_code)
{
    struct joint j;
    join(&j, UINT64_MAX, true);
    say(&j, "last");
    stream_read(&j.s);
    close(j.code);
    j.code = -1;
    stream_write(&j.s);
    cr_assert_not(stream_finished(&j.s));
    stream_read(&j.s);
    cr_assert(stream_finished(&j.s) && j.s.from == -1);
    part(&j);
}

Test(stream, nothing_to_read_is_not_the_end)
{
    struct joint j;
    join(&j, UINT64_MAX, false);
    stream_read(&j.s);
    cr_assert(j.s.from >= 0 && !stream_finished(&j.s));
    part(&j);
}

/* The descriptor of the caller may be blocking: only what poll promises is written. */
Test(stream, a_caller_that_never_reads_blocks_nobody, .timeout = 20)
{
    struct joint j;
    cleanup_free char *block = calloc(1, 60000);
    join(&j, UINT64_MAX, true);
    fcntl(j.code, F_SETFL, O_NONBLOCK);
    int rounds = 0;
    for (; rounds < 1000; rounds++) {
        while (write(j.code, block, 60000) > 0)
            ;
        if (stream_wants_read(&j.s))
            stream_read(&j.s);
        struct pollfd p = {.fd = j.s.to, .events = POLLOUT};
        if (poll(&p, 1, 0) == 0)
            break;
        stream_write(&j.s);
    }
    cr_assert_lt(rounds, 1000, "the pipe is full at some point");
    cr_assert(stream_wants_write(&j.s) && !stream_wants_read(&j.s),
              "and nothing more is taken from the code");
    part(&j);
}

Test(stream, a_caller_that_is_gone_does_not_end_the_code)
{
    struct joint j;
    signal(SIGPIPE, SIG_IGN);
    join(&j, UINT64_MAX, true);
    close(j.caller);
    j.caller = -1;
    int to = j.s.to;
    say(&j, "unheard");
    stream_read(&j.s);
    stream_write(&j.s);
    cr_assert(j.s.to == -1 && stream_wants_read(&j.s) && !stream_wants_write(&j.s));
    say(&j, "still running");
    stream_read(&j.s);
    cr_assert_str_eq(buf_text(&j.kept), "unheardstill running");
    close(to);
    part(&j);
}

/* ---- the other direction ---- */

/* ---- on a loop ---- */

struct looped {
    struct joint j;
    struct loop *loop;
    struct loop_timer end;
    unsigned rounds;
    bool hushed;
};

static void go_on(void *ctx, uint64_t usec)
{
    struct looped *l = ctx;
    (void)usec;
    l->rounds++;
    cr_assert_eq(stream_watch(&l->j.s, l->loop, l->hushed), 0);
}

static void on_end(struct loop_timer *t)
{
    loop_stop(container_of(t, struct looped, end)->loop);
}

static void run_for_a_moment(struct looped *l)
{
    l->rounds = 0;
    l->end = (struct loop_timer){.fn = on_end};
    loop_timer_set(l->loop, &l->end, 200);
    go_on(l, 0);
    loop_on_round(l->loop, go_on, l);
    cr_assert_eq(loop_run(l->loop), 0);
}

/* Somebody else has the same file open, as a child has that was forked a moment ago: the kernel
 * would go on to report its end. */
Test(stream, on_a_loop_it_is_carried_and_its_end_is_heard_once)
{
    struct looped l = {.hushed = true};
    char got[16] = "";
    cr_assert_eq(loop_new(&l.loop, NULL), 0);
    join(&l.j, UINT64_MAX, true);
    fcntl(l.j.caller, F_SETFL, O_NONBLOCK);
    cleanup_fd int copy = dup(l.j.s.from);
    cr_assert_geq(copy, 0);
    say(&l.j, "hello");
    run_for_a_moment(&l);
    cr_assert(stream_wants_write(&l.j.s) && read(l.j.caller, got, sizeof got) < 0, "hushed");
    l.hushed = false;
    close(l.j.code);
    l.j.code = -1;
    run_for_a_moment(&l);
    cr_assert(stream_finished(&l.j.s) && read(l.j.caller, got, sizeof got) == 5);
    cr_assert_str_eq(got, "hello");
    cr_assert_lt(l.rounds, 20, "%u rounds", l.rounds);
    stream_unwatch(&l.j.s);
    loop_free(l.loop);
    part(&l.j);
}

Test(feed, passes_on_and_closes_at_the_end)
{
    int from[2], to[2];
    char got[8] = "";
    static struct feed f;
    cr_assert(pipe2(from, O_CLOEXEC) == 0 && pipe2(to, O_CLOEXEC) == 0);
    feed_init(&f);
    f.from = from[0];
    f.to = to[1];
    cr_assert_eq(write(from[1], "abc", 3), 3);
    cr_assert(feed_wants_read(&f) && !feed_wants_write(&f));
    feed_read(&f);
    cr_assert(!feed_wants_read(&f) && feed_wants_write(&f));
    feed_write(&f);
    cr_assert_eq(read(to[0], got, sizeof got), 3);
    close(from[1]);
    feed_read(&f);
    cr_assert(f.to == -1 && !feed_wants_read(&f) && !feed_wants_write(&f));
    cr_assert_eq(read(to[0], got, sizeof got), 0, "the code sees the end of its input");
}

Test(feed, code_that_closes_its_input_stops_the_reading)
{
    int from[2], to[2];
    static struct feed f;
    signal(SIGPIPE, SIG_IGN);
    cr_assert(pipe2(from, O_CLOEXEC) == 0 && pipe2(to, O_CLOEXEC) == 0);
    feed_init(&f);
    f.from = from[0];
    f.to = to[1];
    close(to[0]);
    cr_assert_eq(write(from[1], "abc", 3), 3);
    feed_read(&f);
    feed_write(&f);
    cr_assert(f.to == -1 && !feed_wants_read(&f) && !feed_wants_write(&f));
}

Test(feed, the_end_of_input_does_not_close_a_terminal)
{
    int from[2], to[2];
    static struct feed f;
    cr_assert(pipe2(from, O_CLOEXEC) == 0 && pipe2(to, O_CLOEXEC) == 0);
    feed_init(&f);
    f.from = from[0];
    f.to = to[1];
    f.tty = true;
    close(from[1]);
    feed_read(&f);
    cr_assert(f.eof && f.to == to[1]);
    feed_done(&f);
    cr_assert(f.to == -1 && fcntl(to[1], F_GETFD) < 0, "the end of the run does");
}
