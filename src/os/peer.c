/* Addresses of callers, who of them counts as one, and what holds for their connections. */
#include "os/peer.h"

#include "base/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>

struct peer_address peer_address(const struct sockaddr_storage *sa)
{
    const struct sockaddr_in *in = (const struct sockaddr_in *)sa;
    const struct in6_addr *v6 = &((const struct sockaddr_in6 *)sa)->sin6_addr;
    struct peer_address p = {0};
    if (sa->ss_family == AF_INET) {
        p.family = AF_INET;
        memcpy(p.bytes, &in->sin_addr, 4);
    } else if (sa->ss_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(v6)) {
        p.family = AF_INET;
        memcpy(p.bytes, v6->s6_addr + 12, 4);
    } else if (sa->ss_family == AF_INET6) {
        p.family = AF_INET6;
        memcpy(p.bytes, v6->s6_addr, 16);
    }
    return p;
}

struct peer_group peer_group(const struct peer_address *of)
{
    struct peer_group g = {{0, of->family}};
    memcpy(&g.id[0], of->bytes, 8);
    return g;
}

bool peer_group_equal(const struct peer_group *a, const struct peer_group *b)
{
    return a->id[0] == b->id[0] && a->id[1] == b->id[1];
}

#define NOT_SENT (256 * 1024) /* of an answer, in the kernel's hands */

int tcp_listener_set_up(int fd)
{
    static const struct {
        int level, name, value;
    } options[] = {
        {SOL_SOCKET, SO_KEEPALIVE, 1},    {IPPROTO_TCP, TCP_KEEPIDLE, 120},
        {IPPROTO_TCP, TCP_KEEPINTVL, 30}, {IPPROTO_TCP, TCP_KEEPCNT, 4},
        {IPPROTO_TCP, TCP_NODELAY, 1},    {IPPROTO_TCP, TCP_NOTSENT_LOWAT, NOT_SENT},
    };
    const struct linger none = {0};
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0 ||
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &none, sizeof none) < 0)
        return -errno;
    for (size_t i = 0; i < ARRAY_LEN(options); i++)
        if (setsockopt(fd, options[i].level, options[i].name, &options[i].value, sizeof(int)) < 0)
            return -errno;
    return 0;
}
