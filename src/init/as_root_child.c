/* What root's part of init does for a connection of as_root.c: a child of it, as root as that one
 * and with as little, starts the command, passes signals on, and tells the end. Whoever connects is
 * the code: the child alone reads what it says, and what it hands over is used in a grandchild. */
#include "init/exec_child.h"
#include "init/reap.h"
#include "init/session_child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

/* False: the caller is gone, and the command goes with it. */
static bool pass_on(pid_t pid)
{
    struct ctl_msg msg;
    int fds[CTL_FDS_MAX];
    int count = ctl_receive(&msg, fds);
    for (int i = 0; i < count; i++)
        close(fds[i]);
    if (count < 0)
        return false;
    /* A child that was forked a moment ago has no group of its own yet. */
    if (msg.type == CTL_SIGNAL && msg.value > 0 && msg.value < NSIG && kill(-pid, msg.value) < 0)
        kill(pid, msg.value);
    return true;
}

static void see_to(pid_t pid, int ended)
{
    struct pollfd fds[2] = {{.fd = INIT_FD_CTL, .events = POLLIN}, {.fd = ended, .events = POLLIN}};
    struct ctl_msg msg = {.type = CTL_EXIT};
    int status = 0;
    while (waitpid(pid, &status, WNOHANG) == 0) {
        if (poll(fds, 2, -1) < 0 && errno != EINTR)
            break;
        char drained[1024];
        while (read(ended, drained, sizeof drained) > 0)
            ;
        if (fds[0].revents && !pass_on(pid)) {
            kill(-pid, SIGKILL);
            kill(pid, SIGKILL);
            _exit(0);
        }
    }
    msg.value = status;
    ctl_send(&msg, -1);
}

void as_root_child(struct apply_state *st, int connection)
{
    struct ctl_msg msg;
    int fds[CTL_FDS_MAX];
    /* In the place of the control socket: what the command's start says goes to the program
     * that asked for it, and nothing that this one handed over can speak to the supervisor. */
    if (dup2(connection, INIT_FD_CTL) < 0 || fcntl(INIT_FD_CTL, F_SETFD, FD_CLOEXEC) < 0)
        _exit(125);
    close(connection);
    close(st->as_root_fd);
    int count = ctl_receive(&msg, fds), ended = reap_open_signals();
    if (count != SPAWN_REQUESTS || msg.type != CTL_SPAWN || ended < 0)
        _exit(125);
    pid_t pid = fork();
    if (pid == 0)
        spawn_child(st, fds, count);
    while (count > 0)
        close(fds[--count]);
    if (pid > 0)
        see_to(pid, ended);
    _exit(0);
}
