/* Connections that brig-tls has accepted and made plain: taken from its socket, in batches, as if
 * they had been accepted here. */
#include "base/cleanup.h"
#include "base/container.h"
#include "daemon/server/connection.h"
#include "os/rights.h"
#include "wire/handover.h"

#include <errno.h>
#include <sys/epoll.h>

#define BATCH 64

/* Nonsense is passed over: whoever sent it can only have lost a connection of its own. It may also
 * be one whose descriptor did not come, since there was none left. */
static void on_handed(struct loop_io *io, uint32_t events)
{
    struct listener *l = container_of(io, struct listener, io);
    (void)events;
    for (int i = 0; i < BATCH; i++) {
        struct peer_address from;
        int fd = -1, r = handover_receive(io->fd, &from, &fd);
        if (r == -EPROTO) {
            server_make_room(l->server);
            continue;
        }
        /* The end: brig serve holds the other side too, so it is at its own. */
        if (r <= 0) {
            if (r != -EAGAIN)
                loop_watch(l->server->loop, io, 0);
            return;
        }
        socket_take_no_rights(fd);
        connection_admit(l->server, fd, false, peer_group(&from));
    }
}

int server_take_handed(struct server *s, int fd, struct err *err)
{
    cleanup_fd int owned = fd;
    struct listener *l = calloc(1, sizeof *l);
    if (!l)
        return err_memory(err);
    *l = (struct listener){
        .io = {.fd = fd, .fn = on_handed}, .server = s, .local = false, .reserve_fd = -1};
    int r = loop_watch(s->loop, &l->io, EPOLLIN);
    if (r < 0) {
        free(l);
        errno = -r;
        return err_sys(err, "watch brig-tls");
    }
    l->next = s->listeners;
    s->listeners = l;
    fd_steal(&owned);
    return 0;
}
