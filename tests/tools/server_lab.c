/* The daemon's HTTP server with handlers that only exercise it, for
 * tests/integration/test_server.py and tests/bench/http: server_lab PORT|/unix/path [connections
 * [per_peer [head_ms [idle_ms]]]]. Prints the port when it listens. */
#include "base/cleanup.h"
#include "base/container.h"
#include "base/num.h"
#include "daemon/server/connection.h"
#include "http/query.h"
#include "os/rights.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/un.h>

static struct loop *loop;
static struct server *server;
static unsigned gone_count, done_bad;
static const struct key one_key = {.id = "k_lab"};
static const struct key boss_key = {.id = "k_boss", .operator_key = true};
static char big[4u << 20];

static struct query parameters(const struct exchange *x)
{
    struct query q = {0};
    const char *text = strchr(exchange_request(x)->target, '?');
    if (text)
        query_parse(text + 1, strlen(text + 1), &q, NULL);
    return q;
}

static uint64_t number(const struct exchange *x, const char *name, uint64_t otherwise)
{
    struct query q = parameters(x);
    const char *text = query_get(&q, name);
    uint64_t n = otherwise;
    if (text)
        num_parse_uint(text, &n, NULL);
    query_done(&q);
    return n;
}

/* ---- a whole body, collected as the daemon's handlers do it ---- */

struct echo {
    struct exchange *x;
    struct buf body;
};

static size_t on_echo(void *ctx, const char *data, size_t len)
{
    struct echo *e = ctx;
    buf_add(&e->body, data, len);
    return len;
}

static void on_echo_done(void *ctx, bool good)
{
    struct echo *e = ctx;
    if (good)
        exchange_reply(e->x, 200, "application/octet-stream", buf_text(&e->body), e->body.len);
    buf_done(&e->body);
    free(e);
}

static void serve_echo(struct exchange *x)
{
    struct echo *e = calloc(1, sizeof *e);
    e->x = x;
    buf_init(&e->body, 1u << 20);
    exchange_keep_body(x);
    exchange_read_stream(x, on_echo, on_echo_done, e);
}

/* ---- pieces, by a timer or as fast as they are taken ---- */

struct stream {
    struct exchange *x;
    struct loop_timer timer;
    uint64_t left, size, pause;
    char *data;
};

static void stream_free(struct stream *s)
{
    loop_timer_cancel(loop, &s->timer);
    free(s->data);
    free(s);
}

static void on_gone(void *ctx)
{
    gone_count++;
    stream_free(ctx);
}

static void stream_more(void *ctx)
{
    struct stream *s = ctx;
    while (s->left) {
        s->left--;
        bool more = exchange_write(s->x, s->data, s->size);
        if (!s->left)
            break;
        if (s->pause) {
            loop_timer_set(loop, &s->timer, s->pause);
            return;
        }
        if (!more)
            return;
    }
    exchange_end(s->x);
    stream_free(s);
}

static void on_stream_timer(struct loop_timer *t)
{
    stream_more(container_of(t, struct stream, timer));
}

static struct stream *stream_new(struct exchange *x, void (*writable)(void *))
{
    struct stream *s = calloc(1, sizeof *s);
    s->x = x;
    s->timer.fn = on_stream_timer;
    s->left = number(x, "n", 3);
    s->size = number(x, "size", 6);
    s->pause = number(x, "pause", 0);
    s->data = malloc(s->size + 1);
    memset(s->data, 'x', s->size);
    exchange_on(x, writable, on_gone, s);
    return s;
}

static void serve_stream(struct exchange *x)
{
    struct stream *s = stream_new(x, stream_more);
    bool known = number(x, "length", 0);
    exchange_begin(x, 200, "text/plain", known ? (int64_t)(s->left * s->size) : -1);
    stream_more(s);
}

static void serve_quiet(struct exchange *x)
{
    stream_new(x, NULL);
    exchange_begin(x, 200, "text/plain", -1);
}

/* ---- uploads ---- */

struct upload {
    struct exchange *x;
    uint64_t bytes, most, pause;
    struct loop_timer timer;
};

static void on_upload_timer(struct loop_timer *t)
{
    struct upload *u = container_of(t, struct upload, timer);
    exchange_body_resume(u->x);
}

static size_t on_upload(void *ctx, const char *data, size_t len)
{
    struct upload *u = ctx;
    (void)data;
    size_t n = u->most && len > u->most ? u->most : len;
    u->bytes += n;
    if (n < len)
        loop_timer_set(loop, &u->timer, u->pause);
    return n;
}

static void on_upload_done(void *ctx, bool good)
{
    struct upload *u = ctx;
    char text[32];
    snprintf(text, sizeof text, "%llu\n", (unsigned long long)u->bytes);
    loop_timer_cancel(loop, &u->timer);
    if (good)
        exchange_reply(u->x, 200, "text/plain", text, strlen(text));
    else
        done_bad++;
    free(u);
}

static void serve_upload(struct exchange *x)
{
    struct upload *u = calloc(1, sizeof *u);
    u->x = x;
    u->most = number(x, "most", 0);
    u->pause = number(x, "pause", 1);
    u->timer.fn = on_upload_timer;
    exchange_read_stream(x, on_upload, on_upload_done, u);
}

/* ---- late answers, by a handler that never heard of clients going away ---- */

struct late {
    struct exchange *x;
    struct loop_timer timer;
    struct late *next;
};

static struct late *lates; /* whose answer has not come yet, perhaps of a client that is gone */

static void late_free(struct late *l)
{
    struct late **at = &lates;
    while (*at != l)
        at = &(*at)->next;
    *at = l->next;
    loop_timer_cancel(loop, &l->timer);
    free(l);
}

static void on_late(struct loop_timer *t)
{
    struct late *l = container_of(t, struct late, timer);
    exchange_reply(l->x, 200, "text/plain", "late\n", 5);
    late_free(l);
}

static void serve_late(struct exchange *x)
{
    struct late *l = calloc(1, sizeof *l);
    l->x = x;
    l->next = lates;
    lates = l;
    l->timer.fn = on_late;
    loop_timer_set(loop, &l->timer, number(x, "pause", 50));
}

/* ---- a tunnel: everything in capitals ---- */

struct tunnel {
    struct loop_io io;
    struct seat seat;
};

static void on_tunnel(struct loop_io *io, uint32_t events)
{
    (void)events;
    char data[4096];
    ssize_t n = read(io->fd, data, sizeof data);
    if (n > 0) {
        for (ssize_t i = 0; i < n; i++)
            if (data[i] >= 'a' && data[i] <= 'z')
                data[i] = (char)(data[i] - 32);
        if (write(io->fd, data, (size_t)n) == n)
            return;
    }
    if (n < 0 && errno == EAGAIN)
        return;
    loop_forget(loop, io);
    close(io->fd);
    seat_leave(&container_of(io, struct tunnel, io)->seat);
    free(container_of(io, struct tunnel, io));
}

static void serve_tunnel(struct exchange *x)
{
    struct buf rest cleanup_buf;
    buf_init(&rest, 65536);
    struct seat seat;
    int fd = exchange_tunnel(x, &rest, &seat);
    if (fd < 0)
        return;
    struct tunnel *t = calloc(1, sizeof *t);
    t->seat = seat;
    t->io = (struct loop_io){.fd = fd, .fn = on_tunnel};
    const char head[] = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n\r\n";
    if (write(fd, head, sizeof head - 1) < 0 || write(fd, buf_text(&rest), rest.len) < 0)
        fputs("tunnel\n", stderr);
    loop_watch(loop, &t->io, EPOLLIN);
}

/* ---- numbers ---- */

static long resident_kb(void)
{
    long pages = 0;
    FILE *f = fopen("/proc/self/statm", "re");
    if (f) {
        if (fscanf(f, "%*s %ld", &pages) != 1)
            pages = 0;
        fclose(f);
    }
    return pages * 4;
}

static void serve_stats(struct exchange *x)
{
    const struct server_stats *st = server_stats(server);
    char text[512];
    int n =
        snprintf(text, sizeof text,
                 "{\"connections\":%u,\"gone\":%u,\"done_bad\":%u,\"rss_kb\":%ld,\"accepted\":%llu,"
                 "\"requests\":%llu,\"no_room\":%llu,\"malformed\":%llu,\"foreign\":%llu,"
                 "\"no_key\":%llu,\"timed_out\":%llu,\"evicted\":%llu}\n",
                 server_connections(server), gone_count, done_bad, resident_kb(),
                 (unsigned long long)st->accepted, (unsigned long long)st->requests,
                 (unsigned long long)st->no_room, (unsigned long long)st->malformed,
                 (unsigned long long)st->foreign, (unsigned long long)st->no_key,
                 (unsigned long long)st->timed_out, (unsigned long long)st->evicted);
    exchange_reply(x, 200, "application/json", text, (size_t)n);
}

static void serve_fail(struct exchange *x)
{
    exchange_set_style(x, (enum error_style)number(x, "style", 0));
    if (number(x, "begin", 0)) {
        exchange_begin(x, 200, "application/connect+json", -1);
        exchange_write(x, "first", 5);
    }
    exchange_fail(x, (int)number(x, "status", 500), "it \"failed\"");
}

static void serve_path(struct exchange *x)
{
    struct buf out cleanup_buf;
    buf_init(&out, 65536);
    buf_fmt(&out, "%s\n", exchange_path(x));
    struct query q = parameters(x);
    for (size_t i = 0; i < q.count; i++)
        buf_fmt(&out, "%s=%s\n", q.pairs[i].name, q.pairs[i].value);
    query_done(&q);
    exchange_add_header(x, "X-Good", "yes");
    exchange_add_header(x, "X-Bad", "a\r\nX-Injected: 1");
    exchange_reply(x, 200, "text/plain", buf_text(&out), out.len);
}

static void serve(void *ctx, struct exchange *x)
{
    (void)ctx;
    const char *path = exchange_path(x);
    if (!strcmp(path, "/hello") || !strcmp(path, "/health"))
        exchange_reply(x, 200, "text/plain", "hello\n", 6);
    else if (!strcmp(path, "/big"))
        exchange_reply(x, 200, "text/plain", big, sizeof big);
    else if (!strcmp(path, "/echo"))
        serve_echo(x);
    else if (!strcmp(path, "/stream"))
        serve_stream(x);
    else if (!strcmp(path, "/quiet"))
        serve_quiet(x);
    else if (!strcmp(path, "/upload"))
        serve_upload(x);
    else if (!strcmp(path, "/late"))
        serve_late(x);
    else if (!strcmp(path, "/tunnel"))
        serve_tunnel(x);
    else if (!strcmp(path, "/stats"))
        serve_stats(x);
    else if (!strcmp(path, "/fail"))
        serve_fail(x);
    else if (!strncmp(path, "/path/", 6))
        serve_path(x);
    else
        exchange_fail(x, path[0] ? 404 : 400, "no such thing");
}

static int authenticate(void *ctx, const struct http_request *r, struct auth *ret, int *ret_status)
{
    (void)ctx;
    const char *key = http_header_get(&r->headers, "X-API-KEY");
    if (!strcmp(r->target, "/health")) {
        ret->anonymous = true;
        return 0;
    }
    if (key && !strcmp(key, "boss")) {
        ret->key = &boss_key;
        return 0;
    }
    if (!key || strcmp(key, "secret") != 0) {
        *ret_status = key && !strcmp(key, "other") ? 403 : 401;
        return -1;
    }
    ret->key = &one_key;
    return 0;
}

static int listen_at(const char *where)
{
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    uint64_t port = 0;
    if (where[0] == '/') {
        snprintf(un.sun_path, sizeof un.sun_path, "%s", where);
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        socket_take_no_rights(fd);
        return bind(fd, (struct sockaddr *)&un, sizeof un) < 0 || listen(fd, 1024) < 0 ? -1 : fd;
    }
    num_parse_uint(where, &port, NULL);
    struct sockaddr_in in = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof in;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int));
    if (bind(fd, (struct sockaddr *)&in, sizeof in) < 0 || listen(fd, 1024) < 0)
        return -1;
    getsockname(fd, (struct sockaddr *)&in, &len);
    printf("%d\n", ntohs(in.sin_port));
    fflush(stdout);
    return fd;
}

static void on_drained(void *ctx)
{
    (void)ctx;
    loop_stop(loop);
}

/* SIGTERM drains: the leak check of the sanitizer then sees all that is left. */
static void on_signal(struct loop_io *io, uint32_t events)
{
    (void)events;
    loop_forget(loop, io);
    server_drain(server, on_drained, NULL);
}

int main(int argc, char **argv)
{
    struct err err = ERR_INIT;
    struct server_limits limits = {0};
    uint64_t n[4] = {0};
    if (argc < 2)
        return 2;
    for (int i = 0; i < 4 && i + 2 < argc; i++)
        num_parse_uint(argv[i + 2], &n[i], NULL);
    limits.connections = (unsigned)n[0];
    limits.connections_per_peer = (unsigned)n[1];
    limits.head_timeout_ms = n[2];
    limits.idle_timeout_ms = n[3];
    signal(SIGPIPE, SIG_IGN);
    memset(big, 'b', sizeof big);
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigprocmask(SIG_BLOCK, &set, NULL);
    struct loop_io sig = {.fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK), .fn = on_signal};
    int fd = listen_at(argv[1]);
    if (fd < 0 || loop_new(&loop, &err) < 0 ||
        server_new(&server, loop, &limits, authenticate, serve, NULL, &err) < 0 ||
        server_listen(server, fd, argv[1][0] == '/', &err) < 0 ||
        server_allow_host(server, "brig.example", &err) < 0 ||
        server_allow_host(server, ".boxes.example", &err) < 0) {
        fprintf(stderr, "server_lab: %s\n", err.message);
        return 1;
    }
    loop_watch(loop, &sig, EPOLLIN);
    loop_run(loop);
    /* The end does not wait for answers that nobody would read. */
    while (lates)
        late_free(lates);
    server_free(server);
    loop_free(loop);
    close(sig.fd);
    return 0;
}
