/* While the code runs: its streams, what it is refused, its limits, signals of the caller, and its
 * end. */
#include "base/clock.h"
#include "base/container.h"
#include "sandbox/internal.h"

#include <errno.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#ifndef SO_PASSRIGHTS
#define SO_PASSRIGHTS 83
#endif

#define FIRST_SAMPLE_MS 20
/* After SIGTERM the code gets this long to end by itself. */
#define GRACE_MS 2000

struct supervisor {
    struct sandbox *s;
    struct loop *loop;
    struct loop_io ctl, init, signals, guardian, pump, seen, proxy, names, change, lifeline;
    struct loop_io asks; /* of all questions that stand */
    struct loop_timer sampling, deadline, grace, seen_pause, ask_time;
    bool over; /* the code ended, or was told to by a limit or a signal */
    bool guardian_died, pump_died;
    int failed; /* a negative errno: something could not be watched */
};

static void stop(struct supervisor *l)
{
    l->over = true;
    loop_stop(l->loop);
}

/* A run that cannot hear of something is not kept up. */
static void check(struct supervisor *l, int result)
{
    if (result >= 0)
        return;
    l->failed = result;
    loop_stop(l->loop);
}

static void watch(struct supervisor *l, struct loop_io *io, int fd, uint32_t events,
                  void (*fn)(struct loop_io *io, uint32_t events))
{
    *io = (struct loop_io){.fd = fd, .fn = fn};
    if (fd >= 0)
        check(l, loop_watch(l->loop, io, events));
}

/* ---- init ---- */

/* Valid only from the process that was to become the code, or from init, before the code's first
 * instruction. */
static bool is_start_failure(const struct sandbox *s, const struct ctl_msg *msg, pid_t pid)
{
    bool from_code = msg->type == CTL_EXEC_FAIL && pid == s->code_pid;
    bool from_init = msg->type == CTL_FAIL && pid == s->init_pid;
    return (from_code || from_init) && err_code_known(msg->err.code);
}

/* False: nothing more is there. */
static bool hear(struct supervisor *l)
{
    struct ctl_msg msg;
    pid_t pid;
    struct sandbox *s = l->s;
    if (s->ctl_fd < 0)
        return false;
    errno = 0; /* a message that is nonsense leaves it as it was */
    int got = message_receive(s->ctl_fd, &msg, NULL, &pid, MSG_DONTWAIT, NULL);
    bool none = got < 0 && errno == EAGAIN;
    if (got > 0 && msg.type == CTL_EXIT && !s->have_status) {
        s->have_status = true;
        s->wait_status = msg.value;
        stop(l);
    } else if (got > 0 && !s->exec_failed && is_start_failure(s, &msg, pid)) {
        s->exec_failed = true;
        s->exec_err = msg.err;
    } else if (got <= 0 && !none) {
        if (got < 0)
            check(l, -errno);
        /* init closed its end: its death is seen on the pidfd. */
        loop_forget(l->loop, &l->ctl);
        close(s->ctl_fd);
        s->ctl_fd = -1;
    }
    return got > 0;
}

static void on_ctl(struct loop_io *io, uint32_t events)
{
    (void)events;
    hear(container_of(io, struct supervisor, ctl));
}

/* What init said before it ended may not have been heard yet. */
static void on_init(struct loop_io *io, uint32_t events)
{
    struct supervisor *l = container_of(io, struct supervisor, init);
    (void)events;
    while (!l->s->have_status && hear(l))
        ;
    stop(l);
}

/* ---- signals of the caller ---- */

static uint64_t cpu_used(struct sandbox *s)
{
    lifecycle_sample(&s->lifecycle); /* a limit that it finds is found again by the next one */
    return s->lifecycle.usage.code_usec;
}

/* LC-10: a timer of the code's can let it go on; then its time was not standing. */
static void stop_with_the_caller(struct sandbox *s)
{
    uint64_t before = clock_us(), used = cpu_used(s);
    if (s->ctl_fd >= 0)
        message_send(s->ctl_fd, CTL_FREEZE, 1);
    raise(SIGSTOP);
    bool went_on = cpu_used(s) >= used + LIFECYCLE_STILL_USEC;
    if (s->ctl_fd >= 0)
        message_send(s->ctl_fd, CTL_FREEZE, 0);
    uint64_t away = went_on ? 0 : clock_us() - before;
    s->stopped_us += away;
    if (s->lifecycle.deadline_us)
        s->lifecycle.deadline_us += away;
}

static void end_by_signal(struct supervisor *l, int sig)
{
    struct sandbox *s = l->s;
    s->ended_by_signal = sig;
    s->forwarded++;
    if (s->ctl_fd < 0 || s->forwarded > 1 || message_send(s->ctl_fd, CTL_SIGNAL, sig) < 0)
        stop(l);
    else if (sig != SIGINT)
        loop_timer_set(l->loop, &l->grace, GRACE_MS);
}

static void on_signals(struct loop_io *io, uint32_t events)
{
    struct supervisor *l = container_of(io, struct supervisor, signals);
    struct signalfd_siginfo info;
    struct sandbox *s = l->s;
    (void)events;
    while (read(s->signal_fd, &info, sizeof info) == (ssize_t)sizeof info) {
        int sig = (int)info.ssi_signo;
        if (sig == SIGWINCH && s->tty_sizes >= 0)
            tty_send_size(s->request->stdin_fd, s->tty_sizes);
        else if (sig == SIGWINCH && s->tty_master >= 0)
            tty_copy_size(s->request->stdin_fd, s->tty_master);
        else if (sig == SIGINT || sig == SIGTERM || sig == SIGHUP || sig == SIGQUIT)
            end_by_signal(l, sig);
        if (sig != SIGTSTP)
            continue;
        stop_with_the_caller(s);
        return; /* what else came waits for the next round, which knows how late it is */
    }
}

static void on_lifeline(struct loop_io *io, uint32_t events)
{
    struct supervisor *l = container_of(io, struct supervisor, lifeline);
    (void)events;
    loop_watch(l->loop, io, 0);
    if (!l->s->ended_by_signal)
        end_by_signal(l, SIGTERM);
}

static void on_grace(struct loop_timer *t)
{
    stop(container_of(t, struct supervisor, grace));
}

/* ---- what the code is refused ---- */

static void on_seen(struct loop_io *io, uint32_t events)
{
    struct supervisor *l = container_of(io, struct supervisor, seen);
    struct kernel *k = &l->s->kernel;
    if (!(events & EPOLLIN) || seen_answer(k, &l->s->result->denials) < 0) {
        loop_forget(l->loop, io);
        close(k->listener_fd);
        k->listener_fd = -1;
        return;
    }
    unsigned pause = seen_pause_ms(k);
    if (!pause)
        return;
    loop_watch(l->loop, io, 0);
    loop_timer_set(l->loop, &l->seen_pause, pause);
}

static void on_seen_again(struct loop_timer *t)
{
    struct supervisor *l = container_of(t, struct supervisor, seen_pause);
    check(l, loop_watch(l->loop, &l->seen, EPOLLIN));
}

static void on_names(struct loop_io *io, uint32_t events)
{
    struct supervisor *l = container_of(io, struct supervisor, names);
    (void)events;
    sandbox_names_answer(l->s, io->fd);
}

/* ---- brig-proxy, and questions that it has ---- */

static void on_asks(struct loop_io *io, uint32_t events);
static void watch_wanted(void *ctx, uint64_t usec);

static void follow_questions(struct supervisor *l)
{
    int fd;
    loop_forget(l->loop, &l->asks);
    if (l->asks.fd >= 0)
        close(l->asks.fd);
    check(l, sandbox_ask_open(l->s, &fd));
    watch(l, &l->asks, fd, EPOLLIN, on_asks);
    if (fd >= 0)
        loop_timer_set(l->loop, &l->ask_time, sandbox_ask_wait_ms(l->s));
    else
        loop_timer_cancel(l->loop, &l->ask_time);
    watch_wanted(l, 0); /* what is typed from here on is the answer, in this round already */
}

static void on_asks(struct loop_io *io, uint32_t events)
{
    struct supervisor *l = container_of(io, struct supervisor, asks);
    (void)events;
    sandbox_ask_step(l->s);
    follow_questions(l);
}

static void on_ask_time(struct loop_timer *t)
{
    struct supervisor *l = container_of(t, struct supervisor, ask_time);
    sandbox_ask_step(l->s);
    follow_questions(l);
}

static void on_proxy(struct loop_io *io, uint32_t events)
{
    struct supervisor *l = container_of(io, struct supervisor, proxy);
    (void)events;
    sandbox_egress_events(l->s);
    if (l->s->link.fd < 0) /* it died */
        loop_forget(l->loop, io);
    follow_questions(l);
}

static void on_change(struct loop_io *io, uint32_t events)
{
    (void)events;
    sandbox_egress_change(container_of(io, struct supervisor, change)->s);
}

/* ---- limits ---- */

static void on_sample(struct loop_timer *t)
{
    struct supervisor *l = container_of(t, struct supervisor, sampling);
    struct lifecycle *life = &l->s->lifecycle;
    if (l->over)
        return;
    if (lifecycle_sample(life) != LIMIT_NONE)
        stop(l);
    else
        sandbox_own_refresh(l->s);
    loop_timer_set(l->loop, t, lifecycle_sample_ms(life));
}

/* Time spent stopped does not count: it may have moved on. */
static void on_deadline(struct loop_timer *t)
{
    struct supervisor *l = container_of(t, struct supervisor, deadline);
    struct lifecycle *life = &l->s->lifecycle;
    uint64_t now = clock_us();
    if (l->over)
        return;
    if (now < life->deadline_us) {
        loop_timer_set(l->loop, t, (life->deadline_us - now + 999) / 1000);
        return;
    }
    life->hit = LIMIT_TIMEOUT;
    stop(l);
}

/* ---- parts that may die ---- */

static void on_guardian(struct loop_io *io, uint32_t events)
{
    struct supervisor *l = container_of(io, struct supervisor, guardian);
    (void)events;
    l->guardian_died = true;
    loop_stop(l->loop);
}

static void on_pump(struct loop_io *io, uint32_t events)
{
    struct supervisor *l = container_of(io, struct supervisor, pump);
    (void)events;
    loop_forget(l->loop, io);
    l->s->lifecycle.helpers[HELPER_PUMP] = 0;
    l->pump_died = pump_failed(&l->s->pump);
    if (l->pump_died)
        loop_stop(l->loop);
}

/* What happened in one moment is reported in any order: who ended the run is known after the round.
 */
static void settle_death(const struct supervisor *l)
{
    struct sandbox *s = l->s;
    if (l->guardian_died && !l->over)
        s->ended_because = "its guardian died";
    if (l->pump_died)
        sandbox_lost_pump(s, PUMP_DIED);
}

/* ---- all of it ---- */

/* While a person reads a question nothing else is written there, and what is typed is the answer.
 */
static bool is_hushed(const struct sandbox *s, int fd)
{
    return sandbox_ask_holds_terminal(s) && isatty(fd);
}

/* What a round did decides what the next one waits for. */
static void watch_wanted(void *ctx, uint64_t usec)
{
    struct supervisor *l = ctx;
    struct sandbox *s = l->s;
    (void)usec;
    check(l, stream_watch(&s->out, l->loop, is_hushed(s, s->out.to)));
    check(l, stream_watch(&s->errout, l->loop, is_hushed(s, s->errout.to)));
    check(l, feed_watch(&s->in, l->loop, is_hushed(s, s->in.from)));
    if (l->change.fd >= 0) /* one at a time */
        check(l, loop_watch(l->loop, &l->change, s->netrecord.client_fd < 0 ? EPOLLIN : 0));
}

static void watch_all(struct supervisor *l)
{
    struct sandbox *s = l->s;
    watch(l, &l->ctl, s->ctl_fd, EPOLLIN, on_ctl);
    watch(l, &l->init, s->init_pidfd, EPOLLIN, on_init);
    watch(l, &l->signals, s->signal_fd, EPOLLIN, on_signals);
    watch(l, &l->guardian, s->lifecycle.guardian.pidfd, EPOLLIN, on_guardian);
    watch(l, &l->pump, s->pump.pidfd, EPOLLIN, on_pump);
    watch(l, &l->seen, s->kernel.listener_fd, EPOLLIN, on_seen);
    watch(l, &l->proxy, s->link.fd, EPOLLIN, on_proxy);
    watch(l, &l->names, s->names_fd, EPOLLIN, on_names);
    watch(l, &l->change, s->netrecord.listen_fd, EPOLLIN, on_change);
    /* Nothing is read from it: its other end closes, or it does not. */
    int lifeline = s->request->lifeline_fd > 0 ? s->request->lifeline_fd : -1;
    watch(l, &l->lifeline, lifeline, EPOLLHUP, on_lifeline);
    loop_timer_set(l->loop, &l->sampling, FIRST_SAMPLE_MS);
    if (s->lifecycle.deadline_us)
        on_deadline(&l->deadline);
    watch_wanted(l, 0);
    loop_on_round(l->loop, watch_wanted, l);
}

/* The code runs only where everything is watched already; what cannot be watched later ends it. */
static int go(struct supervisor *l, struct err *err)
{
    watch_all(l);
    if (l->failed) {
        errno = -l->failed;
        return err_sys(err, "watch the sandbox");
    }
    /* init has no more descriptors to give, and what it says from now on is hostile (since Linux
     * 6.16). */
    setsockopt(l->s->ctl_fd, SOL_SOCKET, SO_PASSRIGHTS, &(int){0}, sizeof(int));
    helped_look(&l->s->lifecycle); /* LC-11: from here on it is the code's */
    if (message_send(l->s->ctl_fd, CTL_GO, 0) < 0)
        return err_set(err, ERR_SYSTEM, "the sandbox died before the code was started");
    int result = loop_run(l->loop);
    if ((l->failed || result < 0) && !l->over)
        l->s->ended_because = "a part of it could not be watched";
    settle_death(l);
    return 0;
}

static int run(struct supervisor *l, struct err *err)
{
    if (loop_new(&l->loop, err) < 0)
        return err_number(err);
    int result = go(l, err);
    stream_unwatch(&l->s->out);
    stream_unwatch(&l->s->errout);
    feed_unwatch(&l->s->in);
    loop_free(l->loop);
    if (l->asks.fd >= 0)
        close(l->asks.fd);
    return result;
}

int sandbox_supervise(struct sandbox *s, struct err *err)
{
    struct supervisor l = {.s = s,
                           .asks.fd = -1,
                           .sampling.fn = on_sample,
                           .deadline.fn = on_deadline,
                           .grace.fn = on_grace,
                           .seen_pause.fn = on_seen_again,
                           .ask_time.fn = on_ask_time};
    lifecycle_started(&s->lifecycle);
    return run(&l, err);
}
