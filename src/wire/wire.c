/* Sending and receiving; what a packet may look like is in wire_parse.c. */
#include "wire/wire.h"

#include "os/rights.h"

#include <errno.h>
#include <unistd.h>

int wire_send(int sock, enum wire_type type, uint32_t request, int64_t value, const char *text,
              size_t text_len, const int *fds, unsigned fd_count)
{
    if (text_len > WIRE_TEXT_MAX || fd_count > WIRE_FDS_MAX)
        return -EMSGSIZE;
    struct wire_packet head = {
        .type = type, .request = request, .value = value, .text_len = (uint32_t)text_len};
    struct iovec parts[2] = {{&head, sizeof head}, {(void *)(uintptr_t)text, text_len}};
    ssize_t n = rights_send(sock, parts, text_len ? 2 : 1, fds, fd_count, 0);
    return n < 0 ? (int)n : 0;
}

int wire_receive(int sock, struct wire_msg *msg, int flags)
{
    struct wire_packet head;
    struct iovec parts[2] = {{&head, sizeof head}, {msg->text, WIRE_TEXT_MAX}};
    struct rights rights = {.fds = msg->fds, .room = WIRE_FDS_MAX};
    ssize_t n = rights_receive(sock, parts, 2, flags, &rights);
    msg->fd_count = rights.count;
    if (n <= 0)
        return (int)n;
    if (rights.cut || (size_t)n < sizeof head ||
        wire_check(&head, (size_t)n - sizeof head, msg) < 0) {
        wire_close_fds(msg);
        return -EPROTO;
    }
    return 1;
}

void wire_close_fds(struct wire_msg *msg)
{
    for (unsigned i = 0; i < msg->fd_count; i++) {
        if (msg->fds[i] >= 0)
            close(msg->fds[i]);
        msg->fds[i] = -1;
    }
    msg->fd_count = 0;
}

int wire_steal_fd(struct wire_msg *msg, unsigned i)
{
    if (i >= msg->fd_count)
        return -1;
    int fd = msg->fds[i];
    msg->fds[i] = -1;
    return fd;
}
