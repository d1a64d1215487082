/* Starts the notary beside a run, and gets the receipt signed at the end. */
#include "sandbox/notary.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "os/beside.h"
#include "os/fd.h"
#include "os/runstate.h"
#include "os/sys.h"
#include "wire/wire.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>

#define PROGRAM "brig-daemon"
/* Longer than it waits for other runs to write theirs. */
#define READY_MS  30000
#define ANSWER_MS 30000
#define END_MS    5000

void notary_init(struct notary *n)
{
    *n = (struct notary){.pid = -1, .pidfd = -1, .fd = -1};
}

/* ---- start ---- */

static int open_folder(struct err *err)
{
    int fd = runstate_open("receipts", true);
    if (fd >= 0)
        return fd;
    err_sys(err, "there is no folder to keep the chain of receipts in");
    return err_hint(err, "it is below XDG_STATE_HOME, or ~/.local/state (root: /var/lib), in "
                         "brig/receipts, and must be yours alone");
}

int notary_start(struct notary *n, struct err *err)
{
    /* With none of the caller's variables, which may be secrets. */
    char program[4200], *argv[] = {PROGRAM, "sign", NULL}, *envp[] = {NULL};
    int pair[2];
    if (program_beside(PROGRAM, program, sizeof program, err) < 0)
        return err_number(err);
    cleanup_fd int folder = open_folder(err);
    if (folder < 0)
        return err_number(err);
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return err_sys(err, "a socket for the notary");
    cleanup_fd int theirs = pair[1];
    n->fd = pair[0];
    const int fds[] = {theirs, folder}; /* 3 and 4, as `brig-daemon sign` has them */
    if (program_start(program, argv, envp, fds, ARRAY_LEN(fds), &n->pid, err) < 0) {
        n->pid = -1;
        return err_number(err);
    }
    n->pidfd = sys_pidfd_open(n->pid);
    return n->pidfd < 0 ? err_sys(err, "pidfd of the notary") : 0;
}

/* ---- messages ---- */

static int take(struct notary *n, struct wire_msg *msg, struct buf *ret, struct err *err)
{
    int r = wire_receive(n->fd, msg, MSG_DONTWAIT);
    if (r == -EAGAIN)
        return 0;
    if (r <= 0)
        return err_set(err, ERR_SYSTEM, "the notary ended before it had answered");
    wire_close_fds(msg);
    if (msg->type == WIRE_FAIL) {
        if (wire_err_read(msg->text, msg->text_len, err) < 0)
            err_set(err, ERR_PROTOCOL, "the notary failed and did not say why");
        /* ERR_NOT_FOUND means a command that was not found inside a sandbox (exit status 127). */
        if (err->code == ERR_NOT_FOUND || err->code == ERR_NONE)
            err->code = ERR_SYSTEM;
        return err_number(err);
    }
    n->ready |= msg->type == WIRE_READY;
    if (msg->type != WIRE_DONE)
        return 0;
    if (ret)
        buf_add(ret, msg->text, msg->text_len);
    return 1;
}

/* ret NULL: until it is ready. */
static int hear(struct notary *n, int signal_fd, unsigned ms, struct buf *ret, struct err *err)
{
    uint64_t deadline = clock_us() + ms * 1000ull;
    cleanup_free struct wire_msg *msg = malloc(sizeof *msg);
    if (!msg)
        return err_memory(err);
    for (;;) {
        int r = take(n, msg, ret, err);
        if (r < 0)
            return r;
        if (ret ? r > 0 : n->ready)
            return 0;
        uint64_t now = clock_us();
        if (now >= deadline)
            return err_set(err, ERR_SYSTEM, "the notary did not answer within %u s", ms / 1000);
        struct pollfd fds[2] = {{.fd = n->fd, .events = POLLIN},
                                {.fd = signal_fd, .events = POLLIN}};
        if (poll(fds, 2, (int)((deadline - now) / 1000) + 1) < 0 && errno != EINTR)
            return err_sys(err, "wait for the notary");
        if (fds[1].revents)
            return err_set(err, ERR_INTERRUPTED, "interrupted during the set-up");
    }
}

int notary_await(struct notary *n, int signal_fd, struct err *err)
{
    return hear(n, signal_fd, READY_MS, NULL, err);
}

void notary_begins(struct notary *n, const char *id)
{
    if (n->fd >= 0)
        (void)wire_send(n->fd, WIRE_CLAIM, 0, 0, id, strlen(id), NULL, 0);
}

void notary_forget(struct notary *n)
{
    if (n->fd >= 0)
        (void)wire_send(n->fd, WIRE_STOP, 0, 0, NULL, 0, NULL, 0);
}

int notary_ask(struct notary *n, const struct buf *body, struct err *err)
{
    if (n->fd < 0)
        return err_set(err, ERR_SYSTEM, "there is no notary");
    cleanup_fd int file = memfd_sealed("brig-receipt", body->data, body->len, false, err);
    if (file < 0)
        return err_number(err);
    int r = wire_send(n->fd, WIRE_RECEIPT, 0, 0, NULL, 0, &file, 1);
    if (r == -EPIPE || r == -ECONNRESET)
        return hear(n, -1, ANSWER_MS, NULL, err) < 0
                   ? err_number(err)
                   : err_set(err, ERR_SYSTEM, "the notary is gone");
    errno = -r;
    n->asked = r >= 0;
    return r < 0 ? err_sys(err, "send the receipt to the notary") : 0;
}

int notary_answer(struct notary *n, struct buf *ret, struct err *err)
{
    if (!n->asked)
        return err_set(err, ERR_INTERNAL, "the notary was not asked");
    return hear(n, -1, ANSWER_MS, ret, err);
}

/* Closing the socket tells the notary to end; one that does not is killed. */
void notary_done(struct notary *n)
{
    struct pollfd p = {.fd = n->pidfd, .events = POLLIN};
    if (n->fd >= 0)
        close(n->fd);
    if (n->pid > 0) {
        if (n->pidfd < 0 || poll(&p, 1, END_MS) <= 0)
            kill(n->pid, SIGKILL);
        while (waitpid(n->pid, NULL, 0) < 0 && errno == EINTR)
            ;
    }
    if (n->pidfd >= 0)
        close(n->pidfd);
    notary_init(n);
}
