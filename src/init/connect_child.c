/* A connection to a port of the sandbox's own loopback, made by a process that has no more rights
 * than the code, and handed out. */
#include "init/exec_child.h"
#include "init/session_child.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

/* A listener whose queue is full does not answer at all. */
#define PATIENCE_MS 3000

static int dial(const struct sockaddr *address, socklen_t len)
{
    int fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -1;
    if (connect(fd, address, len) == 0)
        return fd;
    int why = errno;
    socklen_t size = sizeof why;
    struct pollfd p = {.fd = fd, .events = POLLOUT};
    if (why == EINPROGRESS && poll(&p, 1, PATIENCE_MS) <= 0)
        why = ETIMEDOUT;
    else if (why == EINPROGRESS && getsockopt(fd, SOL_SOCKET, SO_ERROR, &why, &size) < 0)
        why = errno;
    if (why == 0)
        return fd;
    close(fd);
    errno = why;
    return -1;
}

int connect_port(int port, struct err *err)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6,
                              .sin6_port = htons((uint16_t)port),
                              .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    int fd = dial((struct sockaddr *)&v4, sizeof v4);
    int why = errno;
    if (fd < 0 && why == ECONNREFUSED)
        fd = dial((struct sockaddr *)&v6, sizeof v6);
    if (fd >= 0)
        return fd;
    errno = why;
    return err_sys(err, "connect to port %d inside the sandbox", port);
}

void connect_child(uint32_t request, int port, int door)
{
    struct ctl_msg msg = {.type = CTL_ANSWER, .request = request};
    exec_default_signals();
    int fd = connect_port(port, &msg.err);
    /* To who carries it, where somebody does. */
    if (fd >= 0 && door >= 0 && ctl_send_over(door, CTL_ANSWER, fd) < 0)
        err_sys(&msg.err, "hand over the connection");
    ctl_send(&msg, door < 0 ? fd : -1);
    _exit(0);
}
