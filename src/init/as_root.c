/* The program behind `sudo` where a sandbox has two users: asks root's part of init to start a
 * command, with its own arguments, variables, folder and descriptors 0 to 2, and waits for the end.
 *
 * Nothing in the sandbox can become another user, so nobody does: the command is a child of a
 * process that is root already (as_root_child.c). This program has its caller's rights and no
 * others. */
#include "init/as_root.h"

#include "base/cleanup.h"
#include "os/rights.h"
#include "plan/control.h"
#include "plan/plan.h"
#include "plan/wire.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

extern char **environ;

static int add_op(int fd, enum op_kind kind, const char *text)
{
    static const char zeros[8];
    size_t len = strlen(text) + 1;
    struct wire_op op = {.kind = kind, .a_len = (uint32_t)len};
    struct iovec parts[] = {
        {&op, sizeof op}, {(void *)(uintptr_t)text, len}, {(void *)(uintptr_t)zeros, -len & 7}};
    size_t all = sizeof op + len + (-len & 7);
    return len <= PLAN_MAX_BYTES && writev(fd, parts, 3) == (ssize_t)all ? 0 : -1;
}

/* Memory without a name where there is some available, else a file without one. */
static int open_block(void)
{
    int fd = (int)syscall(SYS_memfd_create, "sudo", 1 /* MFD_CLOEXEC */);
    return fd >= 0 ? fd : open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
}

static int write_block(int fd, char **argv)
{
    char cwd[PATH_MAX];
    struct wire_head head = {.magic = PLAN_MAGIC};
    if (!getcwd(cwd, sizeof cwd) || cwd[0] != '/')
        snprintf(cwd, sizeof cwd, "/");
    if (write(fd, &head, sizeof head) != (ssize_t)sizeof head || add_op(fd, OP_CWD, cwd) < 0)
        return -1;
    head.count = 1;
    for (; *argv; argv++, head.count++)
        if (add_op(fd, OP_ARG, *argv) < 0)
            return -1;
    for (char **each = environ; *each; each++, head.count++)
        if (add_op(fd, OP_ENV, *each) < 0)
            return -1;
    return pwrite(fd, &head, sizeof head, 0) == (ssize_t)sizeof head ? 0 : -1;
}

static int dial(void)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX, .sun_path = AS_ROOT_SOCKET};
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&to, sizeof to) == 0)
        return fd;
    int why = errno;
    if (fd >= 0)
        close(fd);
    errno = why;
    return -1;
}

/* From now on they are passed on. */
static int open_signals(void)
{
    static const int passed[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGWINCH};
    sigset_t set;
    sigemptyset(&set);
    for (size_t i = 0; i < ARRAY_LEN(passed); i++)
        sigaddset(&set, passed[i]);
    return sigprocmask(SIG_BLOCK, &set, NULL) < 0 ? -1 : signalfd(-1, &set, SFD_CLOEXEC);
}

static int complain(const char *what)
{
    fprintf(stderr, "sudo: %s: %s\n", what, strerror(errno));
    return 1;
}

/* Nothing comes if it was executed. */
static int read_status(int fd, struct err *ret)
{
    size_t have = 0;
    ssize_t n;
    while (have < sizeof *ret && (n = read(fd, (char *)ret + have, sizeof *ret - have)) != 0)
        if (n > 0)
            have += (size_t)n;
        else if (errno != EINTR)
            return -1;
    if (have == 0)
        return 0;
    ret->message[sizeof ret->message - 1] = '\0';
    return have == sizeof *ret && err_code_known(ret->code) ? 1 : -1;
}

static int ask(int to, int block, struct err *why)
{
    int status[2];
    struct ctl_msg msg = {.type = CTL_SPAWN};
    struct iovec part = {&msg, sizeof msg};
    if (pipe2(status, O_CLOEXEC) < 0)
        return -1;
    const int fds[SPAWN_REQUESTS] = {block, status[1], 0, 1, 2};
    ssize_t n = rights_send(to, &part, 1, fds, SPAWN_REQUESTS, 0);
    close(status[1]);
    errno = n < 0 ? (int)-n : 0;
    int result = n < 0 ? -1 : read_status(status[0], why);
    close(status[0]);
    return result;
}

static int wait_for_end(int from, int signals)
{
    struct pollfd fds[2] = {{.fd = from, .events = POLLIN}, {.fd = signals, .events = POLLIN}};
    struct signalfd_siginfo info;
    struct ctl_msg msg;
    for (;;) {
        if (poll(fds, 2, -1) < 0 && errno != EINTR)
            return complain("wait for the command");
        if (fds[0].revents) {
            ssize_t n = recv(from, &msg, sizeof msg, 0);
            if (n != (ssize_t)sizeof msg || msg.type != CTL_EXIT) {
                errno = ECONNRESET;
                return complain("wait for the command");
            }
            return msg.value & 0x7f ? 128 + (msg.value & 0x7f) : msg.value >> 8 & 0xff;
        }
        if (fds[1].revents && read(signals, &info, sizeof info) == (ssize_t)sizeof info) {
            msg = (struct ctl_msg){.type = CTL_SIGNAL, .value = (int32_t)info.ssi_signo};
            send(from, &msg, sizeof msg, MSG_NOSIGNAL);
        }
    }
}

int as_root_main(char **argv)
{
    struct err why = ERR_INIT;
    if (!argv[0] || !argv[1]) {
        fputs("usage: sudo COMMAND\n", stderr);
        return 1;
    }
    int to = dial();
    if (to < 0)
        return complain("ask root's part of this sandbox");
    int signals = open_signals(), block = open_block();
    if (signals < 0 || block < 0 || write_block(block, argv + 1) < 0)
        return complain("write down the command");
    int refused = ask(to, block, &why);
    close(block);
    if (refused < 0)
        return complain("start the command");
    if (refused) {
        fprintf(stderr, "sudo: %s\n", why.message);
        return err_exit_status(&why);
    }
    return wait_for_end(to, signals);
}
