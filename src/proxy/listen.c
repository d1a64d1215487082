/* Connections from inside: accepted from the listeners that init made in the sandbox's namespace,
 * or handed over one by one by the supervisor. */
#include "base/cleanup.h"
#include "base/container.h"
#include "http/url.h"
#include "proxy/proxy.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stddef.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#define ACCEPT_BATCH 64
#define PAUSE_MS     100 /* when there is no descriptor left, say */
#define GATEWAY      "brig.proxy"
#define GATEWAY_PORT 80

struct listener {
    struct loop_io io;
    struct loop_timer pause;
    struct proxy *px;
    enum channel_listener kind;
};

/* ---- where a connection leads ---- */

static void unmap(struct sockaddr_storage *sa)
{
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)sa;
    if (sa->ss_family != AF_INET6 || !IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr))
        return;
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = v6->sin6_port};
    memcpy(&v4.sin_addr, v6->sin6_addr.s6_addr + 12, 4);
    memcpy(sa, &v4, sizeof v4);
}

/* Of both families, at the same place. */
static uint16_t port_of(const struct sockaddr_storage *sa)
{
    in_port_t port;
    memcpy(&port, (const char *)sa + offsetof(struct sockaddr_in, sin_port), sizeof port);
    return ntohs(port);
}
_Static_assert(offsetof(struct sockaddr_in, sin_port) == offsetof(struct sockaddr_in6, sin6_port),
               "one place for the port");

/* The name that a stand-in leads back to, or the address itself. */
static int host_of(struct proxy *px, const struct sockaddr_storage *sa, struct host *ret)
{
    const struct host *name = standin_name(&px->standins, (const struct sockaddr *)sa);
    if (name) {
        *ret = *name;
        return 0;
    }
    char text[INET6_ADDRSTRLEN];
    const void *addr = sa->ss_family == AF_INET
                           ? (const void *)&((const struct sockaddr_in *)sa)->sin_addr
                           : (const void *)&((const struct sockaddr_in6 *)sa)->sin6_addr;
    if (!inet_ntop(sa->ss_family, addr, text, sizeof text))
        return -EINVAL;
    return host_parse(text, strlen(text), false, ret, NULL);
}

static void start_transparent(struct proxy *px, struct stream *client, struct sockaddr_storage *sa)
{
    struct host host;
    unmap(sa);
    if (host_of(px, sa, &host) < 0)
        stream_close(client);
    else if (strcmp(host.text, GATEWAY) == 0 && port_of(sa) == GATEWAY_PORT)
        http_session_start(px, client, ENTRY_PROXY, NULL, NULL, 0);
    else
        sniff_start(px, client, ENTRY_TRANSPARENT, &host, port_of(sa), NULL, 0);
}

/* `asked`: what the code dialled, or NULL where the socket itself knows it. */
static void start(struct proxy *px, int fd, enum channel_listener kind,
                  struct sockaddr_storage *asked)
{
    struct sockaddr_storage own = {0};
    socklen_t len = sizeof own;
    if (px->connections >= px->max_connections ||
        (!asked && getsockname(fd, (struct sockaddr *)&own, &len) < 0)) {
        close(fd);
        return;
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
    struct stream *client = stream_new(px->loop, fd);
    if (!client)
        return;
    px->connections++;
    client->counted = &px->connections;
    if (kind == LISTENER_PROXY)
        http_session_start(px, client, ENTRY_PROXY, NULL, NULL, 0);
    else if (kind == LISTENER_DNS_TCP)
        dns_tcp_start(px, client);
    else
        start_transparent(px, client, asked ? asked : &own);
}

/* ---- listeners ---- */

static void on_pause_over(struct loop_timer *t)
{
    struct listener *l = container_of(t, struct listener, pause);
    loop_watch(l->px->loop, &l->io, EPOLLIN);
}

static void on_listener(struct loop_io *io, uint32_t events)
{
    (void)events;
    struct listener *l = container_of(io, struct listener, io);
    for (int i = 0; i < ACCEPT_BATCH; i++) {
        int fd = accept4(io->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0) {
            start(l->px, fd, l->kind, NULL);
            continue;
        }
        if (errno == ECONNABORTED || errno == EINTR)
            continue;
        if (errno != EAGAIN) {
            loop_watch(l->px->loop, io, 0);
            loop_timer_set(l->px->loop, &l->pause, PAUSE_MS);
        }
        return;
    }
}

static int set_nonblocking(int fd, struct err *err)
{
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0)
        return err_sys(err, "make a socket non-blocking");
    return 0;
}

int listener_add(struct proxy *px, int fd, uint32_t kind, struct err *err)
{
    cleanup_fd int owned = fd;
    if (kind >= LISTENER_KIND_COUNT)
        return err_set(err, ERR_PROTOCOL, "a listener of unknown kind %u", kind);
    if (set_nonblocking(fd, err) < 0)
        return err_number(err);
    if (kind == LISTENER_DNS_UDP)
        return dns_udp_add(px, fd_steal(&owned), err);
    struct listener *l = calloc(1, sizeof *l);
    if (!l)
        return err_memory(err);
    *l = (struct listener){.io = {.fd = fd, .fn = on_listener},
                           .pause.fn = on_pause_over,
                           .px = px,
                           .kind = (enum channel_listener)kind};
    int r = loop_watch(px->loop, &l->io, EPOLLIN);
    if (r < 0) {
        free(l);
        errno = -r;
        return err_sys(err, "watch a listener");
    }
    fd_steal(&owned);
    return 0;
}

/* ---- single connections ---- */

static int parse_asked(const char *text, struct sockaddr_storage *ret)
{
    const char *blank = strchr(text, ' ');
    uint16_t port;
    char address[INET6_ADDRSTRLEN];
    if (!blank || (size_t)(blank - text) >= sizeof address ||
        port_parse(blank + 1, strlen(blank + 1), &port) < 0)
        return -EINVAL;
    memcpy(address, text, (size_t)(blank - text));
    address[blank - text] = '\0';
    struct sockaddr_in *v4 = (struct sockaddr_in *)ret;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)ret;
    memset(ret, 0, sizeof *ret);
    if (inet_pton(AF_INET, address, &v4->sin_addr) == 1) {
        v4->sin_family = AF_INET;
        v4->sin_port = htons(port);
        return 0;
    }
    if (inet_pton(AF_INET6, address, &v6->sin6_addr) != 1)
        return -EINVAL;
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(port);
    return 0;
}

int connection_add(struct proxy *px, int fd, uint32_t kind, const char *asked, struct err *err)
{
    cleanup_fd int owned = fd;
    struct sockaddr_storage sa;
    if (kind >= LISTENER_KIND_COUNT || kind == LISTENER_DNS_UDP || parse_asked(asked, &sa) < 0)
        return err_set(err, ERR_PROTOCOL, "a connection that leads nowhere");
    if (set_nonblocking(fd, err) < 0)
        return err_number(err);
    start(px, fd_steal(&owned), (enum channel_listener)kind, &sa);
    return 0;
}

int connection_refused(struct proxy *px, const char *asked, struct err *err)
{
    struct sockaddr_storage sa;
    struct target t = {0};
    struct verdict v;
    if (parse_asked(asked, &sa) < 0)
        return err_set(err, ERR_PROTOCOL, "a connection that leads nowhere");
    unmap(&sa);
    if (host_of(px, &sa, &t.host) < 0)
        return 0;
    t.port = port_of(&sa);
    t.scheme = t.port == 80 ? SCHEME_HTTP : t.port == 443 ? SCHEME_HTTPS : SCHEME_TCP;
    egress_decide(&px->rules->egress, &t, &v);
    /* Allowed since, for a port that had no listener when the run began. */
    struct event ev = {.entry = ENTRY_TRANSPARENT,
                       .target = &t,
                       .reason = v.allow ? DENY_PORT : v.reason,
                       .rule = v.rule,
                       .hint = v.allow ? "use the proxy variables, or start the run anew" : v.hint};
    event_send(px, &ev);
    return 0;
}
