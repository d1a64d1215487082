/* The supervisor's side of init's control socket: sends requests and receives reports, which are
 * hostile input. */
#include "sandbox/internal.h"

#include "os/rights.h"

#include <errno.h>
#include <sys/socket.h>

int message_send(int fd, uint32_t type, int32_t value)
{
    struct ctl_msg msg = {.type = type, .value = value};
    return send(fd, &msg, sizeof msg, MSG_NOSIGNAL) == (ssize_t)sizeof msg ? 0 : -errno;
}

int message_ask(int fd, const struct ctl_msg *msg, const int *fds, unsigned count)
{
    struct iovec part = {(void *)(uintptr_t)msg, sizeof *msg};
    if (count > CTL_FDS_MAX)
        return -EMSGSIZE;
    ssize_t n = rights_send(fd, &part, 1, fds, count, MSG_DONTWAIT);
    return n < 0 ? (int)n : 0;
}

int message_receive(int ctl, struct ctl_msg *msg, int *fd, pid_t *pid, int flags, struct err *err)
{
    struct iovec part = {msg, sizeof *msg};
    struct rights rights = {.fds = fd, .room = fd != NULL};
    ssize_t n = rights_receive(ctl, &part, 1, flags, &rights);
    *pid = rights.pid;
    if (n < 0) {
        errno = (int)-n;
        return err_sys(err, "receive from init");
    }
    if (n == 0)
        return 0;
    if (n != (ssize_t)sizeof *msg || msg->type == CTL_NONE || msg->type >= CTL_TYPE_COUNT) {
        rights_close(&rights);
        return err_set(err, ERR_PROTOCOL, "init sent a malformed message");
    }
    /* The strings come from inside: make sure that they end. */
    msg->err.message[sizeof msg->err.message - 1] = '\0';
    msg->err.hint[sizeof msg->err.hint - 1] = '\0';
    return 1;
}
