/* What is to be sent on a connection and was not taken by the kernel yet. Small pieces of one round
 * leave together; large ones go out from where they are, and only what the kernel did not take is
 * copied. */
#include "daemon/server/connection.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#define ANSWER_PACE (16u * 1024) /* in each idle_timeout, while there is more */

size_t output_waiting(const struct connection *c)
{
    return c->out.len - c->out_at;
}

void output_release(struct connection *c)
{
    c->out_at = 0;
    /* Between two requests it would be held for the key of the last one. */
    if (c->out.size > OUT_LITTLE || !c->x)
        buf_release(&c->out);
    else
        buf_reset(&c->out);
}

/* While something waits, a client must take a certain part of it again and again (DM-5). */
static void note_moved(struct connection *c, size_t sent)
{
    c->moved += sent;
    if (c->moved < ANSWER_PACE && sent < output_waiting(c))
        return;
    c->moved = 0;
    c->mark_ms = loop_now_ms(c->server->loop);
}

/* How much of the queue and of the parts the kernel took. Negative: the client is gone. */
static ssize_t send_all(struct connection *c, const struct iovec *parts, size_t count)
{
    struct iovec iov[1 + OUTPUT_PARTS];
    size_t n = 0;
    if (output_waiting(c))
        iov[n++] = (struct iovec){c->out.data + c->out_at, output_waiting(c)};
    for (size_t i = 0; i < count; i++)
        if (parts[i].iov_len)
            iov[n++] = parts[i];
    if (!n)
        return 0;
    struct msghdr m = {.msg_iov = iov, .msg_iovlen = n};
    ssize_t sent = sendmsg(c->io.fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0)
        return sent;
    return errno == EAGAIN || errno == EINTR ? 0 : -errno;
}

/* All but the first `skip` bytes of the parts. */
static void queue(struct connection *c, const struct iovec *parts, size_t count, size_t skip)
{
    if (c->out_at > OUT_LITTLE && c->out_at > c->out.len / 2) {
        buf_drop(&c->out, c->out_at);
        c->out_at = 0;
    }
    for (size_t i = 0; i < count; i++) {
        size_t gone = skip < parts[i].iov_len ? skip : parts[i].iov_len;
        buf_add(&c->out, (const char *)parts[i].iov_base + gone, parts[i].iov_len - gone);
        skip -= gone;
    }
    if (c->out.failed) { /* more than anybody may queue, or than its account has room for */
        hold_refusal(&c->hold, NULL);
        connection_lost(c);
    }
}

/* Marks so much as sent; returns how much of it was not from the queue. */
static size_t account(struct connection *c, size_t sent)
{
    size_t waiting = output_waiting(c);
    if (sent)
        note_moved(c, sent);
    if (sent < waiting) {
        c->out_at += sent;
        return 0;
    }
    output_release(c);
    return sent - waiting;
}

void output_add_parts(struct connection *c, const struct iovec *parts, size_t count, bool now)
{
    size_t waiting = output_waiting(c), len = 0;
    ssize_t sent = 0;
    if (c->phase == PHASE_DEAD)
        return;
    if (!waiting) {
        c->mark_ms = loop_now_ms(c->server->loop);
        c->moved = 0;
    }
    for (size_t i = 0; i < count; i++)
        len += parts[i].iov_len;
    if (!now && waiting + len < OUT_LITTLE) {
        queue(c, parts, count, 0);
        connection_later(c);
        return;
    }
    /* While something waits for EPOLLOUT another try would be in vain. */
    if (!waiting || !(c->io.events & EPOLLOUT))
        sent = send_all(c, parts, count);
    if (sent < 0) {
        connection_lost(c);
        return;
    }
    size_t taken = account(c, (size_t)sent);
    if (taken < len)
        queue(c, parts, count, taken);
    if (output_waiting(c))
        connection_settle(c);
}

void output_add(struct connection *c, const void *data, size_t len, bool now)
{
    struct iovec part = {(void *)data, len};
    output_add_parts(c, &part, 1, now);
}

void output_flush(struct connection *c)
{
    if (c->phase == PHASE_DEAD || !output_waiting(c))
        return;
    ssize_t n = send_all(c, NULL, 0);
    if (n < 0)
        connection_lost(c);
    else
        account(c, (size_t)n);
}
