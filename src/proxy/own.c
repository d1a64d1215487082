/* Asks the kernel by which route it would send something, over a netlink socket that was opened
 * before the seal. The answer is there when the question was sent. */
#include "proxy/own.h"

#include <errno.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <netinet/in.h>
#include <stddef.h>
#include <string.h>

#define LOOPBACK_INTERFACE 1 /* in every network namespace */
#define ANSWER_MAX         4096

static int netlink = -1;
static uint32_t number;

struct question {
    struct nlmsghdr head;
    struct rtmsg route;
    struct rtattr to;
    uint8_t address[16];
};

int own_open(struct err *err)
{
    if (netlink < 0)
        netlink = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE);
    return netlink < 0 ? err_sys(err, "a socket to ask for routes") : 0;
}

static bool ask(const struct sockaddr_storage *sa)
{
    bool v4 = sa->ss_family == AF_INET;
    size_t size = v4 ? 4 : 16;
    struct question q = {
        .head = {.nlmsg_len = (uint32_t)(offsetof(struct question, address) + size),
                 .nlmsg_type = RTM_GETROUTE,
                 .nlmsg_flags = NLM_F_REQUEST,
                 .nlmsg_seq = ++number},
        /* As it stands in the table: an own address is reached over the loopback all the same. */
        .route = {.rtm_family = (uint8_t)sa->ss_family,
                  .rtm_dst_len = (uint8_t)(8 * size),
                  .rtm_flags = RTM_F_FIB_MATCH},
        .to = {.rta_len = (uint16_t)RTA_LENGTH(size), .rta_type = RTA_DST},
    };
    const void *address = v4 ? (const void *)&((const struct sockaddr_in *)sa)->sin_addr
                             : (const void *)&((const struct sockaddr_in6 *)sa)->sin6_addr;
    memcpy(q.address, address, size);
    return send(netlink, &q, q.head.nlmsg_len, 0) == (ssize_t)q.head.nlmsg_len;
}

/* The interface that a route stands at; 0: none. */
static int interface_of(const struct nlmsghdr *head)
{
    const struct rtmsg *route = (const struct rtmsg *)NLMSG_DATA(head);
    int left = (int)RTM_PAYLOAD(head), index = 0;
    for (const struct rtattr *a = RTM_RTA(route); RTA_OK(a, left); a = RTA_NEXT(a, left))
        if (a->rta_type == RTA_OIF && RTA_PAYLOAD(a) == sizeof index)
            memcpy(&index, RTA_DATA(a), sizeof index);
    return index;
}

bool own_has(const struct sockaddr_storage *sa)
{
    union {
        struct nlmsghdr head;
        char bytes[ANSWER_MAX];
    } answer;
    if (netlink < 0 || !ask(sa))
        return true;
    /* What a signal broke off is no answer, and what stands in the room for one is nothing yet. */
    for (;;) {
        ssize_t n = recv(netlink, &answer, sizeof answer, 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 || !NLMSG_OK(&answer.head, (size_t)n))
            return true;
        if (answer.head.nlmsg_seq == number)
            break;
    }
    if (answer.head.nlmsg_type == NLMSG_ERROR) /* no route, or no such family here */
        return false;
    const struct rtmsg *route = NLMSG_DATA(&answer.head);
    if (answer.head.nlmsg_type != RTM_NEWROUTE ||
        answer.head.nlmsg_len < NLMSG_LENGTH(sizeof *route))
        return true;
    bool own = route->rtm_type == RTN_LOCAL || route->rtm_type == RTN_ANYCAST;
    return own && interface_of(&answer.head) != LOOPBACK_INTERFACE;
}
