/* A pair of sockets that carry packets, and a sender who follows no rules. */
#pragma once

#include <criterion/criterion.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>

static int pair[2];

static inline void open_pair(void)
{
    cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), 0);
}

static inline size_t open_fds(void)
{
    size_t count = 0;
    for (int fd = 0; fd < 256; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

/* What a hostile sender would do: any bytes, any number of descriptors. */
static inline void send_raw(const void *data, size_t len, size_t fds)
{
    union {
        char bytes[CMSG_SPACE(32 * sizeof(int))];
        struct cmsghdr align;
    } control = {0};
    struct iovec part = {(void *)data, len};
    struct msghdr mh = {.msg_iov = &part, .msg_iovlen = 1};
    if (fds) {
        mh.msg_control = &control;
        mh.msg_controllen = CMSG_SPACE(fds * sizeof(int));
        struct cmsghdr *c = CMSG_FIRSTHDR(&mh);
        *c = (struct cmsghdr){CMSG_LEN(fds * sizeof(int)), SOL_SOCKET, SCM_RIGHTS};
        for (size_t i = 0; i < fds; i++)
            memcpy(CMSG_DATA(c) + i * sizeof(int), &pair[0], sizeof(int));
    }
    cr_assert_eq(sendmsg(pair[0], &mh, MSG_NOSIGNAL), (ssize_t)len);
}
