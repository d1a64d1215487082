/* What a warden does with requests that init does not carry out, or not in time. */
#include "warden/session.h"

#include <criterion/criterion.h>
#include <sys/socket.h>

static struct policy policy;
static struct run_request request = {.policy = &policy};
static struct run_result result;
static struct warden w;
static int init, beside, front; /* the other ends */

static int connect_to(int *ours)
{
    int pair[2];
    cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), 0);
    *ours = pair[0];
    return pair[1];
}

static void begin(bool two_users)
{
    run_result_init(&result);
    cr_assert_not_null(w.s = sandbox_new(&request, &result));
    cr_assert_eq(loop_new(&w.loop, NULL), 0);
    init = connect_to(&w.s->ctl_fd);
    front = connect_to(&w.front.fd);
    if (two_users)
        beside = connect_to(&w.s->beside.fd);
}

static struct ctl_msg heard_by(int fd)
{
    struct ctl_msg msg = {.type = CTL_NONE};
    recv(fd, &msg, sizeof msg, 0);
    return msg;
}

static void expect_freeze(int fd, int value)
{
    struct ctl_msg m = heard_by(fd);
    cr_expect(m.type == CTL_FREEZE && m.value == value, "%u %d", m.type, m.value);
}

static void order(int value)
{
    struct wire_msg *m = calloc(1, sizeof *m);
    struct err err = ERR_INIT;
    m->type = WIRE_FREEZE;
    m->request = 7;
    m->value = value;
    cr_assert_eq(ask_freeze(&w, m, &err), 0, "%s", err.message);
    free(m);
}

static void late(void)
{
    struct err err = ERR_INIT;
    err_set(&err, ERR_SYSTEM, "late");
    ask_fail(w.asks, &err);
    cr_expect_null(w.asks);
}

/* The front was told that the sandbox runs. It would stand when init gets to it, and nobody could
 * resume it. */
Test(ask, a_pause_that_failed_does_not_come_later)
{
    begin(false);
    order(1);
    late();
    expect_freeze(init, 1);
    expect_freeze(init, 0);
    cr_expect_eq(heard_by(init).type, CTL_NONE);
    cr_expect_not(w.frozen);
}

Test(ask, a_resume_that_failed_does_not_come_later)
{
    begin(false);
    order(0);
    late();
    expect_freeze(init, 0);
    expect_freeze(init, 1);
}

/* Root's part stands already when the other one is asked. */
Test(ask, half_a_pause_is_taken_back)
{
    begin(true);
    order(1);
    struct ctl_msg asked = heard_by(beside);
    struct ctl_msg done = {.type = CTL_ANSWER, .request = asked.request};
    cr_assert_eq(send(beside, &done, sizeof done, 0), (ssize_t)sizeof done);
    ask_hear(&w, true);
    expect_freeze(init, 1);
    late();
    expect_freeze(init, 0);
    expect_freeze(beside, 0);
    cr_expect_not(w.over);
}
