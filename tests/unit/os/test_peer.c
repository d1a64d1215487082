#include "os/peer.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <netinet/in.h>

static struct peer_group group_of(int family, const char *text)
{
    union {
        struct sockaddr_storage any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } sa = {.any = {.ss_family = (sa_family_t)family}};
    void *at = family == AF_INET ? (void *)&sa.v4.sin_addr : (void *)&sa.v6.sin6_addr;
    cr_assert_eq(inet_pton(family, text, at), 1);
    struct peer_address p = peer_address(&sa.any);
    return peer_group(&p);
}

static bool same(struct peer_group a, struct peer_group b)
{
    return peer_group_equal(&a, &b);
}

Test(peer, addresses_of_ipv4_are_told_apart)
{
    cr_assert(same(group_of(AF_INET, "192.0.2.1"), group_of(AF_INET, "192.0.2.1")));
    cr_assert(!same(group_of(AF_INET, "192.0.2.1"), group_of(AF_INET, "192.0.2.2")));
}

/* On a socket for both they come as addresses of IPv6 whose first half is the same for all. */
Test(peer, also_those_that_came_to_a_socket_of_ipv6)
{
    cr_assert(same(group_of(AF_INET6, "::ffff:192.0.2.1"), group_of(AF_INET, "192.0.2.1")));
    cr_assert(
        !same(group_of(AF_INET6, "::ffff:192.0.2.1"), group_of(AF_INET6, "::ffff:192.0.2.2")));
    cr_assert(!same(group_of(AF_INET6, "::ffff:192.0.2.1"), group_of(AF_INET6, "::1")));
}

Test(peer, of_ipv6_a_network_is_one)
{
    cr_assert(same(group_of(AF_INET6, "2001:db8::1"), group_of(AF_INET6, "2001:db8::ffff:2")));
    cr_assert(!same(group_of(AF_INET6, "2001:db8::1"), group_of(AF_INET6, "2001:db8:0:1::1")));
}

Test(peer, nothing_else_has_an_address)
{
    struct sockaddr_storage sa = {.ss_family = AF_UNIX};
    cr_assert_eq(peer_address(&sa).family, 0);
}
