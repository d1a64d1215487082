/* Several streams over one, with real pipes at both ends; and a peer that says what it likes. */
#include "plan/lines.h"

#include "base/err.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static struct lines near, far; /* the host's side, the guest's */
static enum lines_type heard;
static unsigned heard_count;

static int hear(void *ctx, const struct lines_frame *f)
{
    (void)ctx;
    heard = f->type;
    heard_count++;
    return 0;
}

static void make_pair(int pair[2])
{
    cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair), 0);
    signal(SIGPIPE, SIG_IGN);
}

/* The outer end of a pipe whose inner one is a channel's. */
static int open_pipe(struct lines *l, unsigned channel, enum lines_way way)
{
    int ends[2];
    cr_assert_eq(pipe2(ends, O_NONBLOCK | O_CLOEXEC), 0);
    lines_open(l, channel, way, ends[way == LINES_IN]);
    return ends[way != LINES_IN];
}

static int step(struct lines *l)
{
    struct pollfd fds[LINES_FDS];
    lines_watch(l, fds);
    cr_assert_geq(poll(fds, LINES_FDS, 0), 0);
    return lines_step(l, fds);
}

static void step_both(unsigned times)
{
    for (unsigned i = 0; i < times; i++) {
        cr_assert_eq(step(&near), 0);
        cr_assert_eq(step(&far), 0);
    }
}

static void begin(void)
{
    int pair[2];
    make_pair(pair);
    lines_init(&near, pair[0], hear, NULL);
    lines_init(&far, pair[1], hear, NULL);
    heard_count = 0;
}

static ssize_t take(int fd, void *to, size_t len)
{
    ssize_t n = read(fd, to, len);
    return n < 0 && errno == EAGAIN ? -EAGAIN : n;
}

Test(lines, bytes_and_their_end_come_through)
{
    char got[16];
    begin();
    int in = open_pipe(&near, 0, LINES_OUT), out = open_pipe(&near, 1, LINES_IN);
    int code_in = open_pipe(&far, 0, LINES_IN), code_out = open_pipe(&far, 1, LINES_OUT);
    cr_assert_eq(write(in, "to it", 5), 5);
    cr_assert_eq(write(code_out, "from it", 7), 7);
    step_both(4);
    cr_assert_eq(take(code_in, got, sizeof got), 5);
    cr_assert_eq(take(code_in, got, sizeof got), -EAGAIN, "its end did not come yet");
    cr_assert_eq(take(out, got, sizeof got), 7);
    close(in);
    close(code_out);
    cr_assert_not(lines_over(&near, LINES_IN));
    step_both(4);
    cr_assert_eq(take(code_in, got, sizeof got), 0);
    cr_assert_eq(take(out, got, sizeof got), 0);
    cr_assert(lines_over(&near, LINES_IN) && lines_over(&far, LINES_OUT));
}

/* VM-24 */
Test(lines, one_that_is_not_read_holds_up_no_other)
{
    static char much[4096];
    char got[16];
    size_t written = 0;
    begin();
    open_pipe(&near, 1, LINES_IN); /* whose reader takes nothing */
    int errors = open_pipe(&near, 2, LINES_IN);
    int code_out = open_pipe(&far, 1, LINES_OUT), code_errors = open_pipe(&far, 2, LINES_OUT);
    for (unsigned quiet = 0; quiet < 8; quiet++) {
        ssize_t n = write(code_out, much, sizeof much);
        written += n > 0 ? (size_t)n : 0;
        quiet = n > 0 ? 0 : quiet;
        step_both(2);
    }
    cr_assert_eq(far.channels[1].credit, 0u, "it stands still");
    cr_assert_leq(near.channels[1].len, LINES_WINDOW);
    cr_assert_leq(written, 3 * 65536 + 2 * LINES_WINDOW);
    cr_assert_eq(write(code_errors, "heard", 5), 5);
    const uint8_t number = SIGTERM;
    cr_assert(lines_say(&near, LINES_SIGNAL, &number, 1));
    step_both(4);
    cr_assert_eq(take(errors, got, sizeof got), 5);
    cr_assert(heard_count == 1 && heard == LINES_SIGNAL);
}

/* Much more than a window, both ways at once, comes through as it was. */
Test(lines, credit_is_given_back)
{
    static uint8_t sent, expected;
    size_t come = 0;
    begin();
    int out = open_pipe(&near, 1, LINES_IN), code_out = open_pipe(&far, 1, LINES_OUT);
    for (unsigned round = 0; come < 40 * LINES_WINDOW; round++) {
        uint8_t piece[1777];
        for (size_t i = 0; i < sizeof piece; i++)
            piece[i] = (uint8_t)(sent + i);
        ssize_t n = write(code_out, piece, sizeof piece);
        sent = (uint8_t)(sent + (n > 0 ? n : 0));
        step_both(1);
        while ((n = take(out, piece, sizeof piece)) > 0)
            for (ssize_t i = 0; i < n; i++, come++)
                cr_assert_eq(piece[i], expected++);
        cr_assert_lt(round, 100000u);
    }
}

/* What is typed comes back: both ways at once, and neither waits for the other for ever. */
Test(lines, an_echo_of_much)
{
    static uint8_t piece[5000], held[5000];
    size_t sent = 0, come = 0, held_len = 0;
    begin();
    int in = open_pipe(&near, 0, LINES_OUT), out = open_pipe(&near, 1, LINES_IN);
    int code_in = open_pipe(&far, 0, LINES_IN), code_out = open_pipe(&far, 1, LINES_OUT);
    for (unsigned round = 0; come < 40 * LINES_WINDOW; round++) {
        ssize_t n = write(in, piece, sizeof piece);
        sent += n > 0 ? (size_t)n : 0;
        step_both(1);
        if (held_len == 0 && (n = take(code_in, held, sizeof held)) > 0)
            held_len = (size_t)n;
        if (held_len > 0 && write(code_out, held, held_len) == (ssize_t)held_len)
            held_len = 0;
        while ((n = take(out, piece, sizeof piece)) > 0)
            come += (size_t)n;
        cr_assert_lt(round, 100000u, "%zu of %zu", come, sent);
    }
}

Test(lines, who_reads_no_more_is_told_of)
{
    begin();
    int out = open_pipe(&near, 1, LINES_IN), code_out = open_pipe(&far, 1, LINES_OUT);
    close(out);
    cr_assert_eq(write(code_out, "x", 1), 1, "the control: somebody reads");
    step_both(6);
    cr_assert(write(code_out, "x", 1) < 0 && errno == EPIPE);
    cr_assert(far.fd >= 0 && near.fd >= 0);
}

/* VM-23, VM-25: what a hostile peer may say ends the stream, and nothing else. */
static int said(const void *bytes, size_t len)
{
    int pair[2];
    make_pair(pair);
    lines_init(&near, pair[0], hear, NULL);
    open_pipe(&near, 0, LINES_OUT);
    open_pipe(&near, 1, LINES_IN);
    cr_assert_eq(write(pair[1], bytes, len), (ssize_t)len);
    int r = 0;
    for (int i = 0; i < 16 && r == 0 && near.fd >= 0; i++)
        r = step(&near);
    cr_assert(r == 0 || near.fd < 0);
    close(pair[1]);
    lines_close(&near);
    return r;
}

Test(lines, a_stream_that_breaks_the_rules_ends)
{
    static const struct {
        uint8_t bytes[16];
        size_t len;
        bool good;
        const char *what;
    } rows[] = {
        {{LINES_DATA, 1, 0, 1, 'x'}, 5, true, "the control: data"},
        {{LINES_CREDIT, 0, 0, 4}, 8, true, "the control: no more credit"},
        {{LINES_EXIT, 0, 0, 8}, 12, true, "the control: a word"},
        {{LINES_GONE, 0, 0, 0}, 4, true, "the control: who reads has gone"},
        {{LINES_NONE, 0, 0, 0}, 4, false, "no type"},
        {{LINES_TYPE_COUNT, 0, 0, 0}, 4, false, "no such type"},
        {{LINES_DATA, 1, 0, 0}, 4, false, "data that is none"},
        {{LINES_DATA, 1, 0x20, 1}, 4, false, "a piece that is too long"},
        {{LINES_DATA, 0, 0, 1, 'x'}, 5, false, "data against the way"},
        {{LINES_DATA, 2, 0, 1, 'x'}, 5, false, "data on a channel that is not open"},
        {{LINES_DATA, LINES_CHANNELS, 0, 1, 'x'}, 5, false, "no such channel"},
        {{LINES_CREDIT, 0, 0, 4, 1, 0, 0, 0}, 8, false, "credit beyond the window"},
        {{LINES_CREDIT, 1, 0, 4}, 8, false, "credit against the way"},
        {{LINES_CREDIT, 0, 0, 3}, 7, false, "half a credit"},
        {{LINES_END, 0, 0, 0}, 4, false, "an end against the way"},
        {{LINES_END, 1, 0, 0, LINES_END, 1, 0, 0}, 8, false, "two ends"},
        {{LINES_END, 1, 0, 0, LINES_DATA, 1, 0, 1, 'x'}, 9, false, "data after the end"},
        {{LINES_GONE, 1, 0, 0}, 4, false, "nobody reads what nobody sends"},
        {{LINES_EXIT, 1, 0, 8}, 12, false, "a word about a channel"},
        {{LINES_EXIT, 0, 0, 9}, 13, false, "a word that is too long"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        cr_expect_eq(said(rows[i].bytes, rows[i].len) == 0, rows[i].good, "%s", rows[i].what);
}

/* VM-23: more than was granted, of a reader that takes nothing. */
Test(lines, more_than_was_granted_ends_the_stream)
{
    int pair[2], r = 0;
    static uint8_t frame[LINES_FRAME_MAX], piece[LINES_PIECE];
    make_pair(pair);
    lines_init(&near, pair[0], hear, NULL);
    int out = open_pipe(&near, 1, LINES_IN);
    cr_assert_gt(fcntl(out, F_SETPIPE_SZ, 4096), 0);
    size_t len = lines_write(frame, LINES_DATA, 1, piece, sizeof piece);
    unsigned frames = 0;
    for (; frames < 64 && r == 0; frames++) {
        cr_assert_eq(write(pair[1], frame, len), (ssize_t)len);
        for (int i = 0; i < 4 && r == 0; i++)
            r = step(&near);
        cr_assert_leq(near.channels[1].len, LINES_WINDOW);
    }
    cr_assert_eq(r, -EPROTO);
    cr_assert_eq(frames, LINES_WINDOW / LINES_PIECE + 1);
}

/* The other side may be gone before a reader has taken all that it said. */
Test(lines, what_came_before_the_streams_end_goes_on)
{
    static char much[20000];
    char got[4096];
    size_t come = 0;
    begin();
    int out = open_pipe(&near, 1, LINES_IN), code_out = open_pipe(&far, 1, LINES_OUT);
    cr_assert_gt(fcntl(out, F_SETPIPE_SZ, 4096), 0);
    cr_assert_eq(write(code_out, much, sizeof much), (ssize_t)sizeof much);
    step_both(6);
    lines_close(&far);
    for (ssize_t n = 1; n != 0;) {
        cr_assert_eq(step(&near), 0);
        n = take(out, got, sizeof got);
        come += n > 0 ? (size_t)n : 0;
    }
    cr_assert_eq(come, sizeof much);
    cr_assert(near.fd < 0 && lines_over(&near, LINES_IN));
}

/* What was written when the program ended is more than may be sent at once: its end waits for it.
 */
Test(lines, what_is_due_is_known)
{
    static char much[3 * LINES_WINDOW / 2];
    char got[4096];
    begin();
    int out = open_pipe(&near, 1, LINES_IN), code_out = open_pipe(&far, 1, LINES_OUT);
    cr_assert_gt(fcntl(out, F_SETPIPE_SZ, 4096), 0);
    cr_assert_eq(write(code_out, much, sizeof much), (ssize_t)sizeof much);
    lines_note_due(&far);
    lines_drain(&far);
    step_both(20);
    cr_assert_not(lines_sent_due(&far), "the reader takes nothing");
    cr_assert_not(lines_written(&near));
    for (int i = 0; i < 200; i++) {
        step_both(1);
        (void)take(out, got, sizeof got);
    }
    cr_assert(lines_sent_due(&far) && lines_written(&near));
}

/* What is there when the program has ended goes before the word that it did. */
Test(lines, what_was_written_goes_before_the_last_word)
{
    const struct lines_exit e = {.status = 7 << 8};
    char got[16];
    begin();
    int out = open_pipe(&near, 1, LINES_IN), code_out = open_pipe(&far, 1, LINES_OUT);
    cr_assert_eq(write(code_out, "last", 4), 4);
    lines_drain(&far);
    cr_assert(lines_say(&far, LINES_EXIT, &e, sizeof e));
    step(&far);
    cr_assert_eq(heard_count, 0u);
    step(&near);
    cr_assert(heard_count == 1 && heard == LINES_EXIT);
    cr_assert_eq(take(out, got, sizeof got), 4);
}
