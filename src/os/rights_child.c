/* Descriptors in packets: see rights.h. */
#include "os/rights.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#ifndef SO_PASSRIGHTS
#define SO_PASSRIGHTS 83
#endif

/* Room for one more than is ever sent, so that too many are seen as such; what does not fit at all
 * is closed by the kernel. */
union control {
    struct cmsghdr head;
    char space[CMSG_SPACE((RIGHTS_MAX + 1) * sizeof(int)) + CMSG_SPACE(sizeof(struct ucred))];
};

ssize_t rights_send(int sock, const struct iovec *parts, size_t part_count, const int *fds,
                    unsigned count, int flags)
{
    union control control;
    struct msghdr m = {.msg_iov = (struct iovec *)parts, .msg_iovlen = part_count};
    if (count > RIGHTS_MAX)
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
    ssize_t n;
    while ((n = sendmsg(sock, &m, MSG_NOSIGNAL | flags)) < 0 && errno == EINTR)
        ;
    return n < 0 ? -errno : n;
}

static void take_fds(struct rights *r, const struct cmsghdr *c)
{
    size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; i++) {
        int fd;
        memcpy(&fd, CMSG_DATA(c) + i * sizeof fd, sizeof fd);
        if (r->count < r->room) {
            r->fds[r->count++] = fd;
        } else {
            close(fd);
            r->cut = true;
        }
    }
}

static void take_pid(struct rights *r, const struct cmsghdr *c)
{
    struct ucred cred;
    if (c->cmsg_len < CMSG_LEN(sizeof cred))
        return;
    memcpy(&cred, CMSG_DATA(c), sizeof cred);
    r->pid = cred.pid;
}

ssize_t rights_receive(int sock, const struct iovec *parts, size_t part_count, int flags,
                       struct rights *r)
{
    union control control;
    struct msghdr m = {.msg_iov = (struct iovec *)parts,
                       .msg_iovlen = part_count,
                       .msg_control = &control,
                       .msg_controllen =
                           r->room ? sizeof control : CMSG_SPACE(sizeof(struct ucred))};
    *r = (struct rights){.fds = r->fds, .room = r->room};
    for (unsigned i = 0; i < r->room; i++)
        r->fds[i] = -1;
    ssize_t n;
    while ((n = recvmsg(sock, &m, MSG_CMSG_CLOEXEC | flags)) < 0 && errno == EINTR)
        ;
    if (n < 0)
        return errno == ECONNRESET ? 0 : -errno;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c)) {
        if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS)
            take_fds(r, c);
        else if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_CREDENTIALS)
            take_pid(r, c);
    }
    r->cut |= (m.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0;
    if (n == 0)
        rights_close(r);
    return n;
}

void rights_close(struct rights *r)
{
    while (r->count) {
        close(r->fds[--r->count]);
        r->fds[r->count] = -1;
    }
}

void socket_take_no_rights(int sock)
{
    setsockopt(sock, SOL_SOCKET, SO_PASSRIGHTS, &(int){0}, sizeof(int));
}
