/* The whole API, behind the key: what a tenant sends, and what its sandbox, its programs and its
 * interpreter say meanwhile. The sandboxes are doubles (tests/unit/daemon/world.h).
 *
 * The input is cut at each 0xff into acts; the first byte of one says whose it is, and a byte 1 in
 * it stands for the id of a sandbox. Whatever happens, each connection ends, nothing is freed
 * twice, and nothing stays behind. */
#include <stdlib.h>

static void require(int condition)
{
    if (!condition)
        abort();
}
#define cr_assert(condition, ...)  require(condition)
#define cr_assert_eq(a, b, ...)    require((a) == (b))
#define cr_assert_lt(a, b, ...)    require((a) < (b))
#define cr_assert_not_null(a, ...) require((a) != NULL)
#define cr_assert_fail(...)        abort()

#include "../unit/daemon/world.h"
#include "daemon/api/route.h"
#include "daemon/server/connection.h"

#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define ACTS_MAX 24

static struct {
    struct server *server;
    struct ward *ward;
    int client;
    char id[BOX_ID_LEN + 1];
} t;

static int anybody(void *ctx, const struct http_request *r, struct auth *ret, int *ret_status)
{
    (void)ctx, (void)r;
    *ret_status = 401;
    ret->key = http_header_get(&r->headers, "Boss") ? &boss : &owner;
    return 0;
}

static void drop_answers(void)
{
    char data[8192];
    while (t.client >= 0 && recv(t.client, data, sizeof data, MSG_DONTWAIT) > 0)
        ;
}

static void go_on(void)
{
    for (int i = 0; i < 3; i++) {
        struct loop_task end = {.fn = round_done};
        flush_waiting();
        loop_defer(w.loop, &end);
        require(loop_run(w.loop) == 0);
        drop_answers();
    }
}

static void hang_up(void)
{
    if (t.client >= 0)
        close(t.client);
    t.client = -1;
    go_on();
}

static void dial(void)
{
    static const struct caller self = {.local = true};
    int pair[2];
    require(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) == 0);
    connection_new(t.server, pair[0], true, caller_take(t.server, &self));
    t.client = pair[1];
}

static void say(int fd, const uint8_t *data, size_t len)
{
    if (fd < 0)
        return;
    int flags = fcntl(fd, F_GETFL);
    fcntl(fd, F_SETFL, flags | O_NONBLOCK);
    if (write(fd, data, len) < 0)
        return;
}

/* With the id where a 1 stands. */
static void request(const uint8_t *data, size_t len)
{
    if (t.client < 0)
        dial();
    for (size_t at = 0; at < len && t.client >= 0;) {
        size_t plain = 0;
        while (at + plain < len && data[at + plain] != 1)
            plain++;
        if (plain)
            (void)!send(t.client, data + at, plain, MSG_NOSIGNAL);
        at += plain;
        if (at < len)
            (void)!send(t.client, t.id, strlen(t.id), MSG_NOSIGNAL);
        at += at < len;
    }
}

static void act(const uint8_t *data, size_t len)
{
    static const int statuses[] = {0, 256, 9, 139};
    uint8_t more = len > 1 ? data[1] : 0;
    if (!len)
        return;
    switch (data[0]) {
    case 'o':
        say(w.out, data + 1, len - 1);
        break;
    case 'e':
        say(w.err, data + 1, len - 1);
        break;
    case 'i':
        say(w.channel, data + 1, len - 1);
        break;
    case 'O':
        set_end(&w.out, -1);
        break;
    case 'E':
        set_end(&w.err, -1);
        break;
    case 'I':
        set_end(&w.channel, -1);
        break;
    case 'N':
        set_end(&w.in, -1);
        break;
    case 'x': /* a program ended */
        if (t.ward->io.fd >= 0)
            ward_exited(t.ward, w.pid, statuses[more & 3]);
        break;
    case 'g': /* the sandbox did */
        ward_end(t.ward);
        break;
    case 't':
        w.now += more * 997u;
        break;
    case 'h':
        hang_up();
        break;
    default:
        request(data + 1, len - 1);
    }
    go_on();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct core_config config = {.max_boxes = 4};
    struct err err = ERR_INIT;
    world_begin_with(&config, "[" BASE "]");
    struct box *b = make_box();
    t.ward = ward_of(b);
    t.client = -1;
    snprintf(t.id, sizeof t.id, "%s", box_info(b)->id);
    require(server_new(&t.server, w.loop, NULL, anybody, api_serve, w.core, &err) == 0);
    int acts = 0;
    for (size_t at = 0; at < size && acts < ACTS_MAX; acts++) {
        const uint8_t *end = memchr(data + at, 0xff, size - at);
        size_t len = end ? (size_t)(end - data) - at : size - at;
        act(data + at, len);
        at += len + 1;
    }
    hang_up();
    pass(1000);
    server_free(t.server);
    world_end();
    return 0;
}
