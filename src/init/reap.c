/* init's loop while one command runs: collects dead processes, obeys the supervisor and reports the
 * end. */
#include "init/reap.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* Reap everything that ended. Returns true when the code itself did, with its wait status. */
static bool reap_ended(pid_t code, int *status)
{
    bool ended = false;
    int each;
    pid_t pid;
    while ((pid = waitpid(-1, &each, WNOHANG)) > 0)
        if (pid == code) {
            *status = each;
            ended = true;
        }
    return ended;
}

/* In a pid namespace the kernel does this when init exits. On the process tier kill(-1) stays
 * inside because of the sandbox's own uid or the Landlock scope. Without either, init stays until
 * the last process is gone: the supervisor or the guardian, which then ends the sandbox from
 * outside, finds all of them below init. */
static void kill_everything(const struct apply_state *st)
{
    if (getpid() == 1)
        return;
    if (!st->kill_all) {
        while (waitpid(-1, NULL, 0) > 0 || errno == EINTR)
            ;
        return;
    }
    while (kill(-1, SIGKILL) == 0 || errno == EPERM)
        if (waitpid(-1, NULL, 0) < 0 && errno == ECHILD)
            break;
}

static bool let_go(struct started *code)
{
    /* Hide memory and descriptors of init from the code, which has the same uid. */
    prctl(PR_SET_DUMPABLE, 0);
    if (code->go_fd < 0 || write(code->go_fd, "g", 1) != 1) {
        struct ctl_msg msg = {.type = CTL_FAIL};
        err_sys(&msg.err, "let the code run");
        ctl_send(&msg, -1);
        return false;
    }
    close(code->go_fd);
    code->go_fd = -1;
    return true;
}

static bool valid_signal(int sig)
{
    return sig > 0 && sig < NSIG;
}

/* Returns false when the sandbox must end. */
static bool obey(const struct apply_state *st, struct started *code, const struct ctl_msg *msg)
{
    switch (msg->type) {
    case CTL_GO:
        return let_go(code);
    case CTL_SIGNAL:
        /* As a terminal does: the code leads a process group, and a shell waits for its children.
         */
        if (valid_signal(msg->value) && kill(-code->pid, msg->value) < 0)
            kill(code->pid, msg->value);
        return true;
    case CTL_FREEZE:
        if (st->kill_all)
            kill(-1, msg->value ? SIGSTOP : SIGCONT);
        return true;
    default:
        return false;
    }
}

int reap_open_signals(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    sigprocmask(SIG_BLOCK, &set, NULL);
    return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

static void report_end(int status)
{
    struct ctl_msg msg = {.type = CTL_EXIT, .value = status};
    ctl_send(&msg, -1);
}

int reap_until_end(struct apply_state *st, struct started *code)
{
    int status = 0;
    struct pollfd fds[2] = {{.fd = INIT_FD_CTL, .events = POLLIN},
                            {.fd = reap_open_signals(), .events = POLLIN}};
    if (reap_ended(code->pid, &status)) {
        report_end(status);
        return 0;
    }
    for (;;) {
        struct ctl_msg msg;
        struct signalfd_siginfo drained;
        if (poll(fds, 2, -1) < 0 && errno != EINTR)
            break;
        while (read(fds[1].fd, &drained, sizeof drained) > 0)
            ;
        if (reap_ended(code->pid, &status)) {
            report_end(status);
            break;
        }
        if (!fds[0].revents)
            continue;
        if (recv(INIT_FD_CTL, &msg, sizeof msg, MSG_DONTWAIT) != (ssize_t)sizeof msg ||
            !obey(st, code, &msg))
            break;
    }
    kill_everything(st);
    return 0;
}
