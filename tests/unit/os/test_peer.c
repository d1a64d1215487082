#include "base/cleanup.h"
#include "os/peer.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <netinet/in.h>
#include <sys/socket.h>

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

/* ---- what a connection has from its listener ---- */

static int linger_of_next(int listener, const struct sockaddr_in *at)
{
    struct linger how = {.l_onoff = -1};
    socklen_t len = sizeof how;
    cleanup_fd int client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cr_assert_eq(connect(client, (const struct sockaddr *)at, sizeof *at), 0);
    cleanup_fd int taken = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    cr_assert_geq(taken, 0);
    cr_assert_eq(getsockopt(taken, SOL_SOCKET, SO_LINGER, &how, &len), 0);
    return how.l_onoff;
}

/* Who closes one that lingers waits until the stranger has taken everything. The socket may have
 * come from somebody else, with such a setting. */
Test(peer, closing_a_connection_waits_for_nobody)
{
    const struct linger half_a_minute = {1, 30};
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    cleanup_fd int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cr_assert_eq(bind(fd, (struct sockaddr *)&at, sizeof at), 0);
    cr_assert_eq(listen(fd, 8), 0);
    cr_assert_eq(getsockname(fd, (struct sockaddr *)&at, &len), 0);
    cr_assert_eq(setsockopt(fd, SOL_SOCKET, SO_LINGER, &half_a_minute, sizeof half_a_minute), 0);
    cr_assert_eq(linger_of_next(fd, &at), 1, "the control: it is inherited");
    cr_assert_eq(tcp_listener_set_up(fd), 0);
    cr_assert_eq(linger_of_next(fd, &at), 0);
}

Test(peer, nothing_else_has_an_address)
{
    struct sockaddr_storage sa = {.ss_family = AF_UNIX};
    cr_assert_eq(peer_address(&sa).family, 0);
}
