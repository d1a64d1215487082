/* Messages between init and its supervisor over the control socket, with descriptors attached. */
#include "plan/apply.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

int ctl_send(const struct ctl_msg *msg, int fd)
{
    struct iovec iov = {.iov_base = (void *)msg, .iov_len = sizeof *msg};
    union {
        struct cmsghdr head;
        char space[CMSG_SPACE(sizeof(int))];
    } control;
    struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1};
    if (fd >= 0) {
        memset(&control, 0, sizeof control);
        m.msg_control = &control;
        m.msg_controllen = sizeof control;
        struct cmsghdr *c = CMSG_FIRSTHDR(&m);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(c), &fd, sizeof fd);
    }
    return sendmsg(INIT_FD_CTL, &m, MSG_NOSIGNAL) == (ssize_t)sizeof *msg ? 0 : -1;
}

static int take_fds(struct msghdr *m, int fds[static CTL_FDS_MAX])
{
    int count = 0;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        int here = (int)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));
        for (int i = 0; i < here; i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(c) + (size_t)i * sizeof fd, sizeof fd);
            if (count < CTL_FDS_MAX)
                fds[count++] = fd;
            else
                close(fd);
        }
    }
    return count;
}

int ctl_receive(struct ctl_msg *msg, int fds[static CTL_FDS_MAX])
{
    struct iovec iov = {.iov_base = msg, .iov_len = sizeof *msg};
    union {
        struct cmsghdr head;
        char space[CMSG_SPACE(CTL_FDS_MAX * sizeof(int))];
    } control;
    struct msghdr m = {.msg_iov = &iov,
                       .msg_iovlen = 1,
                       .msg_control = &control,
                       .msg_controllen = sizeof control};
    ssize_t n;
    while ((n = recvmsg(INIT_FD_CTL, &m, MSG_CMSG_CLOEXEC)) < 0 && errno == EINTR)
        ;
    if (n <= 0)
        return -1;
    int count = take_fds(&m, fds);
    if (n == (ssize_t)sizeof *msg && !(m.msg_flags & (MSG_TRUNC | MSG_CTRUNC)))
        return count;
    while (count > 0)
        close(fds[--count]);
    return -1;
}
