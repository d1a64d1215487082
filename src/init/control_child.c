#include "plan/apply.h"

#include <string.h>
#include <sys/socket.h>

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
