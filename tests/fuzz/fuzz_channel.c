/* Messages between the supervisor and brig-proxy, as bytes from the other side. */
#include "network/channel.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static int pair[2] = {-1, -1};
    if (pair[0] < 0 && socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, pair) < 0)
        abort();
    if (size == 0 || send(pair[0], data, size, 0) != (ssize_t)size)
        return 0;
    static struct channel_msg msg;
    memset(&msg, 0x55, sizeof msg);
    struct err err = ERR_INIT;
    int fd = -1;
    int r = channel_receive(pair[1], &msg, &fd, &err);
    if (fd >= 0 || (r < 0 && err.code == ERR_NONE))
        abort();
    if (r == 1 && (msg.type == CH_NONE || msg.type >= CH_TYPE_COUNT ||
                   strlen(msg.text) != msg.text_len || msg.text_len > CHANNEL_TEXT_MAX ||
                   strnlen(msg.err.message, sizeof msg.err.message) == sizeof msg.err.message ||
                   strnlen(msg.err.hint, sizeof msg.err.hint) == sizeof msg.err.hint))
        abort();
    return 0;
}
