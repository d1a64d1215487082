/* init's loop in a sandbox that lives on: forks one child for each request of the warden, and
 * reports the ends of programs. */
#include "init/session_child.h"

#include "init/exec_child.h"
#include "init/perform_child.h"
#include "init/reap.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* Those whose end is reported; what they started, and workers, are only reaped. */
static pid_t children[SESSION_CHILDREN_MAX];
static unsigned child_count;

static int waiting_fd = -1; /* of the one that was adopted */

int session_adopt(pid_t pid, int go_fd)
{
    if (child_count == SESSION_CHILDREN_MAX)
        return -ERR_LIMIT;
    children[child_count++] = pid;
    waiting_fd = go_fd;
    return 0;
}

static int find(pid_t pid)
{
    for (unsigned i = 0; i < child_count; i++)
        if (children[i] == pid)
            return (int)i;
    return -1;
}

static void answer(uint32_t request, pid_t pid, const struct err *err)
{
    struct ctl_msg msg = {.type = CTL_ANSWER, .request = request, .pid = pid};
    if (err)
        msg.err = *err;
    ctl_send(&msg, -1);
}

/* False: root's part of init is gone, and with it what would be told of root's processes; or root
 * has stopped it, who has its id, and nobody could pause or end what root runs. */
static bool reap_all(const struct apply_state *st)
{
    int status;
    pid_t pid;
    while ((pid = waitpid(-1, &status, WNOHANG | WUNTRACED)) > 0) {
        int at = find(pid);
        if (pid == st->beside)
            return false;
        if (at < 0 || WIFSTOPPED(status))
            continue;
        children[at] = children[--child_count];
        struct ctl_msg msg = {.type = CTL_EXITED, .pid = pid, .value = status};
        ctl_send(&msg, -1);
    }
    return true;
}

static void work_on_files(const struct apply_state *st, const int *fds, int count)
{
    struct err err = ERR_INIT;
    size_t len = 0;
    const void *block = perform_map(fds[FILE_BLOCK], &len, &err);
    if (exec_limits(st, &err) < 0)
        _exit(125);
    exec_default_signals();
    _exit(block ? file_worker_child(block, len, count > FILE_IN ? fds[FILE_IN] : -1, fds[FILE_OUT])
                : 125);
}

/* Did the right number of descriptors come along? Checked here, so that the children need not. */
static bool is_complete(const struct ctl_msg *msg, int count)
{
    switch (msg->type) {
    case CTL_SPAWN:
        return count == SPAWN_TERMINAL_FDS || count >= SPAWN_REQUESTS;
    case CTL_FILE:
        return count == FILE_IN || count == FILE_FDS;
    case CTL_CONNECT:
        return count <= 1;
    default:
        return count == 0;
    }
}

static void carry_out(struct apply_state *st, const struct ctl_msg *msg, const int *fds, int count)
{
    if (msg->type == CTL_SPAWN)
        spawn_child(st, fds, count);
    if (msg->type == CTL_FILE)
        work_on_files(st, fds, count);
    connect_child(msg->request, msg->value, count ? fds[0] : -1);
}

/* One child for each request: if it hangs or dies, nothing else does. */
static void start(struct apply_state *st, const struct ctl_msg *msg, const int *fds, int count)
{
    struct err err = ERR_INIT;
    bool room = msg->type != CTL_SPAWN || child_count < SESSION_CHILDREN_MAX;
    pid_t pid = room ? fork() : -1;
    if (pid == 0)
        carry_out(st, msg, fds, count);
    if (pid < 0) {
        errno = room ? errno : EAGAIN;
        err_sys(&err, "start a process in the sandbox");
        err_hint(&err, "the limit of processes (lifecycle.pids) may be reached");
        answer(msg->request, 0, err_at(&err, BOUNDARY_LIFECYCLE) < 0 ? &err : NULL);
        return;
    }
    if (msg->type == CTL_SPAWN)
        session_adopt(pid, -1);
    if (msg->type != CTL_CONNECT) /* the child answers by itself, with the connected socket */
        answer(msg->request, pid, NULL);
}

static void pass_signal(const struct ctl_msg *msg)
{
    struct err err = ERR_INIT;
    pid_t pid = msg->pid < 0 ? -msg->pid : msg->pid;
    errno = ESRCH;
    /* Process ids are reused: signal only children that are known to be alive. */
    bool good = pid > 1 && find(pid) >= 0 && msg->value > 0 && msg->value < NSIG;
    /* A child that was forked a moment ago has no group of its own yet. */
    if (good && (kill(msg->pid, msg->value) == 0 || kill(pid, msg->value) == 0)) {
        answer(msg->request, pid, NULL);
        return;
    }
    err_sys(&err, "signal process %d", (int)pid);
    if (err.sys_errno == ESRCH)
        err.code = ERR_NOT_FOUND;
    answer(msg->request, pid, &err);
}

/* Returns false when the sandbox must end. */
static bool obey(struct apply_state *st, const struct ctl_msg *msg, const int *fds, int count)
{
    if (!is_complete(msg, count))
        return false;
    switch (msg->type) {
    case CTL_SPAWN:
    case CTL_FILE:
    case CTL_CONNECT:
        start(st, msg, fds, count);
        return true;
    case CTL_SIGNAL:
        pass_signal(msg);
        return true;
    case CTL_HIDE:
        /* Memory and descriptors of init, and of what is not yet a program, are not for the code,
         * which has the same uid; nor for a supervisor without privileges, hence not before. */
        if (prctl(PR_SET_DUMPABLE, 0) < 0)
            return false;
        answer(msg->request, 0, NULL);
        return true;
    case CTL_FREEZE:
        kill(-1, msg->value ? SIGSTOP : SIGCONT);
        answer(msg->request, 0, NULL);
        return true;
    default:
        return false;
    }
}

static bool serve_one(struct apply_state *st)
{
    struct ctl_msg msg;
    int fds[CTL_FDS_MAX];
    int count = ctl_receive(&msg, fds);
    if (count < 0)
        return false;
    bool go_on = obey(st, &msg, fds, count);
    while (count > 0)
        close(fds[--count]);
    return go_on;
}

/* Somebody inside wants a command started as root. Nothing is read here: the code may say what it
 * likes, or nothing. */
static void let_in(struct apply_state *st)
{
    int connection = accept4(st->as_root_fd, NULL, NULL, SOCK_CLOEXEC);
    if (connection < 0)
        return;
    if (fork() == 0)
        as_root_child(st, connection);
    close(connection);
}

static bool wait_for_the_word(void)
{
    struct ctl_msg msg;
    int fds[CTL_FDS_MAX];
    return ctl_receive(&msg, fds) == 0 && msg.type == CTL_GO;
}

int session_serve(struct apply_state *st)
{
    struct ctl_msg ready = {.type = CTL_READY, .evidence = st->evidence};
    exec_default_signals();
    struct pollfd fds[3] = {{.fd = INIT_FD_CTL, .events = POLLIN},
                            {.fd = reap_open_signals(), .events = POLLIN},
                            {.fd = st->as_root_fd, .events = POLLIN}};
    /* K-6  Nothing is started before this word: everything was attested by then. */
    if (fds[1].fd < 0 || ctl_send(&ready, -1) < 0 || !wait_for_the_word())
        return 125;
    if (waiting_fd >= 0 && (write(waiting_fd, "g", 1) != 1 || close(waiting_fd) < 0))
        return 125;
    for (;;) {
        struct signalfd_siginfo drained;
        if (poll(fds, 3, -1) < 0 && errno != EINTR)
            break;
        if (fds[1].revents) {
            while (read(fds[1].fd, &drained, sizeof drained) > 0)
                ;
            if (!reap_all(st))
                break;
        }
        if (fds[0].revents && !serve_one(st))
            break;
        if (fds[2].revents)
            let_in(st);
    }
    return 0;
}
