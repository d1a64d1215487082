/* A client of the daemon that measures: create a sandbox, run print(1) in it, stop the clock at the
 * first byte of its output, remove the sandbox. Prints one line per round: microseconds from create
 * to first byte, and of the create alone.
 *
 *   claim ADDRESS:PORT KEY TEMPLATE CLIENTS ROUNDS [hold|idle|MS|~MS]
 *
 *   hold   keep the sandboxes, print their ids, wait for stdin
 *   idle   the same without running anything in them
 *   MS     all clients begin each round at the same moment, MS milliseconds after the last one has
 *          ended its round before: a burst that finds the pool full
 *   ~MS    each client thinks for MS milliseconds on average between two rounds, by itself */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static const char *key, *template;
static struct sockaddr_in place;
static int rounds;
static bool hold, idle;
static unsigned pause_ms, think_ms;
static pthread_barrier_t together;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

struct peer {
    int fd;
    char in[1 << 16];
    size_t len;
};

static uint64_t now_us(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000u + (uint64_t)ts.tv_nsec / 1000u;
}

static void fail(const char *what)
{
    fprintf(stderr, "claim: %s: %s\n", what, strerror(errno));
    exit(1);
}

static void dial(struct peer *p)
{
    int on = 1;
    p->len = 0;
    p->fd = socket(AF_INET, SOCK_STREAM, 0);
    if (p->fd < 0 || connect(p->fd, (struct sockaddr *)&place, sizeof place) < 0)
        fail("connect");
    setsockopt(p->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

static void ask(struct peer *p, const char *method, const char *path, const char *more,
                const char *body)
{
    char text[4096];
    int len = snprintf(
        text, sizeof text,
        "%s %s HTTP/1.1\r\nHost: 127.0.0.1\r\nX-API-KEY: %s\r\n%sContent-Type: application/json\r\n"
        "Content-Length: %zu\r\n\r\n%s",
        method, path, key, more, strlen(body), body);
    if (send(p->fd, text, (size_t)len, MSG_NOSIGNAL) != len)
        fail("send");
    p->len = 0;
    p->in[0] = '\0';
}

static void more(struct peer *p)
{
    ssize_t n = recv(p->fd, p->in + p->len, sizeof p->in - 1 - p->len, 0);
    if (n <= 0)
        fail("receive");
    p->len += (size_t)n;
    p->in[p->len] = '\0';
}

/* Until the answer is whole. */
static void whole(struct peer *p)
{
    for (;; more(p)) {
        char *end = strstr(p->in, "\r\n\r\n"), *length = strcasestr(p->in, "\r\ncontent-length:");
        if (!end)
            continue;
        if (length && length < end) {
            if ((size_t)(end + 4 - p->in) + strtoul(length + 17, NULL, 10) <= p->len)
                return;
        } else if (strncmp(p->in + 9, "204", 3) == 0 || strstr(end, "\r\n0\r\n\r\n")) {
            return;
        }
    }
}

static void field(const char *text, const char *name, char *ret, size_t size)
{
    char wanted[64];
    snprintf(wanted, sizeof wanted, "\"%s\":\"", name);
    const char *at = strstr(text, wanted);
    size_t len = at ? strcspn(at + strlen(wanted), "\"") : 0;
    snprintf(ret, size, "%.*s", (int)len, at ? at + strlen(wanted) : "");
}

static void round_once(struct peer *p)
{
    char body[256], id[64], token[128], headers[512], path[128];
    snprintf(body, sizeof body, "{\"templateID\":\"%s\",\"timeout\":600}", template);
    uint64_t start = now_us();
    ask(p, "POST", "/sandboxes", "", body);
    whole(p);
    uint64_t made = now_us();
    if (strncmp(p->in + 9, "201", 3) != 0) {
        fprintf(stderr, "claim: %.300s\n", p->in);
        exit(1);
    }
    field(p->in, "sandboxID", id, sizeof id);
    if (idle) {
        pthread_mutex_lock(&lock);
        printf("0 %llu %s\n", (unsigned long long)(made - start), id);
        fflush(stdout);
        pthread_mutex_unlock(&lock);
        return;
    }
    field(p->in, "envdAccessToken", token, sizeof token);
    snprintf(headers, sizeof headers,
             "E2b-Sandbox-Id: %s\r\nE2b-Sandbox-Port: 49999\r\nX-Access-Token: %s\r\n", id, token);
    /* In this template a module of QuickJS has the same words. */
    ask(p, "POST", "/execute", headers,
        strcmp(template, "module") == 0 ? "{\"code\":\"print(1)\",\"language\":\"javascript\"}"
                                        : "{\"code\":\"print(1)\"}");
    while (!strstr(p->in, "\"stdout\""))
        more(p);
    uint64_t first = now_us();
    whole(p);
    pthread_mutex_lock(&lock);
    printf("%llu %llu %s\n", (unsigned long long)(first - start),
           (unsigned long long)(made - start), id);
    if (hold)
        fflush(stdout);
    pthread_mutex_unlock(&lock);
    if (hold)
        return;
    if (pause_ms) /* nobody's removal is in the way of somebody's first output */
        pthread_barrier_wait(&together);
    snprintf(path, sizeof path, "/sandboxes/%s", id);
    ask(p, "DELETE", path, "", "");
    whole(p);
}

static void *client(void *number)
{
    unsigned short seed[3] = {(unsigned short)(uintptr_t)number, 7, 42};
    struct peer *p = calloc(1, sizeof *p);
    dial(p);
    for (int i = 0; i < rounds; i++) {
        if (pause_ms) {
            pthread_barrier_wait(&together);
            usleep(pause_ms * 1000);
            pthread_barrier_wait(&together);
        }
        if (think_ms)
            usleep((useconds_t)((double)think_ms * 2000 * erand48(seed)));
        round_once(p);
    }
    close(p->fd);
    free(p);
    return NULL;
}

int main(int argc, char **argv)
{
    if (argc < 6)
        return 2;
    char *colon = strrchr(argv[1], ':');
    if (!colon)
        return 2;
    *colon = '\0';
    place.sin_family = AF_INET;
    place.sin_port = htons((uint16_t)strtoul(colon + 1, NULL, 10));
    inet_pton(AF_INET, argv[1], &place.sin_addr);
    key = argv[2];
    template = argv[3];
    int clients = (int)strtol(argv[4], NULL, 10);
    rounds = (int)strtol(argv[5], NULL, 10);
    idle = argc > 6 && strcmp(argv[6], "idle") == 0;
    hold = idle || (argc > 6 && strcmp(argv[6], "hold") == 0);
    pause_ms = argc > 6 ? (unsigned)strtoul(argv[6], NULL, 10) : 0;
    think_ms = argc > 6 && argv[6][0] == '~' ? (unsigned)strtoul(argv[6] + 1, NULL, 10) : 0;
    pthread_barrier_init(&together, NULL, (unsigned)clients);
    pthread_t *threads = calloc((size_t)clients, sizeof *threads);
    for (int i = 0; i < clients; i++)
        if (pthread_create(&threads[i], NULL, client, (void *)(uintptr_t)i))
            fail("thread");
    for (int i = 0; i < clients; i++)
        pthread_join(threads[i], NULL);
    fflush(stdout);
    char byte;
    if (hold && read(0, &byte, 1) < 0)
        fail("read");
    return 0;
}
