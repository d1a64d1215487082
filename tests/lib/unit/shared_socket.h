/* A socket of which the other side kept a copy: O_NONBLOCK is a property of the open file, and so
 * is what waits to be read. Who has it may be made to wait by either. */
#pragma once

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

struct shared_socket {
    int ours, copy, peer;
};

static inline struct shared_socket shared_socket(void)
{
    int pair[2];
    cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), 0);
    struct shared_socket s = {pair[0], dup(pair[0]), pair[1]};
    cr_assert_eq(fcntl(s.copy, F_SETFL, fcntl(s.copy, F_GETFL) & ~O_NONBLOCK), 0);
    alarm(60); /* who waits in the place of an answer fails the test */
    return s;
}

static inline void fill(const struct shared_socket *s)
{
    static const char block[65536];
    while (send(s->copy, block, sizeof block, MSG_DONTWAIT) > 0)
        ;
    cr_assert_eq(errno, EAGAIN);
}

/* Control: a plain call on what is ours waits until somebody comes. */
static inline void waits(const struct shared_socket *s, bool to_read)
{
    char c = 'x';
    int told[2];
    cr_assert_eq(pipe(told), 0);
    pid_t pid = fork();
    if (pid == 0) {
        bool good = write(told[1], &c, 1) == 1 &&
                    (to_read ? recv(s->ours, &c, 1, 0) : send(s->ours, &c, 1, 0)) == 1;
        _exit(good ? 0 : 1);
    }
    cr_assert_eq(read(told[0], &c, 1), 1);
    poll(NULL, 0, 50);
    cr_expect_eq(waitpid(pid, NULL, WNOHANG), 0, "it has an answer already");
    kill(pid, SIGKILL);
    cr_assert_eq(waitpid(pid, NULL, 0), pid);
    close(told[0]);
    close(told[1]);
}
