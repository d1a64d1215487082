/* Names to addresses, once per decision, with c-ares on our loop. Nothing is kept: what was asked
 * for one connection is checked and dialled for that connection.
 *
 * c-ares would open /etc/hosts at every lookup; a sealed process cannot. hosts.c reads it at the
 * start instead. */
#include "base/cleanup.h"
#include "base/container.h"
#include "proxy/hosts.h"
#include "proxy/proxy.h"

#include <ares.h>
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>

#define DEADLINE_MS 5000
/* Questions that c-ares has not answered, whether anybody still waits for them or not: it cannot be
 * told to forget one, so that clients that ask and leave would pile them up. It has 65536 numbers
 * for them, and looks for a free one until there is one. */
#define ASKED_MAX 512

struct socket_watch {
    struct loop_io io;
    struct resolver *r;
    struct socket_watch *next;
};

struct resolver {
    struct loop *loop;
    ares_channel channel;
    struct hosts hosts;
    unsigned asked;
    struct socket_watch *sockets;
    struct loop_timer timer;
};

struct resolution {
    struct resolver *r;
    resolve_done *done; /* NULL: nobody wants to know any more */
    void *ctx;
    struct loop_timer deadline;
    struct loop_task finish;
    bool asked; /* c-ares still holds a pointer to this */
    const char *error;
    struct sockaddr_storage addrs[RESOLVE_MAX];
    size_t count;
};

/* ---- c-ares on the loop ---- */

static void set_timer(struct resolver *r)
{
    struct timeval tv;
    if (ares_timeout(r->channel, NULL, &tv))
        loop_timer_set(r->loop, &r->timer,
                       (uint64_t)tv.tv_sec * 1000 + (uint64_t)tv.tv_usec / 1000 + 1);
    else
        loop_timer_cancel(r->loop, &r->timer);
}

static void on_socket(struct loop_io *io, uint32_t events)
{
    struct resolver *r = container_of(io, struct socket_watch, io)->r;
    bool bad = events & (EPOLLERR | EPOLLHUP);
    int fd = io->fd; /* the watch may be gone after the first of these */
    ares_process_fd(r->channel, bad || (events & EPOLLIN) ? fd : ARES_SOCKET_BAD,
                    events & EPOLLOUT ? fd : ARES_SOCKET_BAD);
    set_timer(r);
}

static void on_timer(struct loop_timer *t)
{
    struct resolver *r = container_of(t, struct resolver, timer);
    ares_process_fd(r->channel, ARES_SOCKET_BAD, ARES_SOCKET_BAD);
    set_timer(r);
}

static void socket_state(void *data, ares_socket_t fd, int readable, int writable)
{
    struct resolver *r = data;
    struct socket_watch **at = &r->sockets;
    while (*at && (*at)->io.fd != fd)
        at = &(*at)->next;
    struct socket_watch *w = *at;
    if (!readable && !writable) {
        if (!w)
            return;
        *at = w->next;
        loop_forget(r->loop, &w->io);
        free(w);
        return;
    }
    if (!w) {
        w = calloc(1, sizeof *w);
        if (!w)
            return; /* the query ends at its deadline */
        *w = (struct socket_watch){.io = {.fd = fd, .fn = on_socket}, .r = r, .next = r->sockets};
        r->sockets = w;
    }
    loop_watch(r->loop, &w->io,
               (readable ? (uint32_t)EPOLLIN : 0) | (writable ? (uint32_t)EPOLLOUT : 0));
}

int resolver_new(struct loop *loop, const char *server, struct resolver **ret, struct err *err)
{
    struct resolver *r = calloc(1, sizeof *r);
    if (!r)
        return err_memory(err);
    r->loop = loop;
    r->timer.fn = on_timer;
    /* No search list: a name is asked for as it was decided on, or not at all. */
    struct ares_options o = {.flags = ARES_FLAG_NOSEARCH | ARES_FLAG_NOALIASES,
                             .timeout = 1500,
                             .tries = 3,
                             .lookups = (char[]){"b"},
                             .sock_state_cb = socket_state,
                             .sock_state_cb_data = r};
    int status = ares_library_init(ARES_LIB_INIT_ALL);
    if (status == ARES_SUCCESS)
        status = ares_init_options(&r->channel, &o,
                                   ARES_OPT_FLAGS | ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES |
                                       ARES_OPT_LOOKUPS | ARES_OPT_SOCK_STATE_CB);
    if (status == ARES_SUCCESS && server)
        status = ares_set_servers_ports_csv(r->channel, server);
    if (status != ARES_SUCCESS) {
        free(r);
        return err_set(err, ERR_SYSTEM, "resolver: %s", ares_strerror(status));
    }
    hosts_read(&r->hosts, "/etc/hosts");
    *ret = r;
    return 0;
}

/* ---- one name ---- */

static void release(struct resolution *q)
{
    loop_timer_cancel(q->r->loop, &q->deadline);
    if (!q->asked && !q->finish.queued)
        free(q);
}

static void on_finish(struct loop_task *t)
{
    struct resolution *q = container_of(t, struct resolution, finish);
    resolve_done *done = q->done;
    q->done = NULL;
    if (done)
        done(q->ctx, q->addrs, q->error ? 0 : q->count, q->error);
    release(q);
}

static void on_deadline(struct loop_timer *t)
{
    struct resolution *q = container_of(t, struct resolution, deadline);
    q->error = "the name server did not answer in time";
    loop_defer(q->r->loop, &q->finish);
}

static void keep_address(struct resolution *q, const struct sockaddr *sa, size_t len)
{
    /* More answers than we would look at: unchecked ones are not available, so that none is. */
    if (q->count == RESOLVE_MAX)
        q->error = "the name has too many addresses";
    else if (len <= sizeof q->addrs[0])
        memcpy(&q->addrs[q->count++], sa, len);
}

static void on_answer(void *arg, int status, int timeouts, struct ares_addrinfo *info)
{
    (void)timeouts;
    struct resolution *q = arg;
    q->asked = false;
    q->r->asked--;
    if (status != ARES_SUCCESS)
        q->error = status == ARES_ENOTFOUND || status == ARES_ENODATA ? "the name does not exist"
                                                                      : ares_strerror(status);
    for (struct ares_addrinfo_node *n = info ? info->nodes : NULL; n; n = n->ai_next)
        if (n->ai_family == AF_INET || n->ai_family == AF_INET6)
            keep_address(q, n->ai_addr, n->ai_addrlen);
    if (!q->error && q->count == 0)
        q->error = "the name has no address";
    if (info)
        ares_freeaddrinfo(info);
    if (q->done)
        loop_defer(q->r->loop, &q->finish);
    else
        release(q);
}

static void found_in_hosts(void *ctx, const struct host *address)
{
    struct resolution *q = ctx;
    struct sockaddr_in v4 = {.sin_family = AF_INET};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
    memcpy(&v4.sin_addr, address->addr, 4);
    memcpy(&v6.sin6_addr, address->addr, 16);
    if (address->kind == HOST_IPV4)
        keep_address(q, (struct sockaddr *)&v4, sizeof v4);
    else
        keep_address(q, (struct sockaddr *)&v6, sizeof v6);
}

struct resolution *resolve_start(struct resolver *r, const struct host *name, resolve_done *done,
                                 void *ctx)
{
    struct resolution *q = calloc(1, sizeof *q);
    if (!q)
        return NULL;
    q->r = r;
    q->done = done;
    q->ctx = ctx;
    q->deadline.fn = on_deadline;
    q->finish.fn = on_finish;
    hosts_find(&r->hosts, name, found_in_hosts, q);
    if (!q->count && r->asked >= ASKED_MAX)
        q->error = "too many names are being looked up";
    if (q->count || q->error) {
        loop_defer(r->loop, &q->finish);
        return q;
    }
    loop_timer_set(r->loop, &q->deadline, DEADLINE_MS);
    q->asked = true;
    r->asked++;
    struct ares_addrinfo_hints hints = {
        .ai_family = AF_UNSPEC, .ai_flags = ARES_AI_NOSORT, .ai_socktype = SOCK_STREAM};
    ares_getaddrinfo(r->channel, name->text, NULL, &hints, on_answer, q);
    set_timer(r);
    return q;
}

void resolve_cancel(struct resolution *q)
{
    if (!q)
        return;
    q->done = NULL;
    release(q);
}
