/* Connections between brig-tls and the front; what a packet may say is in handover_parse.c. */
#include "wire/handover.h"

#include "base/cleanup.h"
#include "os/rights.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

int handover_send(int door, const struct peer_address *from, int fd)
{
    struct handover_packet packet = {.family = from->family == AF_INET ? 4 : 6};
    memcpy(packet.address, from->bytes, sizeof packet.address);
    struct iovec part = {&packet, sizeof packet};
    ssize_t n = rights_send(door, &part, 1, &fd, 1, MSG_DONTWAIT);
    return n < 0 ? (int)n : 0;
}

/* Nothing but a stream between processes of this machine: no terminal, no file, no listener of
 * ours. */
static bool is_stream(int fd)
{
    int domain = 0, type = 0, listens = 1;
    socklen_t len = sizeof(int);
    return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) == 0 && domain == AF_UNIX &&
           getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) == 0 && type == SOCK_STREAM &&
           getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &len) == 0 && !listens;
}

int handover_receive(int door, struct peer_address *ret_from, int *ret_fd)
{
    struct handover_packet packet;
    struct iovec part = {&packet, sizeof packet};
    int given = -1;
    struct rights rights = {.fds = &given, .room = 1};
    ssize_t n = rights_receive(door, &part, 1, MSG_DONTWAIT, &rights);
    cleanup_fd int fd = given;
    if (n <= 0)
        return (int)n;
    if (rights.cut || rights.count != 1 || handover_parse(&packet, (size_t)n, ret_from) < 0 ||
        !is_stream(fd) || fcntl(fd, F_SETFL, O_RDWR | O_NONBLOCK) < 0)
        return -EPROTO;
    *ret_fd = fd_steal(&fd);
    return 1;
}
