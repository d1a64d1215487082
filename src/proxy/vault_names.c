/* The address of Vault, for the keeper: c-ares without a loop, waiting. */
#include "base/clock.h"
#include "proxy/vault_tls.h"

#include <ares.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>

struct lookup {
    bool done;
    int status;
    uint16_t port;
    struct sockaddr_storage *ret;
    size_t count, max;
};

static void on_answer(void *arg, int status, int timeouts, struct ares_addrinfo *info)
{
    struct lookup *l = arg;
    (void)timeouts;
    l->done = true;
    l->status = status;
    for (struct ares_addrinfo_node *n = info ? info->nodes : NULL; n && l->count < l->max;
         n = n->ai_next) {
        struct sockaddr_storage *to = &l->ret[l->count];
        if ((n->ai_family != AF_INET && n->ai_family != AF_INET6) || n->ai_addrlen > sizeof *to)
            continue;
        memcpy(to, n->ai_addr, n->ai_addrlen);
        if (n->ai_family == AF_INET)
            ((struct sockaddr_in *)to)->sin_port = htons(l->port);
        else
            ((struct sockaddr_in6 *)to)->sin6_port = htons(l->port);
        l->count++;
    }
    if (info)
        ares_freeaddrinfo(info);
}

/* One wait, at most until the deadline. */
static void process(ares_channel channel, uint64_t left_ms)
{
    ares_socket_t sockets[ARES_GETSOCK_MAXNUM];
    struct pollfd p[ARES_GETSOCK_MAXNUM];
    int mask = ares_getsock(channel, sockets, ARES_GETSOCK_MAXNUM), count = 0;
    for (int i = 0; i < ARES_GETSOCK_MAXNUM; i++) {
        short events = (short)((ARES_GETSOCK_READABLE(mask, i) ? POLLIN : 0) |
                               (ARES_GETSOCK_WRITABLE(mask, i) ? POLLOUT : 0));
        if (events)
            p[count++] = (struct pollfd){sockets[i], events, 0};
    }
    struct timeval most = {(time_t)(left_ms / 1000), (suseconds_t)(left_ms % 1000 * 1000)}, tv;
    struct timeval *wait = ares_timeout(channel, &most, &tv);
    int ms = (int)(wait->tv_sec * 1000 + wait->tv_usec / 1000) + 1;
    if (poll(p, (nfds_t)count, ms) <= 0) {
        ares_process_fd(channel, ARES_SOCKET_BAD, ARES_SOCKET_BAD);
        return;
    }
    for (int i = 0; i < count; i++)
        ares_process_fd(channel, p[i].revents & ~POLLOUT ? p[i].fd : ARES_SOCKET_BAD,
                        p[i].revents & POLLOUT ? p[i].fd : ARES_SOCKET_BAD);
}

int vault_resolve(const char *host, uint16_t port, uint64_t deadline_ms,
                  struct sockaddr_storage *ret, size_t max, struct err *err)
{
    struct lookup l = {.port = port, .ret = ret, .max = max};
    ares_channel channel;
    if (ares_library_init(ARES_LIB_INIT_ALL) != ARES_SUCCESS || ares_init(&channel) != ARES_SUCCESS)
        return err_set(err, ERR_SYSTEM, "the resolver does not start");
    struct ares_addrinfo_hints hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    ares_getaddrinfo(channel, host, NULL, &hints, on_answer, &l);
    for (uint64_t now; !l.done && (now = clock_us() / 1000) < deadline_ms;)
        process(channel, deadline_ms - now);
    ares_destroy(channel); /* answers what is still open, if only with a refusal */
    if (l.count > 0)
        return (int)l.count;
    return err_set(err, ERR_SYSTEM, "Vault's name %s cannot be looked up: %s", host,
                   ares_strerror(l.status));
}
