/* Requests by several routes to the same server, taking turns, so that what else the machine does
 * hits each of them alike.
 *
 *   fetch latency ROUNDS WARM-UP PATH   one kept connection per route: name, minimum, median, p99
 * (µs), connections that had to be made, failures fetch first ROUNDS WARM-UP PATH     a new
 * connection each time: name, minimum, median, p99 (µs), 0, failures fetch load ROUNDS 0 PATH one
 * download each time: name, median (MB/s), bytes, failures fetch many ROUNDS COUNT PATH COUNT plain
 * connections at once, one request on each: name, milliseconds for all (median), p99 of one (ms),
 * failures
 *
 * Routes come on stdin, one per line, separated by tabs: NAME PORT FORM AUTHORITY SNI CAFILE. PORT
 * is where on 127.0.0.1 to connect; FORM is direct, absolute (GET http://AUTHORITY/…) or connect
 * (CONNECT AUTHORITY). SNI
 * "-": without TLS; "%d" in it or in AUTHORITY is the number of the connection. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <openssl/ssl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define ROUTES_MAX 32
#define PIECE      (256u * 1024)

enum form { DIRECT, ABSOLUTE, CONNECT };

struct route {
    char *name, *authority, *sni; /* sni NULL: plain */
    uint16_t port;
    enum form form;
    SSL_CTX *ctx;
    int fd;
    SSL *ssl;
    unsigned made, failed, count;
    double *took;
    double bytes;
};

static struct route routes[ROUTES_MAX];
static size_t route_count;
static const char *path;
static char piece[PIECE];

static void die(const char *what)
{
    perror(what);
    exit(1);
}

static double now_us(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec * 1e6 + (double)ts.tv_nsec / 1e3;
}

/* ---- routes ---- */

static SSL_CTX *trust(const char *file)
{
    SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
    if (SSL_CTX_load_verify_locations(ctx, file, NULL) != 1)
        die(file);
    SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, NULL);
    SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
    static const uint8_t alpn[] = "\x08http/1.1";
    SSL_CTX_set_alpn_protos(ctx, alpn, sizeof alpn - 1);
    return ctx;
}

static void read_route(char *line)
{
    char *word[6];
    line[strcspn(line, "\n")] = '\0';
    for (int i = 0; i < 6; i++)
        if (!(word[i] = strsep(&line, "\t")))
            die("a route has six parts");
    struct route *r = &routes[route_count++];
    *r = (struct route){.name = strdup(word[0]), .authority = strdup(word[3]), .fd = -1};
    r->port = (uint16_t)strtoul(word[1], NULL, 10);
    r->form = word[2][0] == 'd' ? DIRECT : word[2][0] == 'a' ? ABSOLUTE : CONNECT;
    if (strcmp(word[4], "-") != 0) {
        r->sni = strdup(word[4]);
        r->ctx = trust(word[5]);
    }
}

static const char *numbered(const char *text, unsigned n, char out[256])
{
    const char *at = strstr(text, "%d");
    if (!at)
        return text;
    snprintf(out, 256, "%.*s%u%s", (int)(at - text), text, n, at + 2);
    return out;
}

/* ---- one connection ---- */

static int dial(uint16_t port, int flags)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port)};
    int one = 1, fd = socket(AF_INET, SOCK_STREAM | flags, 0);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    struct timeval limit = {.tv_sec = 20};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    if (fd < 0 || (connect(fd, (struct sockaddr *)&to, sizeof to) < 0 && errno != EINPROGRESS)) {
        close(fd);
        return -1;
    }
    return fd;
}

static void hang_up(struct route *r)
{
    SSL_free(r->ssl);
    if (r->fd >= 0)
        close(r->fd);
    r->ssl = NULL;
    r->fd = -1;
}

static ssize_t get(struct route *r, void *data, size_t len)
{
    return r->ssl ? SSL_read(r->ssl, data, (int)len) : recv(r->fd, data, len, 0);
}

static bool put(struct route *r, const char *data, size_t len)
{
    return r->ssl ? SSL_write(r->ssl, data, (int)len) == (int)len
                  : send(r->fd, data, len, MSG_NOSIGNAL) == (ssize_t)len;
}

/* Reads a head and says how much of the body came with it; -1: none came. */
static ssize_t read_head(struct route *r, size_t *ret_have, double *ret_length, bool *ret_close)
{
    size_t len = 0;
    char *end;
    do {
        ssize_t n = get(r, piece + len, sizeof piece - 1 - len);
        if (n <= 0)
            return -1;
        len += (size_t)n;
        piece[len] = '\0';
    } while (!(end = strstr(piece, "\r\n\r\n")));
    *end = '\0';
    const char *length = strcasestr(piece, "\r\ncontent-length:");
    *ret_length = length ? strtod(length + 17, NULL) : 0;
    *ret_close = strcasestr(piece, "connection: close") || strncmp(piece, "HTTP/1.0", 8) == 0;
    *ret_have = len - (size_t)(end + 4 - piece);
    return strtol(piece + 9, NULL, 10);
}

static bool pick_up(struct route *r)
{
    char text[600], a[256], b[256];
    size_t have;
    double length;
    bool close;
    unsigned n = r->count++;
    r->made++;
    if ((r->fd = dial(r->port, 0)) < 0)
        return false;
    if (r->form == CONNECT) {
        const char *authority = numbered(r->authority, n, a);
        int len = snprintf(text, sizeof text, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", authority,
                           authority);
        if (!put(r, text, (size_t)len) || read_head(r, &have, &length, &close) != 200)
            return false;
    }
    if (!r->sni)
        return true;
    const char *sni = numbered(r->sni, n, b);
    SSL *ssl = SSL_new(r->ctx);
    SSL_set_fd(ssl, r->fd);
    SSL_set_tlsext_host_name(ssl, sni);
    SSL_set1_host(ssl, sni);
    if (SSL_connect(ssl) != 1) {
        SSL_free(ssl);
        return false;
    }
    r->ssl = ssl;
    return true;
}

static size_t request_text(const struct route *r, char out[1024])
{
    char a[256], host[256];
    unsigned n = r->count ? r->count - 1 : 0;
    const char *authority = numbered(r->authority, n, a);
    snprintf(host, sizeof host, "%s", authority);
    if (r->sni) { /* what the certificate names, with the port of the route */
        char name[256];
        snprintf(host, sizeof host, "%s%s", numbered(r->sni, n, name), strchr(authority, ':'));
    }
    return (size_t)snprintf(
        out, 1024, "GET %s%s%s HTTP/1.1\r\nHost: %s\r\nUser-Agent: bench\r\nAccept: */*\r\n\r\n",
        r->form == ABSOLUTE ? "http://" : "", r->form == ABSOLUTE ? authority : "", path, host);
}

/* One request and all of its answer. */
static bool fetch(struct route *r)
{
    char text[1024];
    size_t have;
    double length;
    bool close;
    size_t len = request_text(r, text);
    if (!put(r, text, len) || read_head(r, &have, &length, &close) != 200)
        return false;
    double left = length - (double)have;
    while (left > 0) {
        ssize_t n = get(r, piece, sizeof piece);
        if (n <= 0)
            return false;
        left -= (double)n;
    }
    r->bytes = length;
    if (close)
        hang_up(r);
    return true;
}

/* ---- statistics ---- */

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double at(double *values, size_t count, double part)
{
    if (count == 0)
        return 0;
    qsort(values, count, sizeof *values, by_value);
    size_t i = (size_t)(part * (double)(count - 1) + 0.5);
    return values[i];
}

/* ---- modes ---- */

/* A new order for each round: nobody always comes after the same neighbour. */
static void shuffle(size_t order[ROUTES_MAX])
{
    for (size_t i = 0; i < route_count; i++) {
        size_t j = (size_t)random() % (i + 1);
        order[i] = order[j];
        order[j] = i;
    }
}

/* Has the other side ended the connection without a word? */
static bool is_over(const struct route *r)
{
    char c;
    return r->fd < 0 || (!r->ssl && recv(r->fd, &c, 1, MSG_PEEK | MSG_DONTWAIT) == 0);
}

static bool timed(struct route *r, bool fresh, double *ret)
{
    bool kept = !fresh && !is_over(r);
    if (!kept)
        hang_up(r);
    double start = now_us();
    bool ok = kept || pick_up(r);
    ok = ok && fetch(r);
    *ret = now_us() - start;
    if (!ok || fresh)
        hang_up(r);
    return ok;
}

static void take_turns(unsigned rounds, unsigned warm, bool fresh)
{
    for (size_t i = 0; i < route_count; i++)
        routes[i].took = calloc(rounds, sizeof(double));
    size_t good[ROUTES_MAX] = {0};
    size_t order[ROUTES_MAX];
    for (unsigned round = 0; round < rounds + warm; round++) {
        shuffle(order);
        for (size_t k = 0; k < route_count; k++) {
            size_t i = order[k];
            struct route *r = &routes[i];
            double took;
            if (round == warm)
                r->made = 0;
            bool ok = timed(r, fresh, &took);
            if (round < warm)
                continue;
            if (ok)
                r->took[good[i]++] = took;
            else
                r->failed++;
        }
    }
    for (size_t i = 0; i < route_count; i++) {
        struct route *r = &routes[i];
        printf("%s\t%.1f\t%.1f\t%.1f\t%u\t%u\n", r->name, at(r->took, good[i], 0),
               at(r->took, good[i], 0.5), at(r->took, good[i], 0.99), fresh ? 0 : r->made,
               r->failed);
    }
}

static void load(unsigned rounds)
{
    double rate[ROUTES_MAX][64];
    size_t good[ROUTES_MAX] = {0};
    for (unsigned round = 0; round < rounds && round < 64; round++)
        for (size_t i = 0; i < route_count; i++) {
            double took;
            if (timed(&routes[i], true, &took))
                rate[i][good[i]++] = routes[i].bytes / took;
            else
                routes[i].failed++;
        }
    for (size_t i = 0; i < route_count; i++)
        printf("%s\t%.1f\t%.0f\t%u\n", routes[i].name, at(rate[i], good[i], 0.5), routes[i].bytes,
               routes[i].failed);
}

/* ---- many at once ---- */

struct one {
    int fd;
    bool sent, head;
    double start;
};

static bool step(struct one *o, const char *text, size_t len, bool *ret_ended)
{
    if (!o->sent) {
        o->sent = true;
        return send(o->fd, text, len, MSG_NOSIGNAL) == (ssize_t)len;
    }
    ssize_t n = recv(o->fd, piece, sizeof piece - 1, 0);
    if (n <= 0)
        return n < 0 && errno == EAGAIN;
    piece[n] = '\0';
    /* Answers are a few bytes: what follows the head is all of it. */
    const char *end = o->head ? piece - 4 : strstr(piece, "\r\n\r\n");
    if (!o->head && strncmp(piece + 9, "200", 3) != 0)
        return false;
    o->head = end;
    *ret_ended = end && end + 4 < piece + n;
    return true;
}

static void many_once(struct route *r, unsigned count, double *ret_ms, double *each, unsigned *good)
{
    char text[1024];
    size_t len = request_text(r, text);
    struct one *all = calloc(count, sizeof *all);
    int epoll = epoll_create1(0);
    double start = now_us();
    unsigned left = count;
    for (unsigned i = 0; i < count; i++) {
        struct epoll_event ev = {.events = EPOLLIN | EPOLLOUT, .data.ptr = &all[i]};
        all[i] = (struct one){.fd = dial(r->port, SOCK_NONBLOCK), .start = now_us()};
        if (all[i].fd < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, all[i].fd, &ev) < 0)
            left--, r->failed++;
    }
    double limit = start + 30e6;
    while (left > 0 && now_us() < limit) {
        struct epoll_event ev[256];
        int n = epoll_wait(epoll, ev, 256, 1000);
        for (int i = 0; i < n; i++) {
            struct one *o = ev[i].data.ptr;
            bool ended = false, was_sent = o->sent;
            bool ok = step(o, text, len, &ended);
            if (ok && !was_sent)
                epoll_ctl(epoll, EPOLL_CTL_MOD, o->fd, &(struct epoll_event){EPOLLIN, {o}});
            if (ok && !ended)
                continue;
            if (ended)
                each[(*good)++] = now_us() - o->start;
            else
                r->failed++;
            epoll_ctl(epoll, EPOLL_CTL_DEL, o->fd, NULL);
            left--; /* but stays open: all of them are there at once */
        }
    }
    r->failed += left;
    *ret_ms = (now_us() - start) / 1e3;
    for (unsigned i = 0; i < count; i++)
        if (all[i].fd >= 0)
            close(all[i].fd);
    close(epoll);
    free(all);
}

static void many(unsigned rounds, unsigned count)
{
    double total[ROUTES_MAX][64];
    double *each[ROUTES_MAX];
    unsigned good[ROUTES_MAX] = {0};
    for (size_t i = 0; i < route_count; i++)
        each[i] = calloc((size_t)rounds * count, sizeof(double));
    for (unsigned round = 0; round < rounds && round < 64; round++)
        for (size_t i = 0; i < route_count; i++) {
            many_once(&routes[i], count, &total[i][round], each[i], &good[i]);
            usleep(200000); /* the closing of so many is nobody else's burden */
        }
    for (size_t i = 0; i < route_count; i++)
        printf("%s\t%.1f\t%.1f\t%u\n", routes[i].name, at(total[i], rounds, 0.5),
               at(each[i], good[i], 0.99) / 1e3, routes[i].failed);
}

int main(int argc, char **argv)
{
    char line[4096];
    if (argc != 5) {
        fputs("usage: fetch latency|first|load|many ROUNDS COUNT PATH <routes\n", stderr);
        return 2;
    }
    struct rlimit files;
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    signal(SIGPIPE, SIG_IGN);
    unsigned rounds = (unsigned)strtoul(argv[2], NULL, 10),
             count = (unsigned)strtoul(argv[3], NULL, 10);
    path = argv[4];
    while (route_count < ROUTES_MAX && fgets(line, sizeof line, stdin))
        read_route(line);
    if (strcmp(argv[1], "many") == 0)
        many(rounds, count);
    else if (strcmp(argv[1], "load") == 0)
        load(rounds);
    else
        take_turns(rounds, count, strcmp(argv[1], "first") == 0);
    return 0;
}
