/* The event loop while the code runs. */
#include "base/clock.h"
#include "os/sys.h"
#include "os/weaken.h"
#include "sandbox/internal.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef SO_PASSRIGHTS
#define SO_PASSRIGHTS 83
#endif

/* After SIGTERM the code gets this long to end by itself. */
#define GRACE_US 2000000u
#define DRAIN_US 500000u
/* Killing takes milliseconds. */
#define STUCK_US 10000000u

struct loop {
    struct sandbox *s;
    uint64_t next_sample_us;
    uint64_t kill_at_us; /* 0 = not ordered */
    uint64_t seen_from_us;
    bool over;
    struct err *err;
};

enum slot {
    SLOT_CTL,
    SLOT_INIT,
    SLOT_SIGNALS,
    SLOT_GUARDIAN,
    SLOT_PUMP,
    SLOT_SEEN,
    SLOT_PROXY,
    SLOT_NAMES,
    SLOT_CHANGE,
    SLOT_LIFELINE,
    SLOT_OUT_FROM,
    SLOT_OUT_TO,
    SLOT_ERR_FROM,
    SLOT_ERR_TO,
    SLOT_IN_FROM,
    SLOT_IN_TO,
    SLOT_COUNT,
};
#define ASK_SLOTS (EGRESS_QUESTIONS * APPROVAL_FDS_MAX)

static void watch(struct pollfd *p, bool wanted, int fd, short events)
{
    *p = (struct pollfd){.fd = wanted ? fd : -1, .events = events};
}

/* While a person reads a question nothing else is written there, and what is typed is the answer.
 */
static void leave_terminal(struct pollfd fds[SLOT_COUNT])
{
    static const enum slot slots[] = {SLOT_OUT_TO, SLOT_ERR_TO, SLOT_IN_FROM};
    for (size_t i = 0; i < sizeof slots / sizeof *slots; i++)
        if (fds[slots[i]].fd >= 0 && isatty(fds[slots[i]].fd))
            fds[slots[i]].fd = -1;
}

static void fill(const struct loop *l, struct pollfd fds[SLOT_COUNT], uint64_t now)
{
    struct sandbox *s = l->s;
    watch(&fds[SLOT_CTL], s->ctl_fd >= 0, s->ctl_fd, POLLIN);
    watch(&fds[SLOT_INIT], true, s->init_pidfd, POLLIN);
    watch(&fds[SLOT_SIGNALS], true, s->signal_fd, POLLIN);
    watch(&fds[SLOT_GUARDIAN], s->lifecycle.guardian.pidfd >= 0, s->lifecycle.guardian.pidfd,
          POLLIN);
    watch(&fds[SLOT_PUMP], s->pump.pidfd >= 0, s->pump.pidfd, POLLIN);
    watch(&fds[SLOT_SEEN], s->kernel.listener_fd >= 0 && now >= l->seen_from_us,
          s->kernel.listener_fd, POLLIN);
    watch(&fds[SLOT_PROXY], s->link.fd >= 0, s->link.fd, POLLIN);
    watch(&fds[SLOT_NAMES], s->names_fd >= 0, s->names_fd, POLLIN);
    watch(&fds[SLOT_CHANGE], s->netrecord.listen_fd >= 0 && s->netrecord.client_fd < 0,
          s->netrecord.listen_fd, POLLIN);
    watch(&fds[SLOT_LIFELINE], s->request->lifeline_fd > 0 && !s->ended_by_signal,
          s->request->lifeline_fd, 0);
    watch(&fds[SLOT_OUT_FROM], stream_wants_read(&s->out), s->out.from, POLLIN);
    watch(&fds[SLOT_OUT_TO], stream_wants_write(&s->out), s->out.to, POLLOUT);
    watch(&fds[SLOT_ERR_FROM], stream_wants_read(&s->errout), s->errout.from, POLLIN);
    watch(&fds[SLOT_ERR_TO], stream_wants_write(&s->errout), s->errout.to, POLLOUT);
    watch(&fds[SLOT_IN_FROM], feed_wants_read(&s->in), s->in.from, POLLIN);
    watch(&fds[SLOT_IN_TO], feed_wants_write(&s->in), s->in.to, POLLOUT);
    if (sandbox_ask_holds_terminal(s))
        leave_terminal(fds);
}

static int wait_ms(const struct loop *l, uint64_t now)
{
    uint64_t next = l->next_sample_us;
    uint64_t deadline = l->s->lifecycle.deadline_us;
    if (deadline && deadline < next)
        next = deadline;
    if (l->kill_at_us && l->kill_at_us < next)
        next = l->kill_at_us;
    if (l->seen_from_us > now && l->seen_from_us < next)
        next = l->seen_from_us;
    return next > now ? (int)((next - now + 999) / 1000) : 0;
}

/* Valid only from the process that was to become the code, or from init, before the code's first
 * instruction. */
static bool is_start_failure(const struct sandbox *s, const struct ctl_msg *msg, pid_t pid)
{
    bool from_code = msg->type == CTL_EXEC_FAIL && pid == s->code_pid;
    bool from_init = msg->type == CTL_FAIL && pid == s->init_pid;
    return (from_code || from_init) && msg->err.code > 0 && msg->err.code < ERR_CODE_COUNT;
}

static void on_control(struct loop *l)
{
    struct ctl_msg msg;
    int fd;
    pid_t pid;
    struct sandbox *s = l->s;
    int got = message_receive(s->ctl_fd, &msg, &fd, &pid, MSG_DONTWAIT, NULL);
    if (fd >= 0)
        close(fd);
    if (got > 0 && msg.type == CTL_EXIT && !s->have_status) {
        s->have_status = true;
        s->wait_status = msg.value;
        l->over = true;
    } else if (got > 0 && !s->exec_failed && is_start_failure(s, &msg, pid)) {
        s->exec_failed = true;
        s->exec_err = msg.err;
    } else if (got <= 0) {
        /* init closed its end: its death is seen on the pidfd. */
        close(s->ctl_fd);
        s->ctl_fd = -1;
    }
}

static void stop_with_the_caller(struct sandbox *s)
{
    uint64_t before = clock_us();
    if (s->ctl_fd >= 0)
        message_send(s->ctl_fd, CTL_FREEZE, 1);
    raise(SIGSTOP);
    if (s->ctl_fd >= 0)
        message_send(s->ctl_fd, CTL_FREEZE, 0);
    uint64_t away = clock_us() - before;
    s->stopped_us += away;
    if (s->lifecycle.deadline_us)
        s->lifecycle.deadline_us += away;
}

static void end_by_signal(struct loop *l, int sig)
{
    struct sandbox *s = l->s;
    s->ended_by_signal = sig;
    s->forwarded++;
    if (s->ctl_fd < 0 || s->forwarded > 1 || message_send(s->ctl_fd, CTL_SIGNAL, sig) < 0)
        l->over = true;
    else if (sig != SIGINT)
        l->kill_at_us = clock_us() + GRACE_US;
}

static void on_signals(struct loop *l)
{
    struct signalfd_siginfo info;
    struct sandbox *s = l->s;
    while (read(s->signal_fd, &info, sizeof info) == (ssize_t)sizeof info) {
        int sig = (int)info.ssi_signo;
        if (sig == SIGWINCH && s->tty_sizes >= 0)
            tty_send_size(s->request->stdin_fd, s->tty_sizes);
        else if (sig == SIGWINCH && s->tty_master >= 0)
            tty_copy_size(s->request->stdin_fd, s->tty_master);
        else if (sig == SIGTSTP)
            stop_with_the_caller(s);
        else if (sig == SIGINT || sig == SIGTERM || sig == SIGHUP || sig == SIGQUIT)
            end_by_signal(l, sig);
    }
}

static void on_seen(struct loop *l, uint64_t now)
{
    struct kernel *k = &l->s->kernel;
    if (seen_answer(k, &l->s->result->denials) < 0) {
        close(k->listener_fd);
        k->listener_fd = -1;
    }
    l->seen_from_us = now + seen_pause_ms(k) * 1000u;
}

static void on_streams(struct sandbox *s, const struct pollfd fds[SLOT_COUNT])
{
    if (fds[SLOT_OUT_FROM].revents)
        stream_read(&s->out);
    if (fds[SLOT_OUT_TO].revents)
        stream_write(&s->out);
    if (fds[SLOT_ERR_FROM].revents)
        stream_read(&s->errout);
    if (fds[SLOT_ERR_TO].revents)
        stream_write(&s->errout);
    if (fds[SLOT_IN_FROM].revents)
        feed_read(&s->in);
    if (fds[SLOT_IN_TO].revents)
        feed_write(&s->in);
}

static void on_time(struct loop *l, uint64_t now)
{
    struct lifecycle *life = &l->s->lifecycle;
    if (life->deadline_us && now >= life->deadline_us) {
        life->hit = LIMIT_TIMEOUT;
        l->over = true;
    }
    if (l->kill_at_us && now >= l->kill_at_us)
        l->over = true;
    if (now < l->next_sample_us)
        return;
    l->next_sample_us = now + lifecycle_sample_ms(life) * 1000u;
    if (lifecycle_sample(life) != LIMIT_NONE)
        l->over = true;
    else
        sandbox_own_refresh(l->s);
}

/* It has ended. It has nothing left to do when the code has closed all that it had; else somebody
 * killed it, what it carried is lost, and that must not look like the whole of what was said
 * (PU-4). */
static void note_pump(struct sandbox *s)
{
    s->lifecycle.helpers[HELPER_PUMP] = 0;
    if (!pump_failed(&s->pump))
        return;
    s->dead_part = "pump";
    s->have_status = false;
}

static void on_events(struct loop *l, struct pollfd fds[SLOT_COUNT])
{
    struct sandbox *s = l->s;
    if (fds[SLOT_SEEN].revents)
        on_seen(l, clock_us());
    on_streams(s, fds);
    if (fds[SLOT_PROXY].revents)
        sandbox_egress_events(s);
    if (fds[SLOT_NAMES].revents)
        sandbox_names_answer(s, s->names_fd);
    if (fds[SLOT_CHANGE].revents)
        sandbox_egress_change(s);
    if (fds[SLOT_SIGNALS].revents)
        on_signals(l);
    if (fds[SLOT_LIFELINE].revents && !s->ended_by_signal)
        end_by_signal(l, SIGTERM);
    if (fds[SLOT_CTL].revents)
        on_control(l);
    if (fds[SLOT_INIT].revents) {
        /* poll looks at one descriptor after the other: what init said before it ended may have
         * come after its socket was looked at. */
        while (s->ctl_fd >= 0 && !s->have_status)
            on_control(l);
        l->over = true;
    }
    if (fds[SLOT_GUARDIAN].revents && !l->over)
        s->dead_part = "guardian";
    if (fds[SLOT_PUMP].revents)
        note_pump(s);
    if (s->dead_part)
        l->over = true;
}

int sandbox_supervise(struct sandbox *s, struct err *err)
{
    struct loop l = {.s = s, .err = err, .next_sample_us = clock_us() + 20000};
    lifecycle_started(&s->lifecycle);
    /* init has no more descriptors to give, and what it says from now on is hostile (since Linux
     * 6.16). */
    setsockopt(s->ctl_fd, SOL_SOCKET, SO_PASSRIGHTS, &(int){0}, sizeof(int));
    if (message_send(s->ctl_fd, CTL_GO, 0) < 0)
        return err_set(err, ERR_SYSTEM, "the sandbox died before the code was started");
    while (!l.over) {
        struct pollfd fds[SLOT_COUNT + ASK_SLOTS];
        uint64_t now = clock_us();
        fill(&l, fds, now);
        size_t asks = sandbox_ask_poll(s, fds + SLOT_COUNT, ASK_SLOTS);
        int n = poll(fds, SLOT_COUNT + asks, sandbox_ask_wait_ms(s, wait_ms(&l, now)));
        if (n < 0 && errno != EINTR)
            return err_sys(err, "poll");
        if (n > 0)
            on_events(&l, fds);
        if (asks)
            sandbox_ask_step(s);
        on_time(&l, clock_us());
    }
    return 0;
}

/* A signal while the caller is waited for: true if it asks for the end. */
static bool told_to_stop(struct sandbox *s)
{
    struct signalfd_siginfo info;
    bool stop = false;
    while (read(s->signal_fd, &info, sizeof info) == (ssize_t)sizeof info) {
        if (info.ssi_signo == SIGTSTP)
            raise(SIGSTOP);
        else if (info.ssi_signo != SIGWINCH)
            stop = true;
    }
    return stop;
}

/* With all of its lines at their end it ends, too; the same is seen of one that was killed. One
 * that still keeps something from a caller who waits for it is of no use. (Of a session the front
 * has the other ends.) */
static void settle_pump(struct sandbox *s)
{
    struct pollfd p = {.fd = s->pump.pidfd, .events = POLLIN};
    bool all = stream_finished(&s->out) && stream_finished(&s->errout);
    bool full = stream_wants_write(&s->out) || stream_wants_write(&s->errout);
    if (!s->pump.pid || s->session || s->lifecycle.stuck || (full && !all))
        return;
    if (!all)
        pump_kill(&s->pump);
    if (poll(&p, 1, PUMP_END_US / 1000) > 0)
        note_pump(s);
}

/* The last words. Everything inside is dead, so that the pipes end by themselves. A caller that
 * reads slowly is waited for, as by any program, if the code ended by itself; not after a limit or
 * a signal, and not once a signal comes. A pump is waited for, unless something of the code's
 * could not be killed, which may hold it up. */
static void drain(struct sandbox *s)
{
    uint64_t began = clock_us(), deadline = began + DRAIN_US;
    uint64_t pumped = s->pump.pid && !s->lifecycle.stuck ? began + STUCK_US : deadline;
    bool patient = s->have_status && !s->ended_by_signal && s->signal_fd >= 0;
    feed_done(&s->in);
    while (!stream_finished(&s->out) || !stream_finished(&s->errout)) {
        struct pollfd fds[SLOT_COUNT];
        uint64_t now = clock_us();
        bool full = stream_wants_write(&s->out) || stream_wants_write(&s->errout);
        bool wait = patient && full;
        uint64_t end = full || pumped < deadline ? deadline : pumped;
        if (!wait && now >= end)
            break;
        for (int i = 0; i < SLOT_COUNT; i++)
            fds[i] = (struct pollfd){.fd = -1};
        watch(&fds[SLOT_SIGNALS], wait, s->signal_fd, POLLIN);
        watch(&fds[SLOT_OUT_FROM], stream_wants_read(&s->out), s->out.from, POLLIN);
        watch(&fds[SLOT_OUT_TO], stream_wants_write(&s->out), s->out.to, POLLOUT);
        watch(&fds[SLOT_ERR_FROM], stream_wants_read(&s->errout), s->errout.from, POLLIN);
        watch(&fds[SLOT_ERR_TO], stream_wants_write(&s->errout), s->errout.to, POLLOUT);
        if (poll(fds, SLOT_COUNT, wait ? -1 : (int)((end - now) / 1000) + 1) <= 0)
            continue;
        on_streams(s, fds);
        if (patient)
            deadline = clock_us() + DRAIN_US;
        if (fds[SLOT_SIGNALS].revents && told_to_stop(s))
            patient = false;
    }
    settle_pump(s);
}

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
    for (;;) {
        siginfo_t info = {0};
        if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) < 0 || info.si_pid == 0 ||
            info.si_pid == guardian)
            return;
        if (info.si_pid == s->pump.pid)
            note_pump(s);
        else
            waitpid(info.si_pid, NULL, WNOHANG);
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
}
