/* Attacks on the network boundary without brig-proxy: every direct way out. The canaries listen on
 * the host's loopback; nothing is ever sent further. */
#include "verify/attack.h"

#include "base/cleanup.h"
#include "base/text.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#ifndef AF_VSOCK
#define AF_VSOCK 40
#endif

/* On the process tier a connection is made to brig itself first, so connect() succeeding proves
 * nothing: the canary tells whether it was reached. */
static int connect_v4(uint32_t address, uint16_t port)
{
    struct sockaddr_in to = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(address)};
    cleanup_fd int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof to) < 0)
        return -1;
    return fd_steal(&fd);
}

int attack_tcp(struct attempt *a)
{
    cleanup_fd int fd = connect_v4(INADDR_LOOPBACK, a->place->tcp);
    return fd < 0 ? errno : 0;
}

/* 0.0.0.0 is "this host" to Linux, and forgotten by many lists. A server of the host answers there,
 * and nobody else would say this. */
int attack_any_address(struct attempt *a)
{
    static const char request[] = "GET /any HTTP/1.1\r\nHost: " HOST_CLOSED "\r\n\r\n";
    char answer[64] = "";
    cleanup_fd int fd = connect_v4(INADDR_ANY, a->place->closed);
    if (fd < 0 || send(fd, request, sizeof request - 1, MSG_NOSIGNAL) < 0 ||
        recv(fd, answer, sizeof answer - 1, 0) < 0)
        return errno;
    return text_begins(answer, "HTTP/1.1 200") ? 0 : EACCES;
}

int attack_tcp6(struct attempt *a)
{
    struct sockaddr_in6 to = {.sin6_family = AF_INET6,
                              .sin6_port = htons(a->place->tcp6),
                              .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    cleanup_fd int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    return fd < 0 ? errno : attack_result(connect(fd, (struct sockaddr *)&to, sizeof to));
}

int attack_udp(struct attempt *a)
{
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons(a->place->udp),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    cleanup_fd int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return errno;
    return attack_result(sendto(fd, "verify", 6, 0, (struct sockaddr *)&to, sizeof to));
}

int attack_abstract(struct attempt *a)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    size_t len = strlen(a->place->abstract);
    memcpy(to.sun_path + 1, a->place->abstract, len);
    cleanup_fd int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return errno;
    socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + len);
    return attack_result(connect(fd, (struct sockaddr *)&to, size));
}

static int make_socket(int family, int type, int protocol)
{
    cleanup_fd int fd = socket(family, type | SOCK_CLOEXEC, protocol);
    return fd < 0 ? errno : 0;
}

int attack_packet(struct attempt *a)
{
    (void)a;
    return make_socket(AF_PACKET, SOCK_RAW, 0);
}

int attack_raw(struct attempt *a)
{
    (void)a;
    return make_socket(AF_INET, SOCK_RAW, IPPROTO_ICMP);
}

int attack_netlink(struct attempt *a)
{
    (void)a;
    return make_socket(AF_NETLINK, SOCK_RAW, 12 /* netfilter */);
}

int attack_vsock(struct attempt *a)
{
    (void)a;
    return make_socket(AF_VSOCK, SOCK_STREAM, 0);
}

/* Any interface but loopback would be a way out, if it is up: some kernels put tunnels that lead
 * nowhere into every new namespace, and without capabilities nobody can raise them. */
int attack_interfaces(struct attempt *a)
{
    struct ifaddrs *list = NULL;
    if (getifaddrs(&list) < 0)
        return errno ? errno : EPERM;
    int code = ATTACK_NOTHING;
    for (struct ifaddrs *i = list; code && i; i = i->ifa_next)
        if (!(i->ifa_flags & IFF_LOOPBACK) && (i->ifa_flags & IFF_UP)) {
            attack_say(a, "interface %s", i->ifa_name);
            code = 0;
        }
    freeifaddrs(list);
    return code;
}
