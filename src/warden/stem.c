/* The warden of a stem: provisions its sandbox, starts there what waits to be cloned, and watches
 * both. */
#include "warden/stem.h"

#include "base/cleanup.h"
#include "os/fd.h"
#include "sandbox/image.h"
#include "warden/stem_kinds.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>

bool stem_parks(const struct template *t)
{
    return tier_cloned(&t->policy) && tier_machine(&t->policy);
}

bool stem_possible(const struct template *t, char why[static STEM_WHY_SIZE])
{
    struct err err = ERR_INIT;
    const char *reason = t->cold         ? "it says that it wants none (clones: false)"
                         : stem_parks(t) ? NULL
                                         : stem_process_unfit(t, &err);
    snprintf(why, STEM_WHY_SIZE, "%.190s", reason ? reason : "");
    return !reason;
}

struct policy stem_policy(const struct template *t)
{
    struct policy p = t->policy;
    p.project = p.report = false;
    p.grant_count = p.env_count = 0;
    p.network_mode = NETWORK_OFF;
    p.egress.rule_count = p.egress.blocked_count = p.egress.secret_count = 0;
    p.timeout_ms = p.cpu_time_ms = POLICY_UNLIMITED;
    p.sampling = SAMPLING_ACCEPT; /* no code of a user's runs in it */
    return p;
}

/* A user namespace holds everything inside it together to the limits that its maker had. Each clone
 * has limits of its own besides. */
static void lift_limits(void)
{
    static const int shared[] = {RLIMIT_NPROC, RLIMIT_MSGQUEUE, RLIMIT_SIGPENDING, RLIMIT_MEMLOCK};
    struct rlimit limit;
    for (size_t i = 0; i < ARRAY_LEN(shared); i++)
        if (getrlimit(shared[i], &limit) == 0) {
            limit.rlim_cur = limit.rlim_max = geteuid() == 0 ? RLIM_INFINITY : limit.rlim_max;
            setrlimit(shared[i], &limit);
        }
}

/* Not named by process ids alone: when a launcher is killed with all that it started, its control
 * groups stay, and one with the same process ids would meet them. */
static int name_sandbox(struct sandbox *s, struct err *err)
{
    uint32_t random;
    if (getrandom(&random, sizeof random, 0) != sizeof random)
        return err_sys(err, "random id");
    snprintf(s->id, sizeof s->id, "brig-stem-%d-%08x", (int)getppid(), random);
    return 0;
}

/* ---- its life ---- */

int stem_spawn(struct stem_warden *w, struct plan *block, int fds[static SPAWN_FDS], unsigned count,
               struct err *err)
{
    int pipe[2];
    struct ctl_msg msg = {.type = CTL_SPAWN, .request = 1};
    plan_str(block, OP_CWD, "/", NULL, 0);
    if (plan_finish(block, err) < 0)
        return err_number(err);
    cleanup_fd int text =
        memfd_sealed("brig-spawn", block->bytes.data, block->bytes.len, false, err);
    if (text < 0)
        return err_number(err);
    if (pipe2(pipe, O_CLOEXEC | O_NONBLOCK) < 0)
        return err_sys(err, "pipe");
    cleanup_fd int theirs = pipe[1];
    w->status = pipe[0];
    fds[SPAWN_BLOCK] = text;
    fds[SPAWN_STATUS] = theirs;
    int r = message_ask(w->s->ctl_fd, &msg, fds, count);
    errno = -r;
    return r < 0 ? err_sys(err, "start the %s", w->kind->name) : 0;
}

static int begin(struct stem_warden *w, struct err *err)
{
    struct sandbox *s = w->s;
    if (sandbox_open(s, err) < 0 || state_enter(&s->state, STATE_PROVISIONING, err) < 0 ||
        sandbox_provision(s, err) < 0 || state_enter(&s->state, STATE_RUNNING, err) < 0)
        return err_number(err);
    if (message_send(s->ctl_fd, CTL_GO, 0) < 0)
        return err_set(err, ERR_SYSTEM, "the template's sandbox died before it was of use");
    return w->kind->start(w, err);
}

static void complain(const struct stem_warden *w, const struct err *err)
{
    send(w->sock, err->message, strlen(err->message), MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* The pipe closes when the program is executed. */
static void hear_status(struct stem_warden *w)
{
    struct err err;
    if (read(w->status, &err, sizeof err) == (ssize_t)sizeof err) {
        err.message[sizeof err.message - 1] = '\0';
        complain(w, &err);
    }
    close(fd_steal(&w->status));
}

/* What init says. 0: go on; 1: the stem is done; negative: it, or init, has failed. */
static int hear_init(struct stem_warden *w, struct err *err)
{
    struct ctl_msg msg;
    ssize_t n = recv(w->s->ctl_fd, &msg, sizeof msg, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    if (n != (ssize_t)sizeof msg)
        return err_set(err, ERR_SYSTEM, "the first process of the template's sandbox ended");
    return w->kind->hear(w, &msg, err);
}

static int lose_sandbox(const struct stem_warden *w, struct err *err)
{
    return w->kind->finish
               ? err_set(err, ERR_SYSTEM, "the template's sandbox ended before it was of use")
               : 0;
}

/* Goes on until the stem is done (1), has failed (negative), or the launcher has closed its end
 * (0). */
static int watch(struct stem_warden *w, struct err *err)
{
    struct sandbox *s = w->s;
    for (int result = 0; result == 0;) {
        struct pollfd fds[] = {{.fd = w->sock, .events = POLLIN},
                               {.fd = s->init_pidfd, .events = POLLIN},
                               {.fd = s->lifecycle.guardian.pidfd, .events = POLLIN},
                               {.fd = s->ctl_fd, .events = POLLIN},
                               {.fd = w->status, .events = POLLIN}};
        if (poll(fds, ARRAY_LEN(fds), -1) < 0 && errno == EINTR)
            continue;
        if (fds[0].revents)
            return 0;
        if (fds[1].revents || fds[2].revents)
            return lose_sandbox(w, err);
        if (fds[3].revents)
            result = hear_init(w, err);
        if (fds[4].revents)
            hear_status(w);
        if (result)
            return result;
    }
    return 0;
}

static int run(struct stem_warden *w, struct err *err)
{
    if (name_sandbox(w->s, err) < 0 || w->kind->prepare(w, err) < 0)
        return err_number(err);
    lift_limits();
    return begin(w, err) < 0 ? err_number(err) : watch(w, err);
}

int stem_main(int sock, int door, const struct template *t, uid_t lease, const struct parked *park)
{
    struct err err = ERR_INIT;
    struct run_result result;
    struct stem_warden w = {.kind = park ? &stem_machine : &stem_process,
                            .template = t,
                            .request = {.stdin_fd = -1, .stdout_fd = -1, .stderr_fd = -1},
                            .sock = sock,
                            .door = door,
                            .status = -1,
                            .errors = -1,
                            .files = {.lease = lease},
                            .park = park,
                            .image = IMAGE_INIT};
    w.policy = w.kind->policy(t);
    w.request.policy = &w.policy;
    prctl(PR_SET_NAME, "brig-stem");
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    signal(SIGPIPE, SIG_IGN);
    run_result_init(&result);
    if (!(w.s = sandbox_new(&w.request, &result)))
        return 125;
    w.s->session = true;
    int outcome = run(&w, &err);
    sandbox_finish(w.s, outcome < 0 ? outcome : 0, &err);
    if (outcome > 0 && w.kind->finish)
        outcome = w.kind->finish(&w, &err);
    if (outcome < 0)
        complain(&w, &err);
    if (result.left.code)
        complain(&w, &result.left);
    sandbox_free(w.s);
    image_done(&w.image);
    return outcome < 0 ? 1 : 0;
}
