/* Pipes for splice: keeps a few empty ones for the next tunnel. */
#include "proxy/pipes.h"

#include <fcntl.h>
#include <unistd.h>

#define KEPT      16
#define PIPE_SIZE (1 << 20)

static struct pipe_pair pool[KEPT];
static unsigned pooled;

bool pipe_take(struct pipe_pair *ret)
{
    if (pooled > 0) {
        *ret = pool[--pooled];
        return true;
    }
    int fds[2];
    if (pipe2(fds, O_NONBLOCK | O_CLOEXEC) < 0)
        return false;
    /* Best effort: beyond the user's limit on pipe pages the default size stays. */
    (void)fcntl(fds[1], F_SETPIPE_SZ, PIPE_SIZE);
    *ret = (struct pipe_pair){fds[0], fds[1]};
    return true;
}

void pipe_give_back(struct pipe_pair *p, bool empty)
{
    if (p->read_fd < 0)
        return;
    if (empty && pooled < KEPT) {
        pool[pooled++] = *p;
    } else {
        close(p->read_fd);
        close(p->write_fd);
    }
    *p = (struct pipe_pair){-1, -1};
}
