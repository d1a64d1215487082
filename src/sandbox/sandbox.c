/* One run, from request to result. */
#include "sandbox/sandbox.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "os/signals.h"
#include "os/weaken.h"
#include "review/prepare.h"
#include "sandbox/gate.h"
#include "sandbox/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

struct sandbox *sandbox_new(const struct run_request *request, struct run_result *result)
{
    struct sandbox *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->request = request;
    s->result = result;
    if (request->learn && !(s->learner = learner_new())) {
        free(s);
        return NULL;
    }
    int *fds[] = {&s->ctl_fd,    &s->init_pidfd, &s->tty_master, &s->tty_sizes,
                  &s->signal_fd, &s->reviews_fd, &s->names_fd,   &s->beside.fd};
    for (size_t i = 0; i < ARRAY_LEN(fds); i++)
        *fds[i] = -1;
    for (size_t i = 0; i < ARRAY_LEN(s->cloned.fds); i++)
        s->cloned.fds[i] = -1;
    for (size_t i = 0; i < ARRAY_LEN(s->machine.fds); i++)
        s->machine.fds[i] = -1;
    pump_init(&s->pump);
    kernel_init(&s->kernel);
    filesystem_init(&s->filesystem);
    lifecycle_init(&s->lifecycle);
    state_init(&s->state);
    egress_init(&s->egress);
    link_init(&s->link);
    netrecord_init(&s->netrecord);
    notary_init(&s->notary);
    buf_init(&s->trust_bundle, 2u << 20);
    buf_init(&s->trust_java, 2u << 20);
    stream_init(&s->out);
    stream_init(&s->errout);
    feed_init(&s->in);
    stream_hash_init(&s->commands);
    buf_init(&s->boundaries, request->receipt ? 1 << 20 : 0);
    return s;
}

void sandbox_free(struct sandbox *s)
{
    if (s->lifecycle.stuck)
        return; /* its guardian still reads what is in there */
    sandbox_egress_teardown(s);
    plan_done(&s->plan);
    buf_done(&s->boundaries);
    learner_free(s->learner);
    free(s);
}

const char *run_tool_path(enum tier tier, const char *tool)
{
    bool host_view = guard_left_out(GUARD_ROOT) || guard_left_out(GUARD_NS_MOUNT);
    if (!tier_namespaced(tier) || host_view)
        return tool;
    const struct tier_row *row = tier_row(tier);
    return row->user_kernel || row->machine ? PROGRAM_PATH : TOOL_PATH;
}

bool run_behind_sentry(enum tier tier)
{
    return tier_row(tier)->user_kernel;
}

bool run_in_machine(enum tier tier)
{
    return tier_row(tier)->machine;
}

uint64_t run_boot_ms(enum tier tier)
{
    return run_in_machine(tier) ? machine_boot_ms() : 0;
}

int run_check_policy(const struct policy *p, enum tier tier, struct err *err)
{
    return run_behind_sentry(tier) ? sentry_check_policy(p, err)
           : run_in_machine(tier)  ? machine_check_policy(p, err)
                                   : 0;
}

static void notice(struct run_result *r, const char *text)
{
    if (r->notice_count < RUN_NOTICES_MAX)
        snprintf(r->notices[r->notice_count++], sizeof r->notices[0], "%s", text);
}

/* The operator may go below what the level asks for; it is said aloud. */
void sandbox_note_weaker(struct sandbox *s)
{
    const struct policy *p = s->request->policy;
    enum tier asked = tier_of_level(p->level);
    char text[256];
    if (s->kernel.tier < asked) {
        snprintf(text, sizeof text, "level %s asks for the %s tier; the operator chose %s",
                 level_name(p->level), tier_name(asked), tier_name(s->kernel.tier));
        notice(s->result, text);
    }
    if (p->landlock != NEED_REQUIRE && tier_namespaced(s->kernel.tier) &&
        !s->filesystem.landlock_fs)
        notice(s->result, "Landlock, the second filesystem layer, is not in force");
    if (lifecycle_note(&s->lifecycle, text, sizeof text))
        notice(s->result, text);
}

static const int watched[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGWINCH, SIGTSTP};

static int watch_signals(struct sandbox *s, sigset_t *old, struct err *err)
{
    s->signal_fd = signals_open(watched, ARRAY_LEN(watched), old, err);
    return s->signal_fd < 0 ? s->signal_fd : 0;
}

/* A terminal is one file: in both directions. All have a pump: what the code does at its other side
 * holds up nobody then who keeps the time limit. */
static int lay_terminal(struct sandbox *s, struct pump_line lines[PUMP_LINES], int *from)
{
    struct pump_line *line = guard_left_out(GUARD_ERRANDS) ? NULL : lines;
    int result = pump_lay_terminal(line ? &line[0] : NULL, true, s->tty_master, from);
    if (result >= 0)
        result = pump_lay_terminal(line ? &line[1] : NULL, false, s->tty_master, &s->in.to);
    if (result >= 0 && line)
        result = pump_lay_sizes(&line[2], s->tty_master, &s->tty_sizes);
    return result;
}

static int pump_terminal(struct sandbox *s, int *from, struct err *err)
{
    struct pump_line lines[PUMP_LINES];
    pump_lines_init(lines);
    int result = lay_terminal(s, lines, from);
    if (result >= 0)
        result = pump_start(&s->pump, lines);
    pump_close(lines);
    s->lifecycle.helpers[HELPER_PUMP] = s->pump.pid;
    errno = result < 0 ? -result : 0;
    return errno ? err_sys(err, "connect the terminal") : 0;
}

static int start_terminal(struct sandbox *s, struct err *err)
{
    const struct run_request *r = s->request;
    int from = -1;
    if (!r->tty || s->tty_master < 0)
        return 0;
    if (pump_terminal(s, &from, err) < 0) {
        if (from >= 0)
            close(from);
        return err_number(err);
    }
    tty_copy_size(r->stdin_fd, s->tty_master);
    if (s->tty_sizes >= 0)
        close(fd_steal(&s->tty_master));
    tty_raw(r->stdin_fd);
    stream_open(&s->out, from, r->stdout_fd, NULL, UINT64_MAX);
    fcntl(s->in.to, F_SETFL, O_NONBLOCK);
    s->in.from = r->stdin_fd;
    s->in.tty = true;
    return 0;
}

static void settle_status(struct sandbox *s)
{
    struct run_result *r = s->result;
    enum limit hit = s->lifecycle.hit;
    r->exit_code = -1;
    if (s->session)
        return;
    if (s->have_status && WIFEXITED(s->wait_status)) {
        r->exit_code = WEXITSTATUS(s->wait_status);
        r->exit_status = r->exit_code;
    } else {
        r->signal =
            s->have_status && WIFSIGNALED(s->wait_status) ? WTERMSIG(s->wait_status) : SIGKILL;
        r->exit_status = 128 + r->signal;
    }
    r->timed_out = hit == LIMIT_TIMEOUT || hit == LIMIT_CPU_TIME;
    if (r->timed_out)
        r->exit_status = 124;
    else if (s->ended_by_signal && !s->have_status)
        r->exit_status = 128 + s->ended_by_signal;
}

static void settle_result(struct sandbox *s)
{
    struct run_result *r = s->result;
    settle_status(s);
    r->oom_killed = s->lifecycle.over_memory;
    s->out_bytes = s->out.total;
    s->err_bytes = s->errout.total;
    r->stdout_truncated = s->out.truncated;
    r->stderr_truncated = s->errout.truncated;
    if (s->lifecycle.hit == LIMIT_NONE && (r->stdout_truncated || r->stderr_truncated))
        s->lifecycle.hit = LIMIT_OUTPUT;
    r->limit_hit = limit_name(s->lifecycle.hit);
    uint64_t from = s->state.entered_us[STATE_EXECUTING], to = s->state.entered_us[STATE_COMPLETED];
    r->duration_ms = to > from ? (double)(to - from) / 1000.0 : 0;
    r->cpu_ms = (double)s->lifecycle.usage.cpu_usec / 1000.0;
    r->peak_memory_bytes = s->lifecycle.usage.memory_peak;
    r->ended_because = s->ended_because;
    if (s->lifecycle.stuck)
        notice(r, "processes of the sandbox could not be killed in time: they wait in the kernel, "
                  "as a rule for a file system of the host that does not answer, and end when it "
                  "does; or the machine is too busy");
}

static int run(struct sandbox *s, struct err *err)
{
    if (sandbox_open(s, err) < 0)
        return err_number(err);
    snprintf(s->result->sandbox_id, sizeof s->result->sandbox_id, "%s", s->id);
    s->result->level = s->request->policy->level;
    s->result->tier = s->kernel.tier;
    if (state_enter(&s->state, STATE_PROVISIONING, err) < 0 || sandbox_provision(s, err) < 0)
        return err_number(err);
    sandbox_note_weaker(s);
    if (state_enter(&s->state, STATE_RUNNING, err) < 0)
        return err_number(err);
    if (start_terminal(s, err) < 0 || state_enter(&s->state, STATE_EXECUTING, err) < 0)
        return err_number(err);
    sandbox_receipt_begin(s);
    return sandbox_supervise(s, err);
}

/* Only when nobody is left to change it. Entries of the view are layered in their order
 * (filesystem/container.c), so that the number of a layer follows. */
static void keep_changes(struct sandbox *s)
{
    const struct filesystem_host *host = &s->filesystem.host;
    if (s->filesystem.changes_fd < 0 || s->lifecycle.stuck || !s->filesystem.root)
        return;
    struct run_changes *c = calloc(1, sizeof *c + host->view_count * sizeof c->tops[0]);
    if (!c)
        return;
    int layers = 0;
    for (; c->count < host->view_count; c->count++) {
        const struct view_entry *e = &host->view[c->count];
        struct run_change *top = &c->tops[c->count];
        snprintf(top->path, sizeof top->path, "%s", e->path);
        snprintf(top->target, sizeof top->target, "%s", e->target);
        top->layer = e->is_dir && !e->target[0] ? layers++ : -1;
    }
    c->fd = fd_steal(&s->filesystem.changes_fd);
    s->result->changes = c;
}

/* LC-7: what is left behind is said, whatever else went wrong; the first of it stands for all. */
static void note_left(struct sandbox *s, int result, const struct err *err)
{
    if (result < 0 && !s->result->left.code)
        s->result->left = *err;
}

static void settle_review(struct sandbox *s)
{
    struct err err = ERR_INIT;
    if (s->filesystem.review_fd < 0)
        return;
    bool failed = s->discard || s->state.entered_us[STATE_EXECUTING] == 0;
    int result = review_settle(&s->filesystem, failed, &err);
    s->result->reviewed = true;
    s->result->review_pending = result > 0;
    note_left(s, result, &err);
    /* Children that are about to end hold the lock too, and `brig apply` may be the next command.
     * Code that nothing can kill may still write: then it goes with the last of them. */
    if (!s->lifecycle.stuck)
        review_release(&s->filesystem);
}

/* Descriptors first: removing takes a few, and a start that was refused for want of them must not
 * leave its folders behind for the same want. */
static void sandbox_teardown(struct sandbox *s)
{
    struct err err = ERR_INIT;
    tty_restore();
    kernel_teardown(&s->kernel);
    stream_done(&s->out);
    stream_done(&s->errout);
    feed_done(&s->in);
    int *fds[] = {&s->ctl_fd,        &s->init_pidfd, &s->tty_master,    &s->tty_sizes,
                  &s->signal_fd,     s->cloned.fds,  s->cloned.fds + 1, s->cloned.fds + 2,
                  s->cloned.fds + 3, &s->beside.fd};
    for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
        if (*fds[i] >= 0)
            close(*fds[i]);
        *fds[i] = -1;
    }
    s->lifecycle.helpers[HELPER_PUMP] = 0;
    pump_end(&s->pump); /* after all else that was connected to the code: it closes last */
    lifecycle_unwatch(&s->lifecycle);
    sandbox_machine_done(s);
    settle_review(s);
    note_left(s, filesystem_teardown(&s->filesystem, &err), &err);
    note_left(s, lifecycle_teardown(&s->lifecycle, &err), &err);
    if (s->reviews_fd >= 0)
        close(s->reviews_fd);
    s->reviews_fd = -1;
}

/* Whatever happened: end it, remove it, and only then say how it went. */
int sandbox_finish(struct sandbox *s, int result, struct err *err)
{
    bool failed = result < 0;
    sandbox_end(s);
    sandbox_egress_end(s);
    state_enter(&s->state, failed ? STATE_ERROR : STATE_COMPLETED, NULL);
    if (s->exec_failed && !failed) {
        *err = s->exec_err;
        result = err_number(err);
    }
    if (!failed)
        settle_result(s);
    if (result >= 0)
        keep_changes(s);
    if (!failed && s->learner)
        s->result->learned = learner_settle(s);
    state_enter(&s->state, STATE_TEARDOWN, NULL);
    /* Signed while what is left is removed. */
    if (result >= 0)
        sandbox_receipt_write(s);
    sandbox_teardown(s);
    sandbox_receipt_end(s, result);
    return result;
}

int sandbox_run(const struct run_request *request, struct run_result *result, struct err *err)
{
    sigset_t old;
    /* Before anything exists that could be left behind, and with signals as the caller has them. */
    if (gate_command(request, result, err) < 0)
        return err_number(err);
    struct sandbox *s = sandbox_new(request, result);
    if (!s)
        return err_memory(err);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    int outcome = watch_signals(s, &old, err);
    if (outcome >= 0)
        outcome = run(s, err);
    outcome = sandbox_finish(s, outcome, err);
    sigprocmask(SIG_SETMASK, &old, NULL);
    sandbox_free(s);
    return outcome;
}
