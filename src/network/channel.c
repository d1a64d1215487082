/* Sends and receives the messages between the supervisor and brig-proxy, with at most one
 * descriptor each. */
#include "network/channel.h"

#include "base/cleanup.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

/* Room for more descriptors than are ever accepted: those that do not fit are closed by the kernel,
 * those that do by us. */
#define SURPLUS_FDS 8

union control {
    char bytes[CMSG_SPACE(SURPLUS_FDS * sizeof(int))];
    struct cmsghdr align;
};

static void attach_fd(struct msghdr *mh, union control *control, int fd)
{
    memset(control, 0, sizeof *control);
    mh->msg_control = control;
    mh->msg_controllen = CMSG_SPACE(sizeof(int));
    struct cmsghdr *c = CMSG_FIRSTHDR(mh);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(c), &fd, sizeof fd);
}

int channel_send(int fd, uint32_t type, uint32_t value, uint32_t port, const char *text,
                 int pass_fd, const struct err *why)
{
    size_t len = text ? strlen(text) : 0;
    if (len > CHANNEL_TEXT_MAX)
        return -EMSGSIZE;
    struct {
        uint32_t type, value, port, text_len;
        struct err err;
    } head = {.type = type, .value = value, .port = port, .text_len = (uint32_t)len};
    _Static_assert(sizeof head == CHANNEL_HEAD, "no padding on the wire");
    if (why)
        head.err = *why;
    struct iovec parts[2] = {{&head, sizeof head}, {(void *)(uintptr_t)text, len}};
    struct msghdr mh = {.msg_iov = parts, .msg_iovlen = len ? 2 : 1};
    union control control;
    if (pass_fd >= 0)
        attach_fd(&mh, &control, pass_fd);
    ssize_t n;
    do
        n = sendmsg(fd, &mh, MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    return n < 0 ? -errno : 0;
}

/* Keeps the first descriptor of the message and closes all others; returns how many there were. */
static size_t take_fds(struct msghdr *mh, int *ret)
{
    size_t count = 0;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(mh); c; c = CMSG_NXTHDR(mh, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        size_t here = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < here; i++, count++) {
            int fd;
            memcpy(&fd, CMSG_DATA(c) + i * sizeof fd, sizeof fd);
            if (count == 0)
                *ret = fd;
            else
                close(fd);
        }
    }
    return count;
}

static bool carries_fd(uint32_t type)
{
    return type == CH_CONFIG || type == CH_CHECK || type == CH_LISTENER || type == CH_CONNECTION;
}

static int check_message(struct channel_msg *msg, const struct msghdr *mh, size_t len, size_t fds,
                         struct err *err)
{
    if (mh->msg_flags & (MSG_TRUNC | MSG_CTRUNC))
        return err_set(err, ERR_PROTOCOL, "channel: an oversized message");
    if (channel_check(msg, len, err) < 0)
        return -ERR_PROTOCOL;
    if (fds != (carries_fd(msg->type) ? 1 : 0))
        return err_set(err, ERR_PROTOCOL, "channel: %zu descriptors in a message of type %u", fds,
                       msg->type);
    return 0;
}

int channel_receive(int fd, struct channel_msg *msg, int *ret_fd, struct err *err)
{
    *ret_fd = -1;
    union control control;
    /* The last byte of `text` is kept for the terminating NUL. */
    struct iovec part = {msg, sizeof *msg - 1};
    struct msghdr mh = {.msg_iov = &part,
                        .msg_iovlen = 1,
                        .msg_control = &control,
                        .msg_controllen = sizeof control};
    ssize_t n;
    do
        n = recvmsg(fd, &mh, MSG_CMSG_CLOEXEC);
    while (n < 0 && errno == EINTR);
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
        return -EAGAIN;
    if (n < 0 && errno == ECONNRESET)
        return 0;
    if (n < 0)
        return err_sys(err, "channel: receive");
    cleanup_fd int passed = -1;
    size_t fds = take_fds(&mh, &passed);
    /* An empty message cannot be told from the end; nobody sends one. */
    if (n == 0)
        return 0;
    if (check_message(msg, &mh, (size_t)n, fds, err) < 0)
        return -ERR_PROTOCOL;
    *ret_fd = fd_steal(&passed);
    return 1;
}
