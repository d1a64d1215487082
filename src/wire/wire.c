/* Sending and receiving; what a packet may look like is in wire_parse.c. */
#include "wire/wire.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

/* Room for one more descriptor than is accepted, so that too many are seen as such; what does not
 * fit at all is closed by the kernel. */
union control {
    char bytes[CMSG_SPACE((WIRE_FDS_MAX + 1) * sizeof(int))];
    struct cmsghdr align;
};

static void attach(struct msghdr *mh, union control *control, const int *fds, unsigned count)
{
    memset(control, 0, sizeof *control);
    mh->msg_control = control;
    mh->msg_controllen = CMSG_SPACE(count * sizeof(int));
    struct cmsghdr *c = CMSG_FIRSTHDR(mh);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(count * sizeof(int));
    memcpy(CMSG_DATA(c), fds, count * sizeof(int));
}

int wire_send(int sock, enum wire_type type, uint32_t request, int64_t value, const char *text,
              size_t text_len, const int *fds, unsigned fd_count)
{
    if (text_len > WIRE_TEXT_MAX || fd_count > WIRE_FDS_MAX)
        return -EMSGSIZE;
    struct wire_packet head = {
        .type = type, .request = request, .value = value, .text_len = (uint32_t)text_len};
    struct iovec parts[2] = {{&head, sizeof head}, {(void *)(uintptr_t)text, text_len}};
    struct msghdr mh = {.msg_iov = parts, .msg_iovlen = text_len ? 2 : 1};
    union control control;
    if (fd_count)
        attach(&mh, &control, fds, fd_count);
    ssize_t n;
    do
        n = sendmsg(sock, &mh, MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    return n < 0 ? -errno : 0;
}

/* Every descriptor that came is either kept or closed; false: too many. */
static bool take_fds(struct msghdr *mh, struct wire_msg *msg)
{
    bool fit = true;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(mh); c; c = CMSG_NXTHDR(mh, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < count; i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(c) + i * sizeof fd, sizeof fd);
            if (msg->fd_count < WIRE_FDS_MAX) {
                msg->fds[msg->fd_count++] = fd;
            } else {
                close(fd);
                fit = false;
            }
        }
    }
    return fit;
}

int wire_receive(int sock, struct wire_msg *msg, int flags)
{
    struct wire_packet head;
    union control control;
    struct iovec parts[2] = {{&head, sizeof head}, {msg->text, WIRE_TEXT_MAX}};
    struct msghdr mh = {.msg_iov = parts,
                        .msg_iovlen = 2,
                        .msg_control = &control,
                        .msg_controllen = sizeof control};
    msg->fd_count = 0;
    for (unsigned i = 0; i < WIRE_FDS_MAX; i++)
        msg->fds[i] = -1;
    ssize_t n;
    do
        n = recvmsg(sock, &mh, MSG_CMSG_CLOEXEC | flags);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return errno == ECONNRESET ? 0 : -errno;
    bool fit = take_fds(&mh, msg);
    /* An empty packet cannot be told from the end; nobody sends one. */
    if (n == 0) {
        wire_close_fds(msg);
        return 0;
    }
    if (!fit || (mh.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) || (size_t)n < sizeof head ||
        wire_check(&head, (size_t)n - sizeof head, msg) < 0) {
        wire_close_fds(msg);
        return -EPROTO;
    }
    return 1;
}

void wire_close_fds(struct wire_msg *msg)
{
    for (unsigned i = 0; i < msg->fd_count; i++) {
        if (msg->fds[i] >= 0)
            close(msg->fds[i]);
        msg->fds[i] = -1;
    }
    msg->fd_count = 0;
}

int wire_steal_fd(struct wire_msg *msg, unsigned i)
{
    if (i >= msg->fd_count)
        return -1;
    int fd = msg->fds[i];
    msg->fds[i] = -1;
    return fd;
}
