/* To the outside. What is dialled is what was checked in the same decision: the name is resolved
 * once, every answer is looked at, and only those very addresses are connected to.
 *
 * N-5  A name with one answer that is not public is not dialled at all; only a pin leads elsewhere.
 * N-6  A pin is dialled without asking any name server.
 * N-18 What the code chose of a name or an address is a part of what is sent.
 * N-17 What is blocked by its address is not dialled by a name or a pin either. */
#include "base/container.h"
#include "network/address.h"
#include "os/weaken.h"
#include "proxy/own.h"
#include "proxy/proxy.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define CONNECT_MS 5000 /* for each address */

struct dial {
    struct proxy *px;
    struct target target;
    bool tls, checked;
    dial_done *done;
    void *ctx;
    struct resolution *resolution;
    struct sockaddr_storage addrs[RESOLVE_MAX];
    size_t count, next;
    struct loop_io io; /* while connecting */
    struct stream *stream;
    struct loop_timer timer;
    struct loop_task task;
    enum deny_reason reason;
    struct err err;
};

static bool blocks(const struct proxy *px, enum host_kind kind, const void *address)
{
    struct host host;
    host_of_address(kind, address, &host);
    return egress_blocks(&px->rules->egress, &host);
}

/* Also where it only leads to such an address, through a translator of the network's. */
static bool is_blocked(const struct proxy *px, const struct sockaddr_storage *sa)
{
    uint8_t v4[4];
    if (sa->ss_family == AF_INET)
        return blocks(px, HOST_IPV4, &((const struct sockaddr_in *)sa)->sin_addr);
    if (sa->ss_family != AF_INET6)
        return false;
    const struct in6_addr *v6 = &((const struct sockaddr_in6 *)sa)->sin6_addr;
    return blocks(px, HOST_IPV6, v6) ||
           (address_inner_v4(v6->s6_addr, v4) && blocks(px, HOST_IPV4, v4));
}

/* The rules may be others than when it was dialled. Of one that the other side has broken off
 * nobody can say where it led; what it sent is still to be read. */
bool dial_leads_to_blocked(struct proxy *px, int fd)
{
    struct sockaddr_storage sa = {0};
    socklen_t len = sizeof sa;
    if (getpeername(fd, (struct sockaddr *)&sa, &len) < 0)
        return px->rules->egress.blocked_count > 0;
    return is_blocked(px, &sa);
}

static void show_address(const struct sockaddr_storage *sa, char out[static INET6_ADDRSTRLEN])
{
    const void *addr = sa->ss_family == AF_INET
                           ? (const void *)&((const struct sockaddr_in *)sa)->sin_addr
                           : (const void *)&((const struct sockaddr_in6 *)sa)->sin6_addr;
    if (!inet_ntop(sa->ss_family, addr, out, INET6_ADDRSTRLEN))
        out[0] = '\0';
}

/* N-15: which address it is stands in the note of the event, and in nothing that goes inside. */
static bool refuse_address(struct dial *d, const struct sockaddr_storage *sa,
                           enum deny_reason reason, const char *kind)
{
    char text[INET6_ADDRSTRLEN];
    show_address(sa, text);
    d->reason = reason;
    err_set(&d->err, ERR_REFUSED, "%s leads to %s, which is %s", d->target.host.text, text, kind);
    return false;
}

static bool none_blocked(struct dial *d)
{
    for (size_t i = 0; i < d->count; i++)
        if (is_blocked(d->px, &d->addrs[i]) && !guard_left_out(GUARD_ADDRESS))
            return refuse_address(d, &d->addrs[i], DENY_BLOCKED, "blocked");
    return true;
}

static void forget_all(struct dial *d)
{
    resolve_cancel(d->resolution);
    d->resolution = NULL;
    loop_timer_cancel(d->px->loop, &d->timer);
    if (d->io.fd >= 0) {
        loop_forget(d->px->loop, &d->io);
        close(d->io.fd);
        d->io.fd = -1;
    }
    stream_close(d->stream);
    d->stream = NULL;
}

static void free_task(struct loop_task *t)
{
    free(container_of(t, struct dial, task));
}

static void free_dial(struct dial *d)
{
    forget_all(d);
    d->task.fn = free_task;
    loop_defer(d->px->loop, &d->task);
}

static void fail(struct dial *d)
{
    forget_all(d);
    d->done(d->ctx, NULL, d->reason, &d->err);
    free_dial(d);
}

static void succeed(struct dial *d)
{
    struct stream *s = d->stream;
    if (dial_leads_to_blocked(d->px, s->io.fd)) {
        d->reason = DENY_BLOCKED;
        err_set(&d->err, ERR_REFUSED, "%s leads to an address that was blocked meanwhile",
                d->target.host.text);
        fail(d);
        return;
    }
    d->stream = NULL;
    stream_want(s, 0);
    stream_on(s, NULL, NULL);
    d->done(d->ctx, s, DENY_NONE, NULL);
    free_dial(d);
}

static void fail_task(struct loop_task *t)
{
    fail(container_of(t, struct dial, task));
}

static void fail_later(struct dial *d)
{
    d->task.fn = fail_task;
    loop_defer(d->px->loop, &d->task);
}

/* ---- TLS ---- */

static void on_tls(void *ctx, int result, const struct err *err)
{
    struct dial *d = ctx;
    if (result < 0) {
        d->err = *err;
        fail(d);
        return;
    }
    succeed(d);
}

static void connected(struct dial *d)
{
    int fd = d->io.fd;
    loop_forget(d->px->loop, &d->io);
    d->io.fd = -1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
    d->stream = stream_new(d->px->loop, fd);
    if (!d->stream) {
        err_memory(&d->err);
        fail(d);
        return;
    }
    if (!d->tls) {
        succeed(d);
        return;
    }
    if (!none_blocked(d) ||
        tls_connect(d->px->tls, d->stream, &d->target.host, on_tls, d, &d->err) < 0)
        fail_later(d);
}

/* ---- TCP: one address after the other ---- */

static void try_next(struct dial *d);

static void attempt_failed(struct dial *d, int error)
{
    loop_timer_cancel(d->px->loop, &d->timer);
    if (d->io.fd >= 0) {
        loop_forget(d->px->loop, &d->io);
        close(d->io.fd);
        d->io.fd = -1;
    }
    errno = error;
    err_sys(&d->err, "connect to %s", d->target.host.text);
    try_next(d);
}

static void on_connect(struct loop_io *io, uint32_t events)
{
    (void)events;
    struct dial *d = container_of(io, struct dial, io);
    int error = 0;
    socklen_t len = sizeof error;
    if (getsockopt(io->fd, SOL_SOCKET, SO_ERROR, &error, &len) < 0)
        error = errno;
    loop_timer_cancel(d->px->loop, &d->timer);
    if (error)
        attempt_failed(d, error);
    else
        connected(d);
}

static void on_connect_deadline(struct loop_timer *t)
{
    attempt_failed(container_of(t, struct dial, timer), ETIMEDOUT);
}

static socklen_t address_size(const struct sockaddr_storage *sa)
{
    return sa->ss_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
}

static void set_port(struct sockaddr_storage *sa, uint16_t port)
{
    if (sa->ss_family == AF_INET)
        ((struct sockaddr_in *)sa)->sin_port = htons(port);
    else
        ((struct sockaddr_in6 *)sa)->sin6_port = htons(port);
}

static int start_attempt(struct dial *d, struct sockaddr_storage *sa)
{
    int fd = socket(sa->ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP);
    if (fd < 0)
        return -errno;
    d->io = (struct loop_io){.fd = fd, .fn = on_connect};
    set_port(sa, d->target.port);
    if (connect(fd, (struct sockaddr *)sa, address_size(sa)) < 0 && errno != EINPROGRESS)
        return -errno;
    d->timer.fn = on_connect_deadline;
    loop_timer_set(d->px->loop, &d->timer, CONNECT_MS);
    return loop_watch(d->px->loop, &d->io, EPOLLOUT);
}

static void try_next(struct dial *d)
{
    if (d->next == d->count || !none_blocked(d)) {
        fail(d);
        return;
    }
    int r = start_attempt(d, &d->addrs[d->next++]);
    if (r < 0)
        attempt_failed(d, -r);
}

/* ---- addresses ---- */

/* v4 and v6 in turn, so that one dead family costs one attempt. */
static void interleave(struct dial *d)
{
    for (size_t i = 1; i + 1 < d->count; i++) {
        size_t j = i;
        while (j < d->count && d->addrs[j].ss_family == d->addrs[i - 1].ss_family)
            j++;
        if (j == d->count)
            return;
        struct sockaddr_storage sa = d->addrs[j];
        d->addrs[j] = d->addrs[i];
        d->addrs[i] = sa;
    }
}

static bool all_public(struct dial *d)
{
    for (size_t i = 0; i < d->count; i++) {
        enum address_class c = address_classify((struct sockaddr *)&d->addrs[i]);
        bool own = c == ADDRESS_PUBLIC && own_has(&d->addrs[i]);
        if ((c == ADDRESS_PUBLIC && !own) || guard_left_out(GUARD_ADDRESS))
            continue;
        char hint[DENY_HINT_MAX];
        refuse_address(d, &d->addrs[i], DENY_ADDRESS,
                       own ? "this machine's own" : address_class_name(c));
        c = own ? ADDRESS_PRIVATE : c;
        deny_address_hint(&d->target, c, d->px->rules->egress.live, hint);
        err_hint(&d->err, "%s", hint);
        return false;
    }
    return true;
}

static void on_resolved(void *ctx, const struct sockaddr_storage *addrs, size_t count,
                        const char *error)
{
    struct dial *d = ctx;
    d->resolution = NULL;
    if (error) {
        err_set(&d->err, ERR_SYSTEM, "%s: %s", d->target.host.text, error);
        fail(d);
        return;
    }
    memcpy(d->addrs, addrs, count * sizeof *addrs);
    d->count = count;
    if (!none_blocked(d) || !all_public(d)) {
        fail(d);
        return;
    }
    interleave(d);
    try_next(d);
}

static void go_task(struct loop_task *t)
{
    struct dial *d = container_of(t, struct dial, task);
    if (none_blocked(d) && (d->checked || all_public(d)))
        try_next(d);
    else
        fail(d);
}

static void use_literal(struct dial *d, const struct host *h)
{
    if (h->kind == HOST_IPV4) {
        struct sockaddr_in *sin = (struct sockaddr_in *)&d->addrs[0];
        sin->sin_family = AF_INET;
        memcpy(&sin->sin_addr, h->addr, 4);
    } else {
        struct sockaddr_in6 *sin6 = (struct sockaddr_in6 *)&d->addrs[0];
        sin6->sin6_family = AF_INET6;
        memcpy(&sin6->sin6_addr, h->addr, 16);
    }
    d->count = 1;
    d->task.fn = go_task;
    loop_defer(d->px->loop, &d->task);
}

/* Below a star or in a range the code chooses what the question, the handshake or the connection
 * itself tells the outside, as often as it dials. Where nothing more may be sent nobody is asked.
 */
static bool may_tell(struct dial *d, const struct egress_rule *r, size_t rule)
{
    struct budgets *b = &d->px->budgets;
    size_t chosen = r && r->host.stars == STARS_NONE ? 0 : strlen(d->target.host.text);
    if (budget_may_upload(b, rule, chosen)) {
        budget_upload(b, rule, chosen);
        return true;
    }
    d->reason = DENY_UPLOAD;
    err_set(&d->err, ERR_REFUSED, "%s was not asked for: its name is more than may still be sent",
            d->target.host.text);
    return false;
}

struct dial *dial_start(struct proxy *px, const struct target *t, size_t rule, bool tls,
                        dial_done *done, void *ctx)
{
    struct dial *d = calloc(1, sizeof *d);
    if (!d)
        return NULL;
    d->px = px;
    d->target = *t;
    d->target.path = NULL;
    d->target.doubts = NULL;
    d->tls = tls && t->scheme == SCHEME_HTTPS;
    d->done = done;
    d->ctx = ctx;
    d->io.fd = -1;
    const struct egress *e = &px->rules->egress;
    const struct egress_rule *r = rule < e->rule_count ? &e->rules[rule] : NULL;
    if (!may_tell(d, r, rule)) {
        fail_later(d);
    } else if (r && r->pinned) {
        d->checked = true;
        use_literal(d, &r->address);
    } else if (t->host.kind != HOST_NAME) {
        use_literal(d, &t->host);
    } else {
        d->resolution = resolve_start(px->resolver, &t->host, on_resolved, d);
        if (!d->resolution) {
            err_memory(&d->err);
            fail_later(d);
        }
    }
    return d;
}

void dial_cancel(struct dial *d)
{
    if (d)
        free_dial(d);
}
