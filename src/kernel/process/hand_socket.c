/* What the hand does with a socket of the code: looks at it, connects it in bounded time, limits
 * its buffers. */
#include "kernel/process/hand_socket.h"

#include "os/fd.h"
#include "os/weaken.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#ifndef SO_COOKIE
#define SO_COOKIE 57
#endif
/* enum in the kernel's header, which cannot be included together with the C library's */
#define STATE_ESTABLISHED 1
#define STATE_SYN_SENT    2
#define STATE_CLOSE       7

/* A handshake over loopback takes microseconds. Where it does not end, somebody keeps it from
 * ending. */
#define HANDSHAKE_US 400000u

/* ---- the socket ---- */

int hand_socket_leader(pid_t tid)
{
    char path[32], text[4096];
    snprintf(path, sizeof path, "/proc/%d/status", tid);
    if (file_read(AT_FDCWD, path, text, sizeof text) <= 0)
        return -ESRCH;
    const char *line = strstr(text, "\nTgid:");
    return line ? (int)strtol(line + 6, NULL, 10) : -ESRCH;
}

/* Do not close it: the last close of a socket may block. This process is about to be killed, and
 * that closes everything without waiting. */
int hand_socket_let_go(int sock, int result)
{
    if (guard_left_out(GUARD_ERRANDS) && sock >= 0)
        close(sock);
    return result;
}

static int socket_fact(int sock, int option)
{
    int value = -1;
    socklen_t len = sizeof value;
    return getsockopt(sock, SOL_SOCKET, option, &value, &len) < 0 ? -errno : value;
}

int hand_socket_kind(int sock)
{
    return hand_socket_let_go(sock, socket_fact(sock, SO_TYPE));
}

/* TCP, of the address' family. Anything else (a pair of UNIX sockets, say) is not ours to connect.
 */
static int check_kind(int sock, sa_family_t family)
{
    int domain = socket_fact(sock, SO_DOMAIN);
    if (domain == -ENOTSOCK)
        return -ENOTSOCK;
    if ((domain != AF_INET && domain != AF_INET6) || socket_fact(sock, SO_TYPE) != SOCK_STREAM ||
        socket_fact(sock, SO_PROTOCOL) != IPPROTO_TCP)
        return -EPERM;
    return domain == family ? 0 : -EAFNOSUPPORT;
}

static uint64_t cookie_of(int sock)
{
    uint64_t cookie = 0;
    socklen_t len = sizeof cookie;
    return getsockopt(sock, SOL_SOCKET, SO_COOKIE, &cookie, &len) < 0 ? 0 : cookie;
}

/* 0: can be connected. The cookie is returned only for a socket that is connected now. */
static int check_state(int sock, uint64_t *cookie)
{
    struct tcp_info info = {0};
    socklen_t len = sizeof info;
    if (getsockopt(sock, IPPROTO_TCP, TCP_INFO, &info, &len) < 0)
        return -EPERM;
    if (info.tcpi_state == STATE_CLOSE)
        return 0;
    if (info.tcpi_state == STATE_SYN_SENT)
        return -EALREADY;
    *cookie = info.tcpi_state == STATE_ESTABLISHED ? cookie_of(sock) : 0;
    return -EISCONN;
}

/* ---- the connection ---- */

static void on_alarm(int sig)
{
    (void)sig; /* it interrupts; that is all */
}

/* A connect on the code's socket blocks if that socket does, and its flags are the code's to change
 * at any time. A signal ends it; repeated, so that one that comes too early is not the last. */
static void set_alarm(unsigned us)
{
    struct sigaction action = {.sa_handler = on_alarm}; /* no SA_RESTART */
    struct timeval t = {.tv_usec = us};
    struct itimerval timer = {.it_interval = t, .it_value = t};
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGALRM);
    sigaction(SIGALRM, &action, NULL);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
    setitimer(ITIMER_REAL, &timer, NULL);
}

static int connect_in_time(int sock, const struct sockaddr *to, socklen_t len)
{
    set_alarm(HANDSHAKE_US);
    int result = connect(sock, to, len) < 0 ? -errno : 0;
    set_alarm(0);
    switch (result) {
    case -EINTR:
        hand_socket_disconnect(sock);
        return -ETIMEDOUT;
    case -EPERM: /* a rule of the host's own firewall; nothing that we refused */
    case -EACCES:
        return -ECONNREFUSED;
    default:
        return result;
    }
}

/* A buffer size that was set explicitly does not grow by itself any more. The kernel doubles the
 * number that is given. */
static int limit_buffers(int sock, uint64_t buffer)
{
    int half = (int)(buffer / 2);
    if (half && (setsockopt(sock, SOL_SOCKET, SO_SNDBUF, &half, sizeof half) < 0 ||
                 setsockopt(sock, SOL_SOCKET, SO_RCVBUF, &half, sizeof half) < 0))
        return -ECONNREFUSED;
    return 0;
}

int hand_socket_connect(int sock, const struct sockaddr *to, socklen_t len, uint64_t buffer,
                        struct hand_connected *ret)
{
    int result = check_kind(sock, to->sa_family);
    if (result == 0)
        result = check_state(sock, &ret->cookie);
    if (result == 0)
        result = limit_buffers(sock, buffer);
    if (result == 0)
        result = connect_in_time(sock, to, len);
    if (result < 0 && result != -EINPROGRESS)
        return result;
    len = sizeof ret->own;
    ret->cookie = cookie_of(sock);
    return getsockname(sock, (struct sockaddr *)&ret->own, &len) < 0 ? -ECONNREFUSED : result;
}

int hand_socket_disconnect(int sock)
{
    struct sockaddr none = {.sa_family = AF_UNSPEC};
    return connect(sock, &none, sizeof none) < 0 ? -errno : 0;
}
