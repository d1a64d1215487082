/* The end of a sandbox: everything inside is killed and waited for, and what it said last is
 * passed on. */
#include "base/clock.h"
#include "base/container.h"
#include "os/sys.h"
#include "os/weaken.h"
#include "sandbox/internal.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#define DRAIN_US 500000u
/* Killing takes milliseconds. */
#define STUCK_US 10000000u

/* ---- the last words ---- */

/* LC-6. Of a session this decides nothing: it is over, and was watched while it lived. */
static void settle_disk(struct sandbox *s)
{
    if (!s->lifecycle.unmeasured || s->session || !s->have_status)
        return;
    s->ended_because = "what it left on disk could not be measured";
    s->have_status = false;
}

/* PU-4 */
void sandbox_lost_pump(struct sandbox *s, const char *why)
{
    s->ended_because = why;
    s->have_status = false;
}

static bool is_full(const struct sandbox *s)
{
    return stream_wants_write(&s->out) || stream_wants_write(&s->errout);
}

static bool is_drained(const struct sandbox *s)
{
    return stream_finished(&s->out) && stream_finished(&s->errout);
}

/* The run was ended from outside: nobody expects all of what the code would have said. */
static bool was_cut(const struct sandbox *s)
{
    return !s->have_status && (s->lifecycle.hit != LIMIT_NONE || s->ended_by_signal);
}

static bool pump_is_gone(struct sandbox *s, unsigned ms, bool *ret_failed)
{
    struct pollfd p = {.fd = s->pump.pidfd, .events = POLLIN};
    if (poll(&p, 1, (int)ms) <= 0)
        return false;
    s->lifecycle.helpers[HELPER_PUMP] = 0;
    *ret_failed = pump_failed(&s->pump);
    return true;
}

/* It ends when all of its lines have, and so it does if somebody kills it. One that still keeps
 * something from a caller who waits for it (it is stopped, or stuck) is of no use. (Of a session
 * the front has the other ends.) */
static void settle_pump(struct sandbox *s)
{
    bool all = is_drained(s), failed = false;
    if (!s->pump.pid || s->session || s->lifecycle.stuck || (is_full(s) && !all))
        return;
    if (!all)
        pump_kill(&s->pump);
    bool gone = pump_is_gone(s, PUMP_END_US / 1000, &failed);
    if (all && gone && failed)
        sandbox_lost_pump(s, PUMP_DIED);
    else if (!all && !was_cut(s))
        sandbox_lost_pump(s, "its pump did not pass on all that the code wrote");
}

/* Everything inside is dead, so that the pipes end by themselves. A caller that reads slowly is
 * waited for, as by any program, if the code ended by itself; not after a limit or a signal, and
 * not once a signal comes. A pump is waited for, after a limit or a signal no longer than the
 * caller; and so where something of the code's could not be killed, which may hold it up. */
struct drain {
    struct sandbox *s;
    struct loop *loop;
    struct loop_io signals;
    struct loop_timer end;
    bool patient;                /* with the caller */
    bool waited;                 /* this round is one in which nothing was passed on */
    bool failed;                 /* something could not be watched */
    uint64_t caller_us, pump_us; /* until when they are waited for */
};

static void on_wait_over(struct loop_timer *t)
{
    container_of(t, struct drain, end)->waited = true;
}

static void on_wait_signals(struct loop_io *io, uint32_t events)
{
    struct drain *d = container_of(io, struct drain, signals);
    struct signalfd_siginfo info;
    (void)events;
    while (read(io->fd, &info, sizeof info) == (ssize_t)sizeof info) {
        if (info.ssi_signo == SIGTSTP)
            raise(SIGSTOP);
        else if (info.ssi_signo != SIGWINCH)
            d->patient = false;
    }
}

static bool watches(struct drain *d, bool wait)
{
    d->failed = stream_watch(&d->s->out, d->loop, false) < 0 ||
                stream_watch(&d->s->errout, d->loop, false) < 0 ||
                loop_watch(d->loop, &d->signals, wait ? EPOLLIN : 0) < 0;
    return !d->failed;
}

/* Is there something left to wait for, and for how long? */
static bool goes_on(struct drain *d)
{
    struct sandbox *s = d->s;
    bool full = is_full(s), wait = d->patient && full;
    uint64_t now = clock_us();
    if (d->patient && !d->waited)
        d->caller_us = now + DRAIN_US;
    d->waited = false;
    uint64_t end = full || d->pump_us < d->caller_us ? d->caller_us : d->pump_us;
    if (is_drained(s) || (!wait && now >= end) || !watches(d, wait))
        return false;
    if (wait)
        loop_timer_cancel(d->loop, &d->end);
    else
        loop_timer_set(d->loop, &d->end, (end - now) / 1000 + 1);
    return true;
}

static void after_round(void *ctx, uint64_t usec)
{
    struct drain *d = ctx;
    (void)usec;
    if (!goes_on(d))
        loop_stop(d->loop);
}

static void pass_on(struct drain *d)
{
    d->failed = loop_new(&d->loop, NULL) < 0;
    if (d->failed)
        return;
    loop_on_round(d->loop, after_round, d);
    if (goes_on(d) && loop_run(d->loop) < 0)
        d->failed = true;
    stream_unwatch(&d->s->out);
    stream_unwatch(&d->s->errout);
    loop_free(d->loop);
}

static void drain(struct sandbox *s)
{
    struct drain d = {.s = s,
                      .patient = s->have_status && !s->ended_by_signal && s->signal_fd >= 0,
                      .signals = {.fd = s->signal_fd, .fn = on_wait_signals},
                      .end.fn = on_wait_over};
    uint64_t now = clock_us();
    d.caller_us = now + DRAIN_US;
    bool pumped = s->pump.pid && !s->lifecycle.stuck && !was_cut(s);
    d.pump_us = now + (pumped ? STUCK_US : DRAIN_US);
    feed_done(&s->in);
    if (!is_drained(s))
        pass_on(&d);
    /* Others can use up what a user may watch: that is no reason to call it all. */
    if (d.failed && !is_drained(s) && !was_cut(s))
        sandbox_lost_pump(s, "what the code wrote last could not be watched for");
    settle_pump(s);
}

/* ---- killing, and waiting for it ---- */

/* Everything inside was killed and ends at once; but a task that waits in the kernel for a file
 * system that does not answer (FUSE, NFS behind a grant) ends when that does, and so does the first
 * process, which waits for all. */
static bool await_init(struct sandbox *s)
{
    uint64_t deadline = clock_us() + STUCK_US;
    struct pollfd p = {.fd = s->init_pidfd, .events = POLLIN};
    for (uint64_t now; (now = clock_us()) < deadline;)
        if (poll(&p, 1, (int)((deadline - now) / 1000 + 1)) > 0)
            return true;
    s->lifecycle.stuck = true;
    return false;
}

static void reap_init(struct sandbox *s)
{
    struct rusage use;
    int status;
    if (s->init_pidfd >= 0 && !await_init(s))
        return;
    if (s->source) { /* a clone's init is no child of ours */
        s->reaped = true;
        return;
    }
    while (wait4(s->init_pid, &status, 0, &use) < 0)
        if (errno != EINTR)
            return;
    s->reaped = true;
    s->rusage_cpu_usec = (uint64_t)(use.ru_utime.tv_sec + use.ru_stime.tv_sec) * 1000000u +
                         (uint64_t)(use.ru_utime.tv_usec + use.ru_stime.tv_usec);
    s->rusage_peak = (uint64_t)use.ru_maxrss * 1024u;
}

/* Orphans that init could not take care of because it was killed come to us, the next reaper. */
static void reap_stragglers(struct sandbox *s)
{
    if (s->lifecycle.namespaced)
        return;
    pid_t guardian = s->lifecycle.guardian.pid;
    bool failed;
    for (;;) {
        siginfo_t info = {0};
        if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) < 0 || info.si_pid == 0 ||
            info.si_pid == guardian)
            return;
        if (info.si_pid != s->pump.pid)
            waitpid(info.si_pid, NULL, WNOHANG);
        else if (pump_is_gone(s, 0, &failed) && failed)
            sandbox_lost_pump(s, PUMP_DIED);
    }
}

void sandbox_end(struct sandbox *s)
{
    if (s->init_pid <= 0 || s->reaped)
        return;
    seen_end(&s->kernel);
    /* On the process tier init takes everything along when it is told to; it may be stopped or
     * dead, so that what follows does not depend on it. */
    if (!s->lifecycle.namespaced && !guard_left_out(GUARD_TEARDOWN)) {
        struct pollfd p = {.fd = s->init_pidfd, .events = POLLIN};
        if (s->ctl_fd >= 0)
            message_send(s->ctl_fd, CTL_KILL, 0);
        if (s->lifecycle.private_uid || s->lifecycle.scoped_signals)
            poll(&p, 1, 200);
        s->lifecycle.helpers[HELPER_KEEPER] = link_keeper(&s->link);
        lifecycle_kill(&s->lifecycle);
    }
    if (s->init_pidfd >= 0)
        sys_pidfd_send_signal(s->init_pidfd, SIGKILL);
    reap_init(s);
    reap_stragglers(s);
    drain(s);
    lifecycle_settle(&s->lifecycle, s->rusage_cpu_usec, s->rusage_peak);
    settle_disk(s);
}
