/* K-16, N-01, N-18, N-19, K-21: sockets of every kind, and attempts to reach or to be reached. */
#include "attack.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static int try_socket(int family, int type, int protocol)
{
    int fd = socket(family, type | SOCK_CLOEXEC, protocol);
    if (fd < 0)
        return errno;
    close(fd);
    return 0;
}

static int run_packet_raw(void)
{
    return try_socket(AF_PACKET, SOCK_RAW, htons(3));
}

static int run_packet_dgram(void)
{
    return try_socket(AF_PACKET, SOCK_DGRAM, htons(3));
}

static int run_raw_icmp(void)
{
    return try_socket(AF_INET, SOCK_RAW, IPPROTO_ICMP);
}

static int run_raw_any(void)
{
    return try_socket(AF_INET, SOCK_RAW, IPPROTO_RAW);
}

static int run_raw_v6(void)
{
    return try_socket(AF_INET6, SOCK_RAW, IPPROTO_ICMPV6);
}

static int run_vsock(void)
{
    return try_socket(AF_VSOCK, SOCK_STREAM, 0);
}

static int run_alg(void)
{
    return try_socket(AF_ALG, SOCK_SEQPACKET, 0);
}

/* A link is made: the one thing that a route query socket must not be able to do. */
static int run_netlink_newlink(void)
{
    struct {
        struct nlmsghdr head;
        struct ifinfomsg info;
    } msg = {.head = {.nlmsg_len = sizeof msg,
                      .nlmsg_type = RTM_SETLINK,
                      .nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK},
             .info = {.ifi_index = 0x7ffffff0}};
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
    if (fd < 0)
        return errno;
    if (send(fd, &msg, sizeof msg, 0) < 0)
        return errno;
    struct {
        struct nlmsghdr head;
        struct nlmsgerr err;
        char rest[512];
    } reply;
    if (recv(fd, &reply, sizeof reply, 0) < 0)
        return errno;
    return -reply.err.error; /* ENODEV: permitted, there is just no such link */
}

static int run_abstract_autobind(void)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    return fd < 0 ? errno : outcome(bind(fd, (struct sockaddr *)&name, sizeof name.sun_family));
}

#define NETLINK(number, label)                                                                     \
    static int run_netlink_##label(void)                                                           \
    {                                                                                              \
        return try_socket(AF_NETLINK, SOCK_RAW, number);                                           \
    }
NETLINK(NETLINK_ROUTE, route)
NETLINK(NETLINK_SOCK_DIAG, sock_diag)
NETLINK(NETLINK_NETFILTER, netfilter)
NETLINK(NETLINK_AUDIT, audit)
NETLINK(NETLINK_XFRM, xfrm)
NETLINK(NETLINK_KOBJECT_UEVENT, uevent)
NETLINK(NETLINK_GENERIC, generic)
NETLINK(NETLINK_CONNECTOR, connector)
NETLINK(NETLINK_CRYPTO, crypto)

#define FUNC(name) PROBE("K-16", #name, run_##name)
const struct probe socket_probes[] = {
    FUNC(packet_raw),
    FUNC(packet_dgram),
    FUNC(raw_icmp),
    FUNC(raw_any),
    FUNC(raw_v6),
    FUNC(vsock),
    FUNC(alg),
    FUNC(netlink_newlink),
    FUNC(netlink_route),
    FUNC(netlink_sock_diag),
    FUNC(netlink_netfilter),
    FUNC(netlink_audit),
    FUNC(netlink_xfrm),
    FUNC(netlink_uevent),
    FUNC(netlink_generic),
    FUNC(netlink_connector),
    FUNC(netlink_crypto),
    PROBE("K-21", "abstract_autobind", run_abstract_autobind),
};
const size_t socket_probe_count = sizeof socket_probes / sizeof *socket_probes;

/* 0 if the connection is up within half a second. */
static int finish_connect(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLOUT};
    if (poll(&p, 1, 500) != 1)
        return ETIMEDOUT;
    int error = 0;
    socklen_t len = sizeof error;
    return getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) < 0 ? errno : error;
}

static int reach_inet(int type, int protocol, const char *address, unsigned port)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons((unsigned short)port)};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons((unsigned short)port)};
    bool is4 = inet_pton(AF_INET, address, &v4.sin_addr) == 1;
    if (!is4 && inet_pton(AF_INET6, address, &v6.sin6_addr) != 1)
        return EINVAL;
    const struct sockaddr *to = is4 ? (struct sockaddr *)&v4 : (struct sockaddr *)&v6;
    socklen_t size = is4 ? sizeof v4 : sizeof v6;
    int fd = socket(is4 ? AF_INET : AF_INET6, type | SOCK_NONBLOCK | SOCK_CLOEXEC, protocol);
    if (fd < 0)
        return errno;
    int result = 0;
    if (type == SOCK_STREAM) {
        result = outcome(connect(fd, to, size));
        if (result == EINPROGRESS)
            result = finish_connect(fd);
    }
    if (result == 0)
        result = outcome(sendto(fd, "escape", 6, MSG_NOSIGNAL, type == SOCK_STREAM ? NULL : to,
                                type == SOCK_STREAM ? 0 : size));
    close(fd);
    return result;
}

static int reach_unix(const char *path)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    size_t len = strlen(path);
    if (len >= sizeof name.sun_path)
        return ENAMETOOLONG;
    memcpy(name.sun_path, path, len);
    if (path[0] == '@')
        name.sun_path[0] = '\0';
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return errno;
    socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len);
    int result = outcome(connect(fd, (struct sockaddr *)&name, size));
    close(fd);
    return result;
}

/* reach KIND:ADDRESS:PORT … | unix:PATH | unix:@ABSTRACT; the port is what follows the last colon
 */
int cmd_reach(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        char spec[300];
        snprintf(spec, sizeof spec, "%s", argv[i]);
        char *address = strchr(spec, ':'), *port = strrchr(spec, ':');
        if (!address)
            continue;
        *address++ = '\0';
        int result;
        if (strcmp(spec, "unix") == 0) {
            result = reach_unix(address);
        } else {
            *port++ = '\0';
            unsigned number = (unsigned)strtoul(port, NULL, 10);
            if (strcmp(spec, "tcp") == 0)
                result = reach_inet(SOCK_STREAM, 0, address, number);
            else if (strcmp(spec, "icmp") == 0)
                result =
                    reach_inet(SOCK_DGRAM, strchr(address, ':') ? IPPROTO_ICMPV6 : IPPROTO_ICMP,
                               address, number);
            else
                result = reach_inet(SOCK_DGRAM, 0, address, number);
        }
        probe_print("reach", argv[i], result);
    }
    return 0;
}

/* listen PORT SECONDS: be reachable on every address; says whether anybody came */
int cmd_listen(int argc, char **argv)
{
    if (argc < 3)
        return 2;
    struct sockaddr_in any = {.sin_family = AF_INET,
                              .sin_port = htons((unsigned short)strtoul(argv[1], NULL, 10))};
    int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int result = fd < 0 ? errno : 0;
    if (result == 0) {
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
        result = outcome(bind(fd, (struct sockaddr *)&any, sizeof any));
    }
    if (result == 0)
        result = outcome(listen(fd, 4));
    probe_print("N-18", "listen", result);
    if (result == 0) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        int timeout = (int)(strtod(argv[2], NULL) * 1000);
        probe_print("N-18", "reached", poll(&p, 1, timeout) == 1 ? 0 : ETIMEDOUT);
    }
    return 0;
}
