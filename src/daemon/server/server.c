/* The server as a whole: its limits, its listeners, its end. server.h says what it promises. */
#include "base/cleanup.h"
#include "base/container.h"
#include "daemon/server/connection.h"

#include <string.h>
#include <sys/epoll.h>

static const struct server_limits defaults = {
    .connections = 2048,
    .connections_per_peer = 512,
    .streams_per_key = 1024,
    .head_timeout_ms = 10000,
    .idle_timeout_ms = 75000,
};

static struct server_limits limits_of(const struct server_limits *given)
{
    struct server_limits l = given ? *given : defaults;
    l.connections = l.connections ? l.connections : defaults.connections;
    l.connections_per_peer =
        l.connections_per_peer ? l.connections_per_peer : defaults.connections_per_peer;
    l.streams_per_key = l.streams_per_key ? l.streams_per_key : defaults.streams_per_key;
    l.head_timeout_ms = l.head_timeout_ms ? l.head_timeout_ms : defaults.head_timeout_ms;
    l.idle_timeout_ms = l.idle_timeout_ms ? l.idle_timeout_ms : defaults.idle_timeout_ms;
    return l;
}

/* A sixteenth of all connections is for this machine's own sockets and for operators' requests, and
 * one more for those who have not said yet who they are: the health check always finds a place. */
struct account_limits server_account_limits(const struct server_limits *limits)
{
    struct server_limits l = limits_of(limits);
    struct account_limits a = account_limits_default;
    uint64_t part = l.connections / 16;
    struct account_limit of_keys = {
        .each = l.streams_per_key, .all = l.connections - part, .reserve = part};
    a.of[ACCOUNT_OF_KEY][ACCOUNT_CONNECTIONS] = of_keys;
    a.of[ACCOUNT_OF_KEY][ACCOUNT_STREAMS] = of_keys;
    a.of[ACCOUNT_OF_ADDRESS][ACCOUNT_CONNECTIONS] =
        (struct account_limit){.each = l.connections_per_peer, .all = l.connections};
    return a;
}

static void on_drain(struct loop_task *t)
{
    struct server *s = container_of(t, struct server, drain_task);
    void (*fn)(void *ctx) = s->drained;
    s->drained = NULL;
    if (fn)
        fn(s->drained_ctx);
}

int server_new(struct server **ret, struct loop *loop, const struct server_limits *limits,
               server_auth_fn *auth, server_fn *fn, void *ctx, struct err *err)
{
    struct server *s = calloc(1, sizeof *s);
    if (!s)
        return err_memory(err);
    s->loop = loop;
    s->limits = limits_of(limits);
    s->auth = auth;
    s->fn = fn;
    s->ctx = ctx;
    s->drain_task.fn = on_drain;
    for (int i = 0; i < WAITINGS; i++)
        ring_init(&s->waiting[i]);
    s->accounts = s->limits.accounts;
    if (!s->accounts) {
        struct account_limits of = server_account_limits(limits);
        s->accounts = s->own_accounts = accounts_new(&of);
    }
    if (!s->accounts) {
        free(s);
        return err_memory(err);
    }
    *ret = s;
    return 0;
}

static void stop_listening(struct server *s)
{
    for (struct listener *l = s->listeners, *next; l; l = next) {
        next = l->next;
        loop_forget(s->loop, &l->io);
        loop_timer_cancel(s->loop, &l->pause);
        close(l->io.fd);
        if (l->reserve_fd >= 0)
            close(l->reserve_fd);
        free(l);
    }
    s->listeners = NULL;
}

void server_free(struct server *s)
{
    if (!s)
        return;
    s->drained = NULL;
    stop_listening(s);
    while (s->all)
        connection_free(s->all);
    callers_free(s);
    for (unsigned i = 0; i < s->spares; i++)
        free(s->spare[i]);
    free(s->hosts);
    accounts_free(s->own_accounts);
    free(s);
}

int server_allow_host(struct server *s, const char *name, struct err *err)
{
    struct host_rule rule = {.below = name[0] == '.'};
    if (host_parse(name + rule.below, strlen(name) - rule.below, false, &rule.host, err) < 0)
        return err_wrap(err, "a name for the server");
    if (rule.below && rule.host.kind != HOST_NAME)
        return err_set(err, ERR_USAGE, "nothing is below an address: %s", name);
    struct host_rule *hosts = reallocarray(s->hosts, s->host_count + 1, sizeof(*hosts));
    if (!hosts)
        return err_memory(err);
    hosts[s->host_count++] = rule;
    s->hosts = hosts;
    return 0;
}

unsigned server_connections(const struct server *s)
{
    return s->connections;
}

unsigned server_cut(struct server *s, const struct key *by)
{
    unsigned count = 0;
    for (struct connection *c = s->all, *next; c; c = next) {
        next = c->next;
        if (c->by != by || c->phase == PHASE_DEAD)
            continue;
        connection_lost(c);
        count++;
    }
    for (struct seat *seat = s->seats, *next; seat; seat = next) {
        next = seat->next;
        if (seat->by != by)
            continue;
        seat->cut(seat);
        count++;
    }
    return count;
}

const struct server_stats *server_stats(const struct server *s)
{
    return &s->stats;
}

void server_connection_ended(struct server *s)
{
    if (s->draining && s->drained && s->connections == 0 && s->refusing == 0)
        loop_defer(s->loop, &s->drain_task);
}

/* Idle connections are closed at once, the others after the answer that they wait for. */
void server_drain(struct server *s, void (*fn)(void *ctx), void *ctx)
{
    s->draining = true;
    s->drained = fn;
    s->drained_ctx = ctx;
    stop_listening(s);
    for (struct connection *c = s->all, *next; c; c = next) {
        next = c->next;
        if (c->phase == PHASE_HEAD && !c->in_len && !output_waiting(c))
            connection_lost(c);
    }
    server_connection_ended(s);
}
