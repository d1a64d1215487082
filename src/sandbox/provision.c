/* From a plan to an attested sandbox in which nothing untrusted has run yet. */
#include "base/cleanup.h"
#include "base/clock.h"
#include "os/fd.h"
#include "os/sys.h"
#include "os/weaken.h"
#include "review/prepare.h"
#include "sandbox/clone.h"
#include "sandbox/internal.h"
#include "sandbox/interpreter.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* A start that takes longer than this hangs, whatever the reason. */
#define SET_UP_DEADLINE_MS 20000
static int prepare_review(struct sandbox *s, struct err *err)
{
    struct filesystem *fs = &s->filesystem;
    const struct pinned_grant *g = review_grant(fs);
    if (fs->reviews_fd < 0)
        return 0;
    if (review_make(fs, s->kernel.host_uid, s->kernel.host_gid, err) < 0)
        return err_number(err);
    struct lifecycle_review r = {.fd = fs->review_fd,
                                 .bytes = fs->review_base.bytes,
                                 .inodes = fs->review_base.inodes,
                                 .place = grant_place(fs, g),
                                 .project = fs->namespaced ? g->source : NULL};
    return lifecycle_watch_review(&s->lifecycle, &r, err);
}

static int prepare(struct sandbox *s, struct err *err)
{
    if (lifecycle_prepare(&s->lifecycle, err) < 0 || kernel_prepare(&s->kernel, err) < 0 ||
        prepare_review(s, err) < 0)
        return err_number(err);
    const struct kernel *k = &s->kernel;
    uid_t system = k->beside ? k->root_uid : k->host_uid;
    return filesystem_prepare(&s->filesystem, k->host_uid, k->host_gid, system, err);
}

static int open_null(int flags, struct err *err)
{
    int fd = open("/dev/null", flags | O_CLOEXEC);
    return fd < 0 ? err_sys(err, "open /dev/null") : fd;
}

/* stdio[] are the code's ends; ours go into the streams. */
static int lay_lines(struct sandbox *s, struct pump_line lines[PUMP_LINES], int stdio[3])
{
    const struct run_request *r = s->request;
    uint64_t limit = guard_left_out(GUARD_OUTPUT) ? UINT64_MAX : r->policy->output;
    struct pump_line *line = s->pumped ? lines : NULL;
    int result, out = -1, errout = -1;
    if (r->stdin_fd >= 0) {
        if ((result = pump_lay(line ? &line[0] : NULL, false, &stdio[0], &s->in.to)) < 0)
            return result;
        s->in.from = r->stdin_fd;
    }
    if ((result = pump_lay(line ? &line[1] : NULL, true, &stdio[1], &out)) < 0)
        return result;
    stream_open(&s->out, out, r->stdout_fd, r->capture ? &s->result->out : NULL, limit);
    if ((result = pump_lay(line ? &line[2] : NULL, true, &stdio[2], &errout)) < 0)
        return result;
    stream_open(&s->errout, errout, r->stderr_fd, r->capture ? &s->result->errout : NULL, limit);
    return 0;
}

static int connect_pipes(struct sandbox *s, struct pump_line lines[PUMP_LINES], int stdio[3],
                         struct err *err)
{
    if (s->request->stdin_fd < 0 && (stdio[0] = open_null(O_RDONLY, err)) < 0)
        return stdio[0];
    errno = -lay_lines(s, lines, stdio);
    return errno ? err_sys(err, "connect the code's input and output") : 0;
}

/* While init sets up. */
static int start_pump(struct sandbox *s, struct pump_line lines[PUMP_LINES], struct err *err)
{
    errno = -pump_start(&s->pump, lines);
    s->lifecycle.helpers[HELPER_PUMP] = s->pump.pid;
    return errno ? err_sys(err, "start the pump") : 0;
}

static int connect_null(int stdio[3], struct err *err)
{
    for (int i = 0; i < 3; i++)
        if ((stdio[i] = open_null(O_RDWR, err)) < 0)
            return stdio[i];
    return 0;
}

/* With a terminal: the container tier makes it inside and hands the master out; the process tier
 * has only the host's. */
static int connect_tty(struct sandbox *s, int stdio[3], struct err *err)
{
    if (tier_namespaced(s->kernel.tier))
        return connect_null(stdio, err);
    if (tty_open_pair(&s->tty_master, &stdio[0], err) < 0)
        return err_number(err);
    for (int i = 1; i < 3; i++)
        if ((stdio[i] = fcntl(stdio[0], F_DUPFD_CLOEXEC, 3)) < 0)
            return err_sys(err, "duplicate the terminal");
    return 0;
}

static void close_all(int *fds, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (fds[i] >= 0)
            close(fds[i]);
}

/* How the child gets into its group: born there (v2) or by its own first act (v1). */
static int open_groups(struct sandbox *s, struct launch *l, int join[CGROUP_V1_HIERARCHIES],
                       struct err *err)
{
    const struct cgroup_group *group = &s->lifecycle.group;
    if (!s->lifecycle.cgroup)
        return 0;
    if (group->version == CGROUP_V2)
        return (l->cgroup_fd = cgroup_clone_fd(group, err)) < 0 ? err_number(err) : 0;
    int count = cgroup_join_fds(group, join, err);
    l->join_fds = join;
    l->join_count = count > 0 ? (unsigned)count : 0;
    return count < 0 ? count : 0;
}

/* init also ends when its control socket does: somebody else keeps it open, for a while. */
static void hold_control(int fd)
{
    if (!guard_left_out(GUARD_SUPERVISOR) || fork() != 0)
        return;
    dup2(fd, 0);
    sys_close_range(1, ~0u, 0);
    alarm(15);
    pause();
    _exit(0);
}

static int launch(struct sandbox *s, int plan_fd, struct err *err)
{
    int stdio[3] = {-1, -1, -1}, ctl[2] = {-1, -1};
    struct pump_line lines[PUMP_LINES];
    int join[CGROUP_V1_HIERARCHIES];
    struct launch l = {.plan_fd = plan_fd, .cgroup_fd = -1};
    pump_lines_init(lines);
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ctl) < 0)
        return err_sys(err, "control socket");
    s->ctl_fd = ctl[0];
    hold_control(s->ctl_fd);
    int on = 1;
    setsockopt(s->ctl_fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof on);
    int channel[2] = {-1, -1};
    int result = s->source         ? clone_connect(s, lines, stdio, channel, err)
                 : s->session      ? connect_null(stdio, err)
                 : s->request->tty ? connect_tty(s, stdio, err)
                                   : connect_pipes(s, lines, stdio, err);
    if (result >= 0 && (result = open_groups(s, &l, join, err)) < 0)
        err_at(err, BOUNDARY_LIFECYCLE);
    if (result >= 0) {
        memcpy(l.stdio, stdio, sizeof stdio);
        l.ctl_fd = ctl[1];
        int trees[INIT_TREES_MAX + KERNEL_HANDED];
        l.tree_count = s->filesystem.tree_count;
        memcpy(trees, s->filesystem.trees, l.tree_count * sizeof trees[0]);
        l.tree_count += sandbox_machine_hand(s, trees + l.tree_count);
        l.trees = trees;
        result = s->source
                     ? kernel_clone(&s->kernel, &l, s->source->door, s->source->image, channel, err)
                     : kernel_launch(&s->kernel, &l, &s->init_pid, &s->init_pidfd, err);
    }
    if (result >= 0)
        result = start_pump(s, lines, err);
    pump_close(lines);
    close_all(stdio, 3);
    close_all(channel, 2);
    close_all(join, l.join_count);
    close_all(&l.cgroup_fd, 1);
    close(ctl[1]);
    return result;
}

static int take_door(struct sandbox *s, int *fd, struct err *err)
{
    int type = 0;
    socklen_t len = sizeof type;
    if (!s->kernel.beside || s->beside.fd >= 0 || *fd < 0 ||
        getsockopt(*fd, SOL_SOCKET, SO_TYPE, &type, &len) < 0 || type != SOCK_SEQPACKET)
        return err_set(err, ERR_PROTOCOL, "init sent a socket that nobody asked for");
    s->beside.fd = fd_steal(fd);
    return 0;
}

static int take_message(struct sandbox *s, const struct ctl_msg *msg, int *fd, pid_t pid,
                        struct err *err)
{
    switch (msg->type) {
    case CTL_FAIL:
        *err = msg->err;
        return err_code_known(err->code) ? err_number(err) : -ERR_PROTOCOL;
    case CTL_LISTENER:
        s->kernel.listener_fd = fd_steal(fd);
        s->kernel.unseen = s->kernel.listener_fd < 0;
        return s->learner && s->kernel.unseen ? learner_blind(err) : 0;
    case CTL_SOCKET:
        return sandbox_egress_listener(s, *fd, msg->value, err);
    case CTL_PROC_FILE:
        return filesystem_own_take(&s->filesystem, msg->value, fd, err);
    case CTL_WORK:
        return filesystem_changes_take(&s->filesystem, fd, err);
    case CTL_PROC:
        return lifecycle_take_proc(&s->lifecycle, fd, err);
    case CTL_TTY:
        s->tty_master = fd_steal(fd);
        return 0;
    case CTL_DOOR:
        return take_door(s, fd, err);
    case CTL_BORN:
        return clone_born(s, fd, pid, err);
    case CTL_CLONED:
        return clone_waits(s, msg->pid, pid, err);
    case CTL_READY:
        if (s->session && pid != s->init_pid)
            return err_set(err, ERR_PROTOCOL, "a message of init came from another process");
        s->code_pid = pid;
        s->evidence = msg->evidence;
        return !s->source || s->cloned.pid > 0;
    default:
        return err_set(err, ERR_PROTOCOL, "init sent an unexpected message %u", msg->type);
    }
}

static int init_died(struct err *err)
{
    err_set(err, ERR_SYSTEM, "the sandbox's first process died during the set-up");
    err_at(err, BOUNDARY_LIFECYCLE);
    return err_hint(
        err, "it was killed from outside, or the memory limit is too small to start anything");
}

static int guardian_died(struct err *err)
{
    err_set(err, ERR_SYSTEM,
            "the guardian, which cleans up if brig is killed, could not be kept running");
    return err_at(err, BOUNDARY_LIFECYCLE);
}

/* In learn mode calls are shown that init itself makes between its own filter and the code. */
static int seen_early(const struct sandbox *s)
{
    return s->learner ? s->kernel.listener_fd : -1;
}

/* Signals of the caller are pending on the signal descriptor: a start can be interrupted. */
static int await_ready(struct sandbox *s, struct err *err)
{
    unsigned patience = s->source ? s->source->patience_ms : SET_UP_DEADLINE_MS;
    uint64_t deadline = clock_us() + patience * 1000ull;
    for (;;) {
        struct pollfd fds[4] = {{.fd = s->ctl_fd, .events = POLLIN},
                                {.fd = s->signal_fd, .events = POLLIN},
                                {.fd = s->lifecycle.guardian.pidfd, .events = POLLIN},
                                {.fd = seen_early(s), .events = POLLIN}};
        uint64_t now = clock_us();
        if (now >= deadline)
            return err_set(err, ERR_SYSTEM, "the set-up took longer than %u s", patience / 1000);
        int n = poll(fds, ARRAY_LEN(fds), (int)((deadline - now) / 1000) + 1);
        if (n < 0 && errno != EINTR)
            return err_sys(err, "wait for init");
        if (n > 0 && fds[1].revents)
            return err_set(err, ERR_INTERRUPTED, "interrupted during the set-up");
        if (n > 0 && fds[2].revents)
            return guardian_died(err);
        if (n > 0 && fds[3].revents)
            seen_answer(&s->kernel, &s->result->denials);
        if (n <= 0 || !fds[0].revents)
            continue;
        struct ctl_msg msg;
        cleanup_fd int fd = -1;
        pid_t pid;
        int got = message_receive(s->ctl_fd, &msg, &fd, &pid, 0, err);
        if (got == 0)
            return init_died(err);
        if (got > 0)
            got = take_message(s, &msg, &fd, pid, err);
        if (got != 0)
            return got > 0 ? 0 : got;
    }
}

/* Root's part of init is there a moment after init itself. */
static int await_beside(struct sandbox *s, struct err *err)
{
    struct ctl_msg msg;
    cleanup_fd int fd = -1;
    struct pollfd in = {.fd = s->beside.fd, .events = POLLIN};
    if (!s->kernel.beside)
        return 0;
    int n;
    while ((n = poll(&in, 1, SET_UP_DEADLINE_MS)) < 0 && errno == EINTR)
        ;
    int got =
        n > 0 ? message_receive(s->beside.fd, &msg, &fd, &s->beside.pid, MSG_DONTWAIT, err) : 0;
    if (got < 0)
        return got;
    if (got > 0 && msg.type == CTL_READY)
        return 0;
    if (got > 0 && msg.type == CTL_FAIL && err_code_known(msg.err.code)) {
        *err = msg.err;
        return err_number(err);
    }
    err_set(err, ERR_SYSTEM, "root's part of init did not start");
    return err_at(err, BOUNDARY_KERNEL);
}

typedef int attest_verb(struct sandbox *s, struct evidence *out, struct err *err);

static int attest_kernel(struct sandbox *s, struct evidence *out, struct err *err)
{
    if (s->kernel.beside && kernel_attest_beside(&s->kernel, s->init_pid, s->beside.pid, err) < 0)
        return err_number(err);
    return kernel_attest(&s->kernel, s->init_pid, s->code_pid, out, err);
}
static int attest_filesystem(struct sandbox *s, struct evidence *out, struct err *err)
{
    return filesystem_attest(&s->filesystem, s->code_pid, &s->evidence, out, err);
}
static int attest_network(struct sandbox *s, struct evidence *out, struct err *err)
{
    return network_attest(&s->network, s->code_pid, out, err);
}
static int attest_credentials(struct sandbox *s, struct evidence *out, struct err *err)
{
    return credentials_attest(&s->credentials, s->code_pid, out, err);
}
static int attest_lifecycle(struct sandbox *s, struct evidence *out, struct err *err)
{
    return lifecycle_attest(&s->lifecycle, s->code_pid, out, err);
}

int sandbox_attest(struct sandbox *s, struct err *err)
{
    static attest_verb *const verbs[BOUNDARY_COUNT] = {
        [BOUNDARY_KERNEL] = attest_kernel,       [BOUNDARY_FILESYSTEM] = attest_filesystem,
        [BOUNDARY_NETWORK] = attest_network,     [BOUNDARY_CREDENTIALS] = attest_credentials,
        [BOUNDARY_LIFECYCLE] = attest_lifecycle,
    };
    struct json_writer w;
    struct evidence out = {.w = &w};
    if (s->source && clone_attest(s, err) < 0)
        return err_wrap(err, "attestation");
    buf_reset(&s->boundaries);
    jw_init(&w, &s->boundaries, false);
    jw_object_begin(&w);
    for (int b = BOUNDARY_KERNEL; b < BOUNDARY_COUNT; b++) {
        jw_key(&w, boundary_name((enum boundary_id)b));
        jw_object_begin(&w);
        if (verbs[b](s, &out, err) < 0) {
            buf_reset(&s->boundaries); /* half an object */
            return err_wrap(err, "attestation");
        }
        jw_object_end(&w);
    }
    jw_object_end(&w);
    return 0;
}

static int write_plan(struct sandbox *s, int plan_fd, struct err *err)
{
    if (sandbox_egress_trust(s, err) < 0 ||
        (s->session && interpreters_show(&s->filesystem, err) < 0) ||
        sandbox_own_begin(s, err) < 0 || (s->stem && stem_show(s->stem, &s->filesystem, err) < 0) ||
        sandbox_make_plan(s, err) < 0 || sandbox_machine_write(s, err) < 0)
        return err_number(err);
    return memfd_fill(plan_fd, s->plan.bytes.data, s->plan.bytes.len, err);
}

static int start(struct sandbox *s, int plan_fd, struct err *err)
{
    if (launch(s, plan_fd, err) < 0 || kernel_map(&s->kernel, s->init_pid, err) < 0 ||
        lifecycle_adopt(&s->lifecycle, s->init_pid, err) < 0)
        return err_number(err);
    if (message_send(s->ctl_fd, CTL_MAPPED, 0) < 0)
        return init_died(err);
    /* The plan is written while the child becomes init. */
    if (write_plan(s, plan_fd, err) < 0)
        return err_number(err);
    return message_send(s->ctl_fd, CTL_PLAN, 0) < 0 ? init_died(err) : 0;
}

/* A template process stands still while it is cloned: it is not made to wait for the plan. */
static int start_clone(struct sandbox *s, int plan_fd, struct err *err)
{
    return write_plan(s, plan_fd, err) < 0 ? err_number(err) : launch(s, plan_fd, err);
}

int sandbox_provision(struct sandbox *s, struct err *err)
{
    cleanup_fd int plan_fd = memfd_empty("brig-plan", false, err);
    if (plan_fd < 0 || sandbox_machine_prepare(s, err) < 0 || sandbox_egress_start(s, err) < 0 ||
        prepare(s, err) < 0)
        return err_number(err);
    if ((s->source ? start_clone(s, plan_fd, err) : start(s, plan_fd, err)) < 0)
        return err_number(err);
    if (sandbox_notary_start(s, err) < 0 || await_ready(s, err) < 0 || await_beside(s, err) < 0 ||
        sandbox_egress_await(s, err) < 0 || sandbox_attest(s, err) < 0 ||
        sandbox_notary_await(s, err) < 0)
        return err_number(err);
    struct pollfd guardian = {.fd = s->lifecycle.guardian.pidfd, .events = POLLIN};
    return poll(&guardian, 1, 0) > 0 ? guardian_died(err) : 0;
}
