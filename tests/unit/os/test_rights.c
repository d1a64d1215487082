/* Descriptors in packets: all that come are handed out or closed. */
#include "os/rights.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

static int pair[2];

static void setup(void)
{
    cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
}

/* The lowest free number tells whether any descriptor stayed open. */
static int lowest(void)
{
    int fd = dup(0);
    close(fd);
    return fd;
}

static ssize_t give(unsigned count)
{
    int fds[RIGHTS_MAX + 1];
    struct iovec part = {"hello", 5};
    for (unsigned i = 0; i <= RIGHTS_MAX; i++)
        fds[i] = pair[0];
    return rights_send(pair[0], &part, 1, fds, count, 0);
}

static ssize_t take(struct rights *r, size_t room)
{
    char text[8];
    struct iovec part = {text, room};
    return rights_receive(pair[1], &part, 1, MSG_DONTWAIT, r);
}

Test(rights, what_fits_is_the_receivers, .init = setup)
{
    int fds[3];
    struct rights r = {.fds = fds, .room = 3};
    cr_assert_eq(give(2), 5);
    cr_assert_eq(take(&r, 8), 5);
    cr_assert(r.count == 2 && !r.cut && r.pid == 0 && fds[2] == -1);
    cr_assert(fcntl(fds[0], F_GETFD) == FD_CLOEXEC && fcntl(fds[1], F_GETFD) == FD_CLOEXEC);
    rights_close(&r);
    cr_assert(r.count == 0 && fds[0] == -1 && fds[1] == -1);
}

Test(rights, what_does_not_fit_is_closed_and_said, .init = setup)
{
    int fds[1], before = lowest();
    struct rights r = {.fds = fds, .room = 1};
    const unsigned counts[] = {2, 40, RIGHTS_MAX};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        cr_assert_eq(give(counts[i]), 5);
        cr_assert_eq(take(&r, 8), 5);
        cr_assert(r.count == 1 && r.cut);
        rights_close(&r);
        cr_assert_eq(lowest(), before);
    }
    cr_assert_eq(give(RIGHTS_MAX + 1), -EMSGSIZE);
    cr_assert_eq(give(0), 5);
    cr_assert_eq(take(&r, 4), 4);
    cr_assert(r.cut, "a packet that is too long");
}

Test(rights, the_sender_is_named_where_the_socket_says_it, .init = setup)
{
    int fds[1], on = 1;
    struct rights r = {.fds = fds, .room = 1};
    cr_assert_eq(setsockopt(pair[1], SOL_SOCKET, SO_PASSCRED, &on, sizeof on), 0);
    cr_assert_eq(give(1), 5);
    cr_assert_eq(take(&r, 8), 5);
    cr_assert(r.count == 1 && r.pid == getpid());
    rights_close(&r);
}

Test(rights, nothing_and_the_end_are_told_apart, .init = setup)
{
    int fds[1];
    struct rights r = {.fds = fds, .room = 1};
    cr_assert_eq(take(&r, 8), -EAGAIN);
    close(pair[0]);
    cr_assert_eq(take(&r, 8), 0);
    cr_assert(r.count == 0 && fds[0] == -1);
}
