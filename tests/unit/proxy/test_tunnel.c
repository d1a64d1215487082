/* With rounds of one byte, so that every tunnel has to give way after each step. */
#define ROUND_MAX 1
#include "proxy/tunnel.c"

#include <criterion/criterion.h>
#include <sys/socket.h>

static struct proxy px;
static int inside, outside; /* the far ends */

static void stop(struct loop_timer *t)
{
    (void)t;
    loop_stop(px.loop);
}

static void run(void)
{
    struct loop_timer end = {.fn = stop};
    loop_timer_set(px.loop, &end, 30);
    cr_assert_eq(loop_run(px.loop), 0);
}

static struct stream *half(int *ret_far)
{
    int pair[2];
    cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair), 0);
    *ret_far = pair[1];
    return stream_new(px.loop, pair[0]);
}

static void begin(uint64_t upload)
{
    int pair[2];
    cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, pair), 0);
    px.control_fd = pair[0];
    cr_assert_eq(loop_new(&px.loop, NULL), 0);
    px.rules = calloc(1, sizeof *px.rules);
    px.rules->refs = 1;
    egress_init(&px.rules->egress);
    px.rules->egress.upload = upload;
    cr_assert_eq(budgets_init(&px.budgets, &px.rules->egress, NULL), 0);
    struct tunnel_options o = {.px = &px, .rule = SIZE_MAX};
    cr_assert_eq(host_parse("a.test", 6, false, &o.target.host, NULL), 0);
    struct stream *client = half(&inside);
    tunnel_start(&o, client, half(&outside));
}

static void finish(void)
{
    tunnels_end(&px);
    run();
    budgets_done(&px.budgets);
    rules_drop(px.rules);
    loop_free(px.loop);
    close(inside);
    close(outside);
}

/* What can be read now, and whether that is all. */
static bool take(int fd, char *out, size_t size)
{
    size_t len = 0;
    ssize_t n;
    while ((n = read(fd, out + len, size - 1 - len)) > 0)
        len += (size_t)n;
    out[len] = '\0';
    return n == 0;
}

Test(tunnel, an_end_is_passed_on_at_the_end_of_a_round)
{
    char text[64];
    begin(UINT64_MAX);
    cr_assert_eq(write(outside, "last words", 10), 10);
    shutdown(outside, SHUT_WR);
    run();
    cr_assert(take(inside, text, sizeof text), "the end has come");
    cr_assert_str_eq(text, "last words");
    cr_assert_eq(write(inside, "and back", 8), 8);
    run();
    cr_assert_not(take(outside, text, sizeof text), "the other direction is open");
    cr_assert_str_eq(text, "and back");
    shutdown(inside, SHUT_WR);
    run();
    cr_assert(take(outside, text, sizeof text));
    cr_assert_null(px.tunnels);
    finish();
}

Test(tunnel, a_budget_ends_it_at_the_end_of_a_round)
{
    char text[64];
    begin(4);
    cr_assert_eq(write(inside, "four", 4), 4);
    run();
    cr_assert_not(take(outside, text, sizeof text), "control: all of it, and no end");
    cr_assert_str_eq(text, "four");
    cr_assert_eq(write(inside, "more", 4), 4);
    run();
    cr_assert(take(outside, text, sizeof text));
    cr_assert_str_eq(text, "");
    cr_assert_null(px.tunnels);
    finish();
}

Test(tunnel, a_cut_pipe_is_not_used_again)
{
    char text[64];
    begin(4);
    cr_assert_eq(write(inside, "secret of one", 13), 13);
    run();
    cr_assert(take(outside, text, sizeof text));
    cr_assert_str_eq(text, "secr");
    finish();
    begin(UINT64_MAX);
    cr_assert_eq(write(inside, "other", 5), 5);
    run();
    take(outside, text, sizeof text);
    cr_assert_str_eq(text, "other");
    finish();
}
