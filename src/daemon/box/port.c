/* A connection to a port inside: the warden's socket brings it, the caller owns it. */
#include "base/cleanup.h"
#include "daemon/box/box_internal.h"

#include <string.h>

struct connecting {
    port_fn *fn;
    void *ctx;
    struct core *core;
};

static void on_connected(void *ctx, struct wire_msg *m, const struct err *err)
{
    struct connecting *p = ctx;
    struct err mine = ERR_INIT;
    int fd = -1;
    if (!err) {
        fd = wire_steal_fd(m, 0);
        if (fd < 0 || fd_nonblocking(fd) < 0) {
            err_set(&mine, ERR_PROTOCOL, "the connection came without its socket");
            err = &mine;
        }
    }
    if (err && fd >= 0)
        close(fd_steal(&fd));
    p->fn(p->ctx, err ? -1 : fd, err);
    free(p);
}

void port_connect(struct box *b, uint16_t port, port_fn *fn, void *ctx)
{
    struct err err = ERR_INIT;
    struct connecting *p = box_usable(b, &err) ? malloc(sizeof *p) : NULL;
    if (!p) {
        if (!err.code)
            err_memory(&err);
        fn(ctx, -1, &err);
        return;
    }
    *p = (struct connecting){fn, ctx, b->core};
    box_touch(b);
    const char *text = JSON_SMALL(JSON_NUMBER("port", port));
    peer_ask(&b->warden, WIRE_CONNECT, 0, text, strlen(text), ANSWER_MS, on_connected, p);
}
