/* Sends and receives the messages between the supervisor and brig-proxy, with at most one
 * descriptor each. */
#include "network/channel.h"

#include "os/rights.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

int channel_send(int fd, uint32_t type, uint32_t value, uint32_t port, const char *text,
                 int pass_fd, const struct err *why)
{
    size_t len = text ? strlen(text) : 0;
    if (len > CHANNEL_TEXT_MAX)
        return -EMSGSIZE;
    struct {
        uint32_t type, value, port, text_len;
        struct err err;
    } head = {.type = type, .value = value, .port = port, .text_len = (uint32_t)len};
    _Static_assert(sizeof head == CHANNEL_HEAD, "no padding on the wire");
    if (why)
        head.err = *why;
    struct iovec parts[2] = {{&head, sizeof head}, {(void *)(uintptr_t)text, len}};
    ssize_t n = rights_send(fd, parts, len ? 2 : 1, &pass_fd, pass_fd >= 0, 0);
    return n < 0 ? (int)n : 0;
}

static bool carries_fd(uint32_t type)
{
    return type == CH_CONFIG || type == CH_CHECK || type == CH_LISTENER || type == CH_CONNECTION;
}

static int check_message(struct channel_msg *msg, const struct rights *rights, size_t len,
                         struct err *err)
{
    if (rights->cut)
        return err_set(err, ERR_PROTOCOL, "channel: an oversized message");
    if (channel_check(msg, len, err) < 0)
        return -ERR_PROTOCOL;
    if (rights->count != (carries_fd(msg->type) ? 1 : 0))
        return err_set(err, ERR_PROTOCOL, "channel: %u descriptors in a message of type %u",
                       rights->count, msg->type);
    return 0;
}

int channel_receive(int fd, struct channel_msg *msg, int *ret_fd, struct err *err)
{
    /* The last byte of `text` is kept for the terminating NUL. */
    struct iovec part = {msg, sizeof *msg - 1};
    struct rights rights = {.fds = ret_fd, .room = 1};
    ssize_t n = rights_receive(fd, &part, 1, 0, &rights);
    if (n == -EAGAIN || n == 0)
        return (int)n;
    if (n < 0) {
        errno = (int)-n;
        return err_sys(err, "channel: receive");
    }
    if (check_message(msg, &rights, (size_t)n, err) < 0) {
        rights_close(&rights);
        return -ERR_PROTOCOL;
    }
    return 1;
}
