/* The supervisor's side of init's control socket: sends requests and receives reports, which are
 * hostile input. */
#include "sandbox/internal.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

int message_send(int fd, uint32_t type, int32_t value)
{
    struct ctl_msg msg = {.type = type, .value = value};
    return send(fd, &msg, sizeof msg, MSG_NOSIGNAL) == (ssize_t)sizeof msg ? 0 : -errno;
}

int message_ask(int fd, const struct ctl_msg *msg, const int *fds, unsigned count)
{
    union {
        struct cmsghdr head;
        char space[CMSG_SPACE(CTL_FDS_MAX * sizeof(int))];
    } control;
    struct iovec iov = {.iov_base = (void *)(uintptr_t)msg, .iov_len = sizeof *msg};
    struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1};
    if (count > CTL_FDS_MAX)
        return -EMSGSIZE;
    if (count) {
        memset(&control, 0, sizeof control);
        m.msg_control = &control;
        m.msg_controllen = CMSG_SPACE(count * sizeof(int));
        struct cmsghdr *c = CMSG_FIRSTHDR(&m);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(count * sizeof(int));
        memcpy(CMSG_DATA(c), fds, count * sizeof(int));
    }
    ssize_t n = sendmsg(fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
    return n == (ssize_t)sizeof *msg ? 0 : -errno;
}

/* One descriptor is kept, all others are closed. */
static void take_fds(const struct cmsghdr *c, int *fd)
{
    size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; i++) {
        int each;
        memcpy(&each, CMSG_DATA(c) + i * sizeof each, sizeof each);
        if (*fd >= 0)
            close(*fd);
        *fd = each;
    }
}

static void take_control(struct msghdr *m, int *fd, pid_t *pid)
{
    for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
        if (c->cmsg_level != SOL_SOCKET)
            continue;
        if (c->cmsg_type == SCM_RIGHTS) {
            take_fds(c, fd);
        } else if (c->cmsg_type == SCM_CREDENTIALS &&
                   c->cmsg_len >= CMSG_LEN(sizeof(struct ucred))) {
            struct ucred cred;
            memcpy(&cred, CMSG_DATA(c), sizeof cred);
            *pid = cred.pid;
        }
    }
}

int message_receive(int ctl, struct ctl_msg *msg, int *fd, pid_t *pid, int flags, struct err *err)
{
    union {
        struct cmsghdr head;
        char space[CMSG_SPACE(sizeof(int)) + CMSG_SPACE(sizeof(struct ucred))];
    } control;
    struct iovec iov = {.iov_base = msg, .iov_len = sizeof *msg};
    struct msghdr m = {.msg_iov = &iov,
                       .msg_iovlen = 1,
                       .msg_control = &control,
                       .msg_controllen = sizeof control};
    *fd = -1;
    *pid = 0;
    ssize_t n = recvmsg(ctl, &m, MSG_CMSG_CLOEXEC | flags);
    if (n <= 0)
        return n == 0 || errno == ECONNRESET ? 0 : err_sys(err, "receive from init");
    take_control(&m, fd, pid);
    if (n != (ssize_t)sizeof *msg || msg->type == CTL_NONE || msg->type >= CTL_TYPE_COUNT) {
        if (*fd >= 0)
            close(*fd);
        *fd = -1;
        return err_set(err, ERR_PROTOCOL, "init sent a malformed message");
    }
    /* The strings come from inside: make sure that they end. */
    msg->err.message[sizeof msg->err.message - 1] = '\0';
    msg->err.hint[sizeof msg->err.hint - 1] = '\0';
    return 1;
}
