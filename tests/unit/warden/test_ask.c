/* What a warden does with requests that init does not carry out, or not in time. */
#include "warden/session.h"

#include "os/rights.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <mqueue.h>
#include <signal.h>
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

/* ---- what init hands out ---- */

/* A queue tells this process when something comes; that is over when this process closes any
 * descriptor of the queue's. So it is seen whether one was closed here. */
static mqd_t queue;

static bool is_registered(void)
{
    const struct sigevent none = {.sigev_notify = SIGEV_NONE};
    return mq_notify(queue, &none) < 0 && errno == EBUSY;
}

static void hand_out(void)
{
    struct ctl_msg msg = {.type = CTL_TTY, .request = 12345};
    struct iovec part = {&msg, sizeof msg};
    const struct sigevent none = {.sigev_notify = SIGEV_NONE};
    int on = 1, copy;
    begin(false);
    cr_assert_eq(setsockopt(w.s->ctl_fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof on), 0);
    queue = mq_open("/test-brig-ask", O_RDWR | O_CREAT | O_CLOEXEC, 0600, NULL);
    cr_assert(queue >= 0, "%s", strerror(errno));
    mq_unlink("/test-brig-ask");
    copy = (int)queue;
    cr_assert_eq(rights_send(init, &part, 1, &copy, 1, 0), (ssize_t)sizeof msg);
    cr_assert_eq(mq_notify(queue, &none), 0);
    cr_assert(is_registered());
}

Test(ask, what_nobody_asked_for_is_not_closed_by_the_warden)
{
    hand_out();
    ask_hear(&w, false);
    cr_expect(is_registered());
    cr_expect_eq(heard_by(w.s->ctl_fd).type, CTL_NONE, "it was heard all the same");
}

Test(ask, control_where_a_connection_is_awaited_it_is)
{
    struct err err = ERR_INIT;
    hand_out();
    cr_assert_not_null(ask_new(&w, WIRE_CONNECT, 1, &err));
    ask_hear(&w, false);
    cr_expect_not(is_registered());
}
