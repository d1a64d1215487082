/* Bounds how much is written to one process in one round of the event loop. Code that reads as fast
 * as it is written to always has room for more: without a bound, the front would write to it until
 * everything is written, and meanwhile serve nobody else. */
#include "daemon/base/turn.h"

#include <errno.h>
#include <unistd.h>

#define PIECE (64u << 10) /* also within one call a reader can go on making room */

ssize_t turn_write(int fd, const void *data, size_t len)
{
    const char *bytes = data;
    size_t most = len < TURN_BYTES ? len : TURN_BYTES, done = 0;
    for (unsigned i = 0; i < TURN_WRITES && done < most; i++) {
        size_t left = most - done;
        ssize_t n = write(fd, bytes + done, left < PIECE ? left : PIECE);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno != EAGAIN && done == 0)
            return -EPIPE;
        if (n < 0)
            break;
        done += (size_t)n;
    }
    return (ssize_t)done;
}
