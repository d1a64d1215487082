/* What came in on a connection and was not looked at yet. A buffer is held only while there is
 * something in it, so that a thousand idle connections cost none. */
#include "daemon/server/connection.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

/* Without a complete head the client is not known yet. If memory is short, close the connection
 * that has been sending its head for the longest time: of the same caller first, then of all. Leave
 * as much again for the answer. */
static int charge(struct connection *c)
{
    struct server *s = c->server;
    if (c->phase != PHASE_EXCHANGE)
        while (account_room(c->hold.account, ACCOUNT_BYTES) < 2 * IN_SIZE &&
               (callers_evict(s, c->caller, WAITS_HEAD) || callers_evict(s, NULL, WAITS_HEAD)))
            ;
    return hold_add(&c->hold, IN_SIZE, NULL);
}

static int take_buffer(struct connection *c)
{
    struct server *s = c->server;
    if (c->in)
        return 0;
    if (charge(c) < 0)
        return -EDQUOT;
    c->in = s->spares ? s->spare[--s->spares] : malloc(IN_SIZE);
    c->in_at = c->in_len = c->scanned = 0;
    if (!c->in)
        hold_sub(&c->hold, IN_SIZE);
    return c->in ? 0 : -ENOMEM;
}

void input_release(struct connection *c)
{
    struct server *s = c->server;
    if (!c->in || c->in_at < c->in_len)
        return;
    if (s->spares < SPARES)
        s->spare[s->spares++] = c->in;
    else
        free(c->in);
    c->in = NULL;
    hold_sub(&c->hold, IN_SIZE);
    c->in_at = c->in_len = c->scanned = 0;
}

ssize_t input_receive(struct connection *c)
{
    int r = take_buffer(c);
    if (r < 0)
        return r;
    if (c->in_at && c->in_at == c->in_len) {
        c->in_at = c->in_len = 0;
    } else if (c->in_at && c->in_len == IN_SIZE) {
        memmove(c->in, c->in + c->in_at, c->in_len - c->in_at);
        c->in_len -= c->in_at;
        c->in_at = 0;
    }
    if (c->in_len == IN_SIZE)
        return -ENOBUFS;
    /* Whether it waits is not left to the descriptor: brig-tls has a hand in that of its streams.
     */
    ssize_t n = recv(c->io.fd, c->in + c->in_len, IN_SIZE - c->in_len, MSG_DONTWAIT);
    if (n > 0)
        c->in_len += (size_t)n;
    else
        input_release(c);
    return n < 0 ? -errno : n;
}

/* Steps over the framing in front of the next bytes of the body. */
static int read_chunk(struct connection *c, struct err *err)
{
    struct framing *f = &c->framing;
    const char *data;
    size_t data_len;
    ssize_t n =
        chunk_read(&f->chunk, c->in + c->in_at, c->in_len - c->in_at, &data, &data_len, err);
    if (n < 0)
        return err_number(err);
    c->in_at += (size_t)n - data_len;
    f->piece = data_len;
    f->done = f->chunk.done;
    return 0;
}

int input_piece(struct connection *c, const char **ret, size_t *ret_len, struct err *err)
{
    struct framing *f = &c->framing;
    if (!f->piece && !f->done && f->kind == BODY_CHUNKED && c->in_at < c->in_len &&
        read_chunk(c, err) < 0)
        return err_number(err);
    size_t have = c->in_len - c->in_at;
    if (!f->piece || !have)
        return 0;
    *ret = c->in + c->in_at;
    *ret_len = have < f->piece ? have : (size_t)f->piece;
    return 1;
}

void input_take(struct connection *c, size_t len)
{
    struct framing *f = &c->framing;
    c->in_at += len;
    f->piece -= len;
    f->taken += len;
    if (!f->piece && f->kind != BODY_CHUNKED)
        f->done = true;
}
