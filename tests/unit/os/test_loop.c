#include "os/loop.h"

#include "base/cleanup.h"
#include "base/clock.h"

#include "../../lib/unit/loop_seen.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

/* Runs for a moment. */
static void run(void)
{
    run_for(500);
}

struct named_timer {
    struct loop_timer t;
    char name;
};

static void on_timer(struct loop_timer *t)
{
    note(((struct named_timer *)t)->name);
}

Test(loop, timers_come_in_their_order, .init = begin)
{
    struct named_timer t[26] = {0};
    for (int i = 0; i < 26; i++) {
        t[i] = (struct named_timer){.t.fn = on_timer, .name = (char)('a' + i)};
        loop_timer_set(loop, &t[i].t, (uint64_t)(1 + (i * 7) % 26)); /* a permutation */
    }
    for (int i = 0; i < 26; i++)
        loop_timer_set(loop, &t[i].t, (uint64_t)(1 + (i * 11) % 26)); /* moved */
    loop_timer_cancel(loop, &t[3].t);
    loop_timer_cancel(loop, &t[3].t);
    run();
    cr_assert_eq(strlen(seen), 25);
    for (size_t i = 1; i < 25; i++)
        cr_assert_lt((seen[i - 1] - 'a') * 11 % 26, (seen[i] - 'a') * 11 % 26);
    cr_assert_null(strchr(seen, 'd'));
    loop_free(loop);
}

static struct loop_task task;
static void on_task(struct loop_task *t)
{
    note('t');
    if (strlen(seen) < 3)
        loop_defer(loop, t);
}

Test(loop, who_stops_it_before_it_runs_has_stopped_it, .init = begin)
{
    struct named_timer never = {.t.fn = on_timer, .name = 'x'};
    loop_timer_set(loop, &never.t, 0);
    loop_stop(loop);
    cr_assert_eq(loop_run(loop), 0);
    cr_assert_str_eq(seen, "");
    run(); /* and the next time it runs */
    cr_assert_str_eq(seen, "x");
}

Test(loop, a_task_runs_once_and_may_ask_again, .init = begin)
{
    task.fn = on_task;
    loop_defer(loop, &task);
    loop_defer(loop, &task);
    run();
    cr_assert_str_eq(seen, "ttt");
    loop_free(loop);
}

static struct loop_io ios[2];
static void on_io_forget_other(struct loop_io *io, uint32_t events)
{
    cr_assert(events & EPOLLIN);
    note('i');
    loop_forget(loop, &ios[io == &ios[0]]);
    loop_forget(loop, io);
}

Test(loop, what_was_forgotten_in_the_same_round_is_not_called, .init = begin)
{
    for (int i = 0; i < 2; i++) {
        int pair[2];
        cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
        cr_assert_eq(write(pair[1], "x", 1), 1);
        ios[i] = (struct loop_io){.fd = pair[0], .fn = on_io_forget_other};
        cr_assert_eq(loop_watch(loop, &ios[i], EPOLLIN), 0);
    }
    run();
    cr_assert_str_eq(seen, "i");
    loop_free(loop);
}

static void on_io_silent(struct loop_io *io, uint32_t events)
{
    (void)events;
    note('s');
    loop_watch(loop, io, 0);
}

Test(loop, what_is_closed_is_forgotten_and_may_be_closed_again, .init = begin)
{
    int pair[2];
    cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    struct loop_io io = {.fd = pair[0]};
    cr_assert_eq(loop_watch(loop, &io, EPOLLIN), 0);
    loop_close(loop, &io);
    cr_expect_eq(io.fd, -1);
    char byte;
    cr_expect_eq(recv(pair[1], &byte, 1, MSG_DONTWAIT), 0, "the other end sees it");
    loop_close(loop, &io);
    cr_expect_eq(io.fd, -1);
    close(pair[1]);
}

Test(loop, who_wants_nothing_is_not_called_even_for_a_hang_up, .init = begin)
{
    int pair[2];
    cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    cr_assert_eq(write(pair[1], "x", 1), 1);
    close(pair[1]);
    ios[0] = (struct loop_io){.fd = pair[0], .fn = on_io_silent};
    loop_watch(loop, &ios[0], EPOLLIN);
    run();
    cr_assert_str_eq(seen, "s");
    loop_watch(loop, &ios[0], EPOLLIN);
    run();
    cr_assert_str_eq(seen, "ss", "and is called again when it wants again");
    loop_free(loop);
}

static void on_file(struct loop_io *io, uint32_t events)
{
    cr_assert_eq(events, EPOLLIN);
    note('f');
    if (strlen(seen) == 3)
        loop_watch(loop, io, 0);
    if (strlen(seen) == 5)
        loop_forget(loop, io);
}

/* epoll takes neither; poll says of both that they are always ready. */
Test(loop, a_file_is_always_ready, .init = begin)
{
    const char *const paths[] = {"/proc/self/exe", "/dev/null"};
    for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
        cleanup_fd int fd = open(paths[i], O_RDONLY | O_CLOEXEC);
        ios[0] = (struct loop_io){.fd = fd, .fn = on_file};
        memset(seen, 0, sizeof seen);
        cr_assert_eq(loop_watch(loop, &ios[0], EPOLLIN), 0);
        run();
        cr_assert_str_eq(seen, "fff", "until it wants nothing");
        cr_assert_eq(loop_watch(loop, &ios[0], EPOLLERR), 0);
        run();
        cr_assert_str_eq(seen, "fff", "nor is it ever broken");
        cr_assert_eq(loop_watch(loop, &ios[0], EPOLLIN), 0);
        run();
        cr_assert_str_eq(seen, "fffff", "until it is forgotten");
    }
    loop_free(loop);
}

static struct loop *task_loop;
static struct loop_task task_a, task_b, task_c;
static unsigned tasks_run;

static void take_back(struct loop_task *t)
{
    (void)t;
    tasks_run++;
    loop_undefer(task_loop, &task_b); /* the next in line, of the same round */
    loop_undefer(task_loop, &task_b);
    loop_stop(task_loop);
}

static void count_task(struct loop_task *t)
{
    tasks_run += t == &task_b ? 100 : 10;
}

Test(loop, a_task_can_be_taken_back)
{
    cr_assert_eq(loop_new(&task_loop, NULL), 0);
    task_a.fn = take_back;
    task_b.fn = task_c.fn = count_task;
    loop_defer(task_loop, &task_a);
    loop_defer(task_loop, &task_b);
    loop_defer(task_loop, &task_c);
    cr_assert_eq(loop_run(task_loop), 0);
    cr_assert_eq(tasks_run, 11, "the others ran, once");
    loop_defer(task_loop, &task_b);
    loop_defer(task_loop, &task_a);
    loop_undefer(task_loop, &task_a); /* the last one: the next is queued behind what is left */
    loop_defer(task_loop, &task_a);
    cr_assert_eq(loop_run(task_loop), 0);
    cr_assert_eq(tasks_run, 112);
    loop_free(task_loop);
}

/* ---- shares ---- */

static struct loop_io shared[4];
static struct loop_share greedy, modest;
static unsigned served[4], rounds;

static void on_share_io(struct loop_io *io, uint32_t events)
{
    (void)events;
    served[io - shared]++;
    if (io->share == &greedy) /* more than its part */
        for (uint64_t end = clock_us() + 1500; clock_us() < end;)
            ;
}

static void on_share_round(struct loop_task *t)
{
    if (++rounds < 12)
        loop_defer(loop, t);
    else
        loop_stop(loop);
}

/* All of them are ready all the time. In each round one of the greedy ones is served, each of them
 * in its turn, and who has another share does not wait. */
Test(loop, who_has_had_its_share_waits_and_others_do_not, .init = begin)
{
    struct loop_task round = {.fn = on_share_round};
    for (int i = 0; i < 4; i++) {
        int pair[2];
        cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
        cr_assert_eq(write(pair[1], "x", 1), 1);
        shared[i] =
            (struct loop_io){.fd = pair[0], .fn = on_share_io, .share = i < 3 ? &greedy : &modest};
        cr_assert_eq(loop_watch(loop, &shared[i], EPOLLIN), 0);
    }
    loop_defer(loop, &round);
    cr_assert_eq(loop_run(loop), 0);
    cr_expect_eq(served[3], 12, "in every round: %u", served[3]);
    cr_expect_eq(served[0] + served[1] + served[2], 12, "one in every round: %u %u %u", served[0],
                 served[1], served[2]);
    for (int i = 0; i < 3; i++)
        cr_expect_geq(served[i], 2, "each has its turn: %u %u %u", served[0], served[1], served[2]);
    loop_free(loop);
}

/* ---- timers with a share ---- */

static struct loop_timer turns[3];
static unsigned turned[3];
static uint64_t time_ms;

static uint64_t later(void)
{
    return time_ms += 2;
}

static void on_turn(struct loop_timer *t)
{
    turned[t - turns]++;
    if (t->share == &greedy)
        for (uint64_t end = clock_us() + 1500; clock_us() < end;)
            ;
    loop_timer_set(loop, t, 1);
}

/* Work in turns counts like what a descriptor brings: two of one group have one turn in a round. */
Test(loop, a_timer_whose_share_is_used_up_waits_for_another_round, .init = begin)
{
    struct loop_task round = {.fn = on_share_round};
    loop_set_clock(loop, later);
    for (int i = 0; i < 3; i++) {
        turns[i] = (struct loop_timer){.fn = on_turn, .share = i < 2 ? &greedy : &modest};
        loop_timer_set(loop, &turns[i], 0);
    }
    loop_defer(loop, &round);
    cr_assert_eq(loop_run(loop), 0);
    cr_expect_eq(turned[2], 12, "in every round: %u", turned[2]);
    cr_expect_eq(turned[0] + turned[1], 12, "one in every round: %u %u", turned[0], turned[1]);
    cr_expect(turned[0] >= 2 && turned[1] >= 2, "each has its turn: %u %u", turned[0], turned[1]);
    loop_free(loop);
}
