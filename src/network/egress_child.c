/* The ways out, made inside the empty network namespace: every address becomes a local one, and the
 * listeners that take what is sent there are handed to the supervisor, which hands them to
 * brig-proxy. No packet leaves the namespace; what leaves is a descriptor. */
#include "base/cleanup.h"
#include "plan/apply.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_addr.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define LOOPBACK_INDEX 1 /* the first interface of every namespace */
#define BACKLOG        512

struct request {
    struct nlmsghdr head;
    union {
        struct rtmsg route;
        struct ifaddrmsg addr;
    };
    char attributes[64];
};

static void attribute(struct request *r, unsigned short type, const void *data, size_t len)
{
    struct rtattr *a = (struct rtattr *)((char *)r + NLMSG_ALIGN(r->head.nlmsg_len));
    a->rta_type = type;
    a->rta_len = (unsigned short)RTA_LENGTH(len);
    memcpy(RTA_DATA(a), data, len);
    r->head.nlmsg_len = NLMSG_ALIGN(r->head.nlmsg_len) + RTA_ALIGN(a->rta_len);
}

/* 0 or a negative errno. */
static int ask(int netlink, const struct request *r)
{
    struct {
        struct nlmsghdr head;
        struct nlmsgerr body;
        char echo[256];
    } answer;
    if (send(netlink, r, r->head.nlmsg_len, 0) < 0)
        return -errno;
    if (recv(netlink, &answer, sizeof answer, 0) < (ssize_t)NLMSG_LENGTH(sizeof answer.body) ||
        answer.head.nlmsg_type != NLMSG_ERROR)
        return -EPROTO;
    return answer.body.error;
}

/* "local default dev lo": the kernel takes every destination for its own. */
static int add_route(int netlink, unsigned char family)
{
    struct request r = {.head = {.nlmsg_len = NLMSG_LENGTH(sizeof r.route),
                                 .nlmsg_type = RTM_NEWROUTE,
                                 .nlmsg_flags = NLM_F_REQUEST | NLM_F_CREATE | NLM_F_ACK},
                        .route = {.rtm_family = family,
                                  .rtm_table = RT_TABLE_LOCAL,
                                  .rtm_protocol = RTPROT_STATIC,
                                  .rtm_scope = RT_SCOPE_HOST,
                                  .rtm_type = RTN_LOCAL}};
    int index = LOOPBACK_INDEX;
    attribute(&r, RTA_OIF, &index, sizeof index);
    return ask(netlink, &r);
}

/* One address that is not 127.0.0.1 or ::1: resolvers that only ask for the kinds of address that
 * the machine has (AI_ADDRCONFIG) do not count those. */
static int add_address(int netlink, unsigned char family, const char *text)
{
    struct request r = {
        .head = {.nlmsg_len = NLMSG_LENGTH(sizeof r.addr),
                 .nlmsg_type = RTM_NEWADDR,
                 .nlmsg_flags = NLM_F_REQUEST | NLM_F_CREATE | NLM_F_EXCL | NLM_F_ACK},
        .addr = {.ifa_family = family, .ifa_flags = IFA_F_NODAD, .ifa_index = LOOPBACK_INDEX}};
    unsigned char bytes[16];
    size_t len = family == AF_INET ? 4 : 16;
    r.addr.ifa_prefixlen = (unsigned char)(8 * len);
    if (inet_pton(family, text, bytes) != 1)
        return -EINVAL;
    attribute(&r, IFA_LOCAL, bytes, len);
    attribute(&r, IFA_ADDRESS, bytes, len);
    return ask(netlink, &r);
}

int apply_network_local(struct apply_state *st, const struct op *op, struct err *err)
{
    (void)st, (void)op;
    cleanup_fd int netlink = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
    if (netlink < 0)
        return err_sys(err, "netlink socket");
    int result = add_address(netlink, AF_INET, "198.18.0.1");
    if (result == 0)
        result = add_route(netlink, AF_INET);
    if (result < 0) {
        errno = -result;
        return err_sys(err, "make every address local");
    }
    /* A kernel without IPv6 has nothing to be made local. */
    if (add_address(netlink, AF_INET6, "fd62:7269:6700:1::1") == 0)
        result = add_route(netlink, AF_INET6);
    errno = -result;
    return result < 0 ? err_sys(err, "make every IPv6 address local") : 0;
}

/* NULL: every address, IPv6 as well where there is any. */
static int bind_to(int fd, int family, const char *address, uint16_t port)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(port)};
    struct sockaddr_in6 v6 = {
        .sin6_family = AF_INET6, .sin6_port = htons(port), .sin6_addr = IN6ADDR_ANY_INIT};
    int off = 0;
    if (family == AF_INET6)
        return setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off) < 0
                   ? -1
                   : bind(fd, (struct sockaddr *)&v6, sizeof v6);
    if (address && inet_pton(AF_INET, address, &v4.sin_addr) != 1)
        return -1;
    return bind(fd, (struct sockaddr *)&v4, sizeof v4);
}

static int make_listener(const char *address, uint16_t port, bool udp, bool only_bind)
{
    int type = (udp ? SOCK_DGRAM : SOCK_STREAM) | SOCK_CLOEXEC | SOCK_NONBLOCK;
    int family = address ? AF_INET : AF_INET6;
    int fd = socket(family, type, 0);
    if (fd < 0 && family == AF_INET6 && errno == EAFNOSUPPORT)
        fd = socket(family = AF_INET, type, 0);
    if (fd < 0)
        return -1;
    if (bind_to(fd, family, address, port) == 0 && (udp || only_bind || listen(fd, BACKLOG) == 0))
        return fd;
    int why = errno;
    close(fd);
    errno = why;
    return -1;
}

int apply_network_listen(struct apply_state *st, const struct op *op, struct err *err)
{
    uint16_t port = (uint16_t)op->num[1];
    cleanup_fd int fd = make_listener(op->a, port, op->num[2] != 0, op->num[3] != 0);
    if (fd < 0)
        return err_sys(err, "listen on port %u inside", port);
    return st->keep_listener(fd_steal(&fd), op, err);
}
