/* One end of a connection, plain or TLS, on the event loop. */
#include "proxy/stream.h"

#include "base/container.h"
#include "proxy/tls.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

static uint32_t plain_events(unsigned wanted)
{
    return (wanted & STREAM_READABLE ? (uint32_t)EPOLLIN : 0) |
           (wanted & STREAM_WRITABLE ? (uint32_t)EPOLLOUT : 0);
}

/* Tell the loop what is waited for; TLS knows what its own next step needs. */
static void rewatch(struct stream *s)
{
    if (s->io.fd < 0)
        return;
    loop_watch(s->loop, &s->io,
               s->tls && s->wanted ? tls_events(s->tls, s->wanted) : plain_events(s->wanted));
    if (s->tls && (s->wanted & STREAM_READABLE) && tls_pending(s->tls))
        loop_defer(s->loop, &s->again);
}

static void call_owner(struct stream *s, unsigned ready)
{
    ready &= s->wanted;
    if (ready && s->fn)
        s->fn(s->ctx, ready);
    if (s->tls)
        rewatch(s);
}

static void on_io(struct loop_io *io, uint32_t events)
{
    struct stream *s = container_of(io, struct stream, io);
    unsigned ready = 0;
    if (events & (EPOLLIN | EPOLLERR | EPOLLHUP))
        ready |= STREAM_READABLE;
    if (events & (EPOLLOUT | EPOLLERR | EPOLLHUP))
        ready |= STREAM_WRITABLE;
    /* With TLS a read may have waited for room to write, and the other way round. */
    call_owner(s, s->tls ? s->wanted : ready);
}

static void on_again(struct loop_task *t)
{
    struct stream *s = container_of(t, struct stream, again);
    call_owner(s, STREAM_READABLE);
}

struct stream *stream_new(struct loop *loop, int fd)
{
    struct stream *s = calloc(1, sizeof *s);
    if (!s) {
        close(fd);
        return NULL;
    }
    s->loop = loop;
    s->io.fd = fd;
    s->io.fn = on_io;
    s->again.fn = on_again;
    return s;
}

static void free_later(struct loop_task *t)
{
    free(container_of(t, struct stream, again));
}

void stream_close(struct stream *s)
{
    if (!s || s->io.fd < 0)
        return;
    s->fn = NULL;
    s->wanted = 0;
    loop_forget(s->loop, &s->io);
    if (s->tls)
        tls_free(s->tls);
    s->tls = NULL;
    close(s->io.fd);
    s->io.fd = -1;
    if (s->counted)
        (*s->counted)--;
    /* Its own callback may be running: the memory goes when the round is over. */
    s->again.fn = free_later;
    loop_defer(s->loop, &s->again);
}

void stream_on(struct stream *s, void (*fn)(void *ctx, unsigned ready), void *ctx)
{
    s->fn = fn;
    s->ctx = ctx;
}

void stream_want(struct stream *s, unsigned wanted)
{
    s->wanted = wanted;
    rewatch(s);
}

ssize_t stream_read(struct stream *s, void *data, size_t len)
{
    if (s->tls) {
        ssize_t n = tls_read(s->tls, data, len);
        rewatch(s);
        return n;
    }
    ssize_t n;
    do
        n = recv(s->io.fd, data, len, 0);
    while (n < 0 && errno == EINTR);
    return n < 0 ? -errno : n;
}

ssize_t stream_write(struct stream *s, const void *data, size_t len)
{
    if (s->tls) {
        ssize_t n = tls_write(s->tls, data, len);
        rewatch(s);
        return n;
    }
    ssize_t n;
    do
        n = send(s->io.fd, data, len, MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    return n < 0 ? -errno : n;
}

void stream_finish(struct stream *s)
{
    if (s->tls)
        tls_finish(s->tls);
    shutdown(s->io.fd, SHUT_WR);
}
