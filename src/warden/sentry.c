/* The tiers on which programs run behind an engine, gvisor and vm: the Sentry, or the monitor of a
 * virtual machine, is started before the sandbox is of use, as the first program that init is asked
 * for, and its end is the sandbox's. What a program is started with then: spawn.c.
 *
 * brig-gvisor or brig-vmm says on its output how it can be reached. It is brig's own, but stands
 * beside hostile code: of what it says, five hexadecimal digits are taken, and of its complaints a
 * piece that is shown to people. */
#include "base/cleanup.h"
#include "base/container.h"
#include "os/fd.h"
#include "warden/session.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>

/* A host that is far too busy may take long; where it cannot work at all, that is said much
 * earlier. */
#define BOOT_MS 60000

/* Tasks of the host's that a process and its leader come to, with the platform that needs most. */
#define TASKS_EACH 24
/* And some more in proportion to what is there: each thread of the Sentry that works for a process
 * needs a task of the host's for it. */
#define TASKS_MORE 4
/* Programs of a machine that are asked for from outside: less than the monitor has streams for, so
 * that some are always dialled beforehand (VM-17). */
#define MACHINE_PROGRAMS 64u

static bool is_machine(const struct warden *w)
{
    return tier_row(w->s->kernel.tier)->machine;
}

bool sentry_wanted(const struct warden *w)
{
    return tier_row(w->s->kernel.tier)->user_kernel || is_machine(w);
}

static const char *name_of(const struct warden *w)
{
    return is_machine(w) ? "the virtual machine" : "the Sentry";
}

/* ---- its end ---- */

static void close_io(struct warden *w, struct loop_io *io)
{
    loop_forget(w->loop, io);
    if (io->fd >= 0)
        close(fd_steal(&io->fd));
}

/* A parked machine could not be cloned. The monitor is dead, and nothing of anybody's has run in
 * its guest: another one is started in the same sandbox. */
static void boot_instead(struct warden *w, const char *why)
{
    struct warden_sentry *y = &w->sentry;
    struct err said = ERR_INIT;
    err_set(&said, ERR_SYSTEM, "it did not come up: %s", why);
    warden_cold(w, &said);
    close_io(w, &y->said);
    close_io(w, &y->errors);
    *y = (struct warden_sentry){.said.fd = -1, .errors.fd = -1, .late = y->late};
    if (machine_boot_instead(w->s, &y->err) < 0 || sentry_boot(w, &y->err) < 0)
        warden_end(w, "it could not be provisioned");
}

/* It does not read any more: its end will be told in a moment. */
static void kill_monitor(struct warden *w)
{
    struct ctl_msg kill = {.type = CTL_SIGNAL, .pid = -w->sentry.pid, .value = SIGKILL};
    loop_timer_set(w->loop, &w->sentry.late, BOOT_MS);
    if (message_ask(w->s->ctl_fd, &kill, NULL, 0) < 0)
        warden_end(w, "the sandbox's first process does not listen");
}

static void not_booted(struct warden *w, const char *why)
{
    struct warden_sentry *y = &w->sentry;
    complaint_take(&y->complaint, y->errors.fd);
    const char *said = complaint_text(&y->complaint);
    bool clone = w->s->machine.way == MACHINE_CLONE;
    if (clone && y->dead) {
        boot_instead(w, y->killed ? y->killed : said[0] ? said : why);
        return;
    }
    if (clone && y->pid > 0 && !y->killed) {
        y->killed = why;
        kill_monitor(w);
        return;
    }
    err_set(&y->err, ERR_SYSTEM, "%s did not start: %.300s", name_of(w), said[0] ? said : why);
    err_at(&y->err, BOUNDARY_KERNEL);
    err_hint(&y->err,
             "`brig doctor` tries %s; or the limits of memory or processes (lifecycle.memory, "
             "lifecycle.pids) are too small for it",
             is_machine(w) ? "the host's KVM" : "its platforms");
    warden_end(w, "it could not be provisioned");
}

/* If the kernel killed it, or one of its own that it cannot be without, that is the verdict. */
static void ended(struct warden *w)
{
    struct warden_sentry *y = &w->sentry;
    y->pid = 0;
    y->dead = true;
    if (!y->up) {
        not_booted(w, "it ended before it had booted");
        return;
    }
    complaint_take(&y->complaint, y->errors.fd);
    y->gone = true;
    watch_now(w);
    char why[sizeof y->complaint.text + 48];
    const char *said = complaint_text(&y->complaint);
    snprintf(why, sizeof why, "%s ended%s%s", name_of(w), said[0] ? ": " : "", said);
    warden_end(w, why);
}

/* ---- its start ---- */

static bool is_name(const char *text, size_t len)
{
    return len == JOIN_NAME_LEN + 1 && text[JOIN_NAME_LEN] == '\n' &&
           strspn(text, "0123456789abcdef") == JOIN_NAME_LEN;
}

static void on_said(struct loop_io *io, uint32_t events)
{
    struct warden *w = container_of(io, struct warden, sentry.said);
    struct warden_sentry *y = &w->sentry;
    char line[JOIN_NAME_LEN + 2] = "";
    (void)events;
    ssize_t n = read(io->fd, line, sizeof line - 1);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    close_io(w, io);
    if (n <= 0 || w->sentry.killed)
        return; /* its end is told in a moment, and why */
    if (!is_name(line, (size_t)n)) {
        not_booted(w, "it said nonsense");
        return;
    }
    loop_timer_cancel(w->loop, &y->late);
    memcpy(y->name, line, JOIN_NAME_LEN);
    /* What was attested before holds for all that was started since; it is looked at once more,
     * now that runsc has run. */
    if (sandbox_attest(w->s, &y->err) < 0) {
        warden_end(w, "it could not be provisioned");
        return;
    }
    y->up = true;
    warden_settled(w);
}

static void on_complaint(struct loop_io *io, uint32_t events)
{
    struct warden *w = container_of(io, struct warden, sentry.errors);
    complaint_take(&w->sentry.complaint, io->fd);
    if (events & (EPOLLHUP | EPOLLERR))
        close_io(w, io);
}

static void on_late(struct loop_timer *t)
{
    not_booted(container_of(t, struct warden, sentry.late), "it takes too long");
}

static int make_block(const struct warden *w, struct err *err)
{
    struct plan plan;
    plan_init(&plan);
    (is_machine(w) ? machine_plan_boot : sentry_plan_boot)(w->s, &plan);
    plan_str(&plan, OP_CWD, "/", NULL, 0);
    int fd = plan_finish(&plan, err);
    if (fd >= 0)
        fd = memfd_sealed("brig-boot", plan.bytes.data, plan.bytes.len, false, err);
    plan_done(&plan);
    return fd;
}

static int make_pipe(struct warden *w, struct loop_io *io, int *theirs,
                     void (*fn)(struct loop_io *io, uint32_t events), struct err *err)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0 || fcntl(ends[0], F_SETFL, O_NONBLOCK) < 0)
        return err_sys(err, "pipe");
    *theirs = ends[1];
    warden_watch(w, io, ends[0], fn);
    return 0;
}

static int make_ends(struct warden *w, int fds[static SPAWN_FDS], struct err *err)
{
    struct warden_sentry *y = &w->sentry;
    if ((fds[SPAWN_BLOCK] = make_block(w, err)) < 0 ||
        make_pipe(w, &y->said, &fds[SPAWN_STDOUT], on_said, err) < 0 ||
        make_pipe(w, &y->errors, &fds[SPAWN_STDERR], on_complaint, err) < 0)
        return err_number(err);
    /* A message on why it could not be executed would come here; it is enough that it ended without
     * having given a name. */
    if ((fds[SPAWN_STATUS] = open("/dev/null", O_WRONLY | O_CLOEXEC)) < 0 ||
        (fds[SPAWN_STDIN] = open("/dev/null", O_RDONLY | O_CLOEXEC)) < 0)
        return err_sys(err, "open /dev/null");
    return is_machine(w) ? machine_hand_over(w->s, &fds[SPAWN_REQUESTS], err) : 0;
}

/* A clone leaves time for a boot in its place. */
static uint64_t late_ms(const struct warden *w)
{
    if (!is_machine(w))
        return BOOT_MS;
    bool clone = w->s->machine.way == MACHINE_CLONE;
    return clone ? machine_boot_ms() / 2 : BOOT_MS + machine_boot_ms();
}

int sentry_boot(struct warden *w, struct err *err)
{
    int fds[SPAWN_FDS] = {-1, -1, -1, -1, -1, -1, -1};
    unsigned count = is_machine(w) ? SPAWN_ANSWERS : SPAWN_REQUESTS;
    struct warden_sentry *y = &w->sentry;
    if (++w->last_request == 0)
        w->last_request = 1;
    y->request = w->last_request;
    struct ctl_msg msg = {.type = CTL_SPAWN, .request = y->request};
    int r = make_ends(w, fds, err);
    if (r >= 0 && (r = message_ask(w->s->ctl_fd, &msg, fds, count)) < 0) {
        errno = -r;
        err_sys(err, "ask the sandbox's first process");
    }
    for (unsigned i = 0; i < count; i++)
        if (fds[i] >= 0)
            close(fds[i]);
    y->late.fn = on_late;
    loop_timer_set(w->loop, &y->late, late_ms(w));
    return r < 0 ? err_number(err) : 0;
}

bool sentry_hear(struct warden *w, const struct ctl_msg *msg)
{
    struct warden_sentry *y = &w->sentry;
    if (!y->request)
        return false;
    if (msg->type == CTL_ANSWER && msg->request == y->request) {
        if (msg->err.code != ERR_NONE) {
            y->dead = true;
            not_booted(w, msg->err.message);
        } else if (!y->pid && msg->pid > 1)
            y->pid = msg->pid;
        return true;
    }
    if (msg->type != CTL_EXITED || !y->pid || msg->pid != y->pid)
        return false;
    ended(w);
    return true;
}

void sentry_done(struct warden *w)
{
    if (!w->sentry.request)
        return;
    loop_timer_cancel(w->loop, &w->sentry.late);
    close_io(w, &w->sentry.said);
    close_io(w, &w->sentry.errors);
}

/* ---- what it cannot do ---- */

static uint64_t tasks_now(struct lifecycle *l)
{
    struct cgroup_usage u;
    struct sampled s = {0};
    memset(&u, 0xff, sizeof u);
    if (l->cgroup)
        cgroup_usage(&l->group, &u);
    if (u.pids_now == UINT64_MAX)
        (void)sample_tasks(l, &s);
    return u.pids_now == UINT64_MAX ? s.tasks : u.pids_now;
}

/* A Sentry that gets no thread ends, and the sandbox with it: a request that could bring that about
 * is refused as it would be elsewhere. What was there for processes that have ended is kept for
 * others, so that as many as ever ran at one time can run again. What the code starts by itself is
 * not asked about. */
static size_t starting(const struct warden *w)
{
    size_t count = 1;
    for (const struct ask *a = w->asks; a; a = a->next)
        count += a->type == WIRE_SPAWN || a->type == WIRE_READY;
    return count;
}

static int machine_room(const struct warden *w, struct err *err)
{
    if (w->started_count + starting(w) <= MACHINE_PROGRAMS)
        return 0;
    err_set(err, ERR_LIMIT,
            "%u processes that were asked for run in the virtual machine, which is "
            "the most",
            MACHINE_PROGRAMS);
    err_hint(err, "what they start themselves is limited by lifecycle.pids alone");
    return err_at(err, BOUNDARY_LIFECYCLE);
}

int sentry_room(struct warden *w, struct err *err)
{
    uint64_t most = w->s->request->policy->pids;
    if (is_machine(w))
        return machine_room(w, err);
    if (!sentry_wanted(w) || most == POLICY_UNLIMITED)
        return 0;
    uint64_t tasks = tasks_now(&w->s->lifecycle);
    size_t living = w->started_count + starting(w);
    if (living <= w->sentry.most || tasks + starting(w) * TASKS_EACH + tasks / TASKS_MORE <= most) {
        w->sentry.most = living > w->sentry.most ? living : w->sentry.most;
        return 0;
    }
    errno = EAGAIN;
    err_sys(err, "start a process in the sandbox");
    err_hint(err,
             "%" PRIu64 " of %" PRIu64
             " tasks (lifecycle.pids) are there, and a process behind the Sentry takes some %d",
             tasks, most, TASKS_EACH);
    return err_at(err, BOUNDARY_LIFECYCLE);
}

int sentry_signal(const struct warden *w, int *number, struct err *err)
{
    if (!sentry_wanted(w))
        return 0;
    if (*number == JOIN_STOP) {
        err_set(err, ERR_UNSUPPORTED, "signal %d cannot be sent on the %s tier", JOIN_STOP,
                tier_name(w->s->kernel.tier));
        return err_hint(err, "take another one of the real-time signals");
    }
    if (*number == SIGSTOP)
        *number = JOIN_STOP;
    return 0;
}
