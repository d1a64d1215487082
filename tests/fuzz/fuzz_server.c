/* The server as a whole: the first byte says in how large pieces the rest arrives, and how the
 * client leaves. Whatever it is, every handler is told how it ended, and nothing stays behind. */
#include "daemon/server/connection.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct loop *loop;
static unsigned open_states;

/* Something that a handler has under way; goes on once in each round. */
struct state {
    struct state *next, **at;
    struct exchange *x;
    char kind;
    unsigned left;
};
static struct state *states;

static struct state *state_new(struct exchange *x, char kind)
{
    struct state *s = calloc(1, sizeof *s);
    if (!s)
        abort();
    *s = (struct state){.x = x, .kind = kind, .left = 3, .next = states, .at = &states};
    if (s->next)
        s->next->at = &s->next;
    states = s;
    open_states++;
    return s;
}

static void state_free(struct state *s)
{
    *s->at = s->next;
    if (s->next)
        s->next->at = s->at;
    free(s);
    open_states--;
}

static void on_gone(void *ctx)
{
    state_free(ctx);
}

static size_t on_piece(void *ctx, const char *data, size_t len)
{
    struct state *s = ctx;
    (void)data;
    if (s->left % 2)
        return len;
    return len > 3 ? 3 : len;
}

static void on_done(void *ctx, bool good)
{
    struct state *s = ctx;
    if (good)
        exchange_reply(s->x, 200, "text/plain", "done", 4);
    state_free(s);
}

/* Whether the target asks for the other way of doing the same. */
static bool is_other(const struct exchange *x)
{
    return strstr(exchange_request(x)->target, "?n") != NULL;
}

static void serve(void *ctx, struct exchange *x)
{
    (void)ctx;
    const char *path = exchange_path(x);
    char kind = path[0] ? path[1] : 0;
    struct buf rest;
    struct seat seat;
    switch (kind) {
    case 'k': /* a body that is kept, and must come at a pace */
        exchange_keep_body(x);
        /* fall through */
    case 'u': {
        struct state *s = state_new(x, 'u');
        s->left = is_other(x) ? 2 : 3;
        exchange_read_stream(x, on_piece, on_done, s);
        return;
    }
    case 'w': /* pieces, to a client that may leave */
    case 'q': {
        struct state *s = state_new(x, kind);
        exchange_on(x, NULL, on_gone, s);
        exchange_begin(x, 200, "text/plain", is_other(x) ? 15 : -1);
        return;
    }
    case 'l': /* late, and never heard of clients that leave */
    case 'b': /* also in pieces */
        state_new(x, kind);
        return;
    case 't':
        buf_init(&rest, 65536);
        close(exchange_tunnel(x, &rest, &seat));
        seat_leave(&seat);
        buf_done(&rest);
        return;
    case 'x':
        exchange_abort(x);
        return;
    default:
        exchange_add_header(x, "X-Path", path);
        exchange_fail(x, 404, "nothing at %s", path);
    }
}

static void go_on(struct state *s)
{
    struct exchange *x = s->x;
    switch (s->kind) {
    case 'u':
        exchange_body_resume(x);
        return;
    case 'w':
        exchange_write(x, "12345", 5);
        if (--s->left)
            return;
        exchange_end(x);
        break;
    case 'l':
        if (--s->left)
            return;
        exchange_reply(x, 200, NULL, "late", 4);
        break;
    case 'b':
        if (s->left-- == 3)
            exchange_begin(x, 200, NULL, -1);
        exchange_write(x, "12345", 5);
        if (s->left)
            return;
        exchange_fail(x, 500, "in the middle");
        break;
    default:
        return;
    }
    state_free(s);
}

static int authenticate(void *ctx, const struct http_request *r, struct auth *ret, int *ret_status)
{
    static const struct key key = {.id = "k_fuzz"};
    (void)ctx;
    ret->key = &key;
    *ret_status = 401;
    return http_header_get(&r->headers, "No-Key") ? -1 : 0;
}

/* ---- rounds of the loop ---- */

static unsigned rounds;

static void on_round(struct loop_task *t)
{
    for (struct state *s = states, *next; s; s = next) {
        next = s->next;
        go_on(s);
    }
    if (--rounds)
        loop_defer(loop, t);
    else
        loop_stop(loop);
}

static void run(unsigned n)
{
    struct loop_task task = {.fn = on_round};
    rounds = n;
    loop_defer(loop, &task);
    loop_run(loop);
}

static void drop_answers(int fd)
{
    char data[4096];
    while (recv(fd, data, sizeof data, MSG_DONTWAIT) > 0)
        ;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct caller self = {.local = true};
    struct server *s;
    int pair[2];
    if (!size || loop_new(&loop, NULL) < 0 ||
        server_new(&s, loop, NULL, authenticate, serve, NULL, NULL) < 0 ||
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) < 0)
        return 0;
    size_t step = 1 + (data[0] & 0x3f) * 16;
    connection_new(s, pair[0], true, caller_take(s, &self));
    for (size_t at = 1; at < size; at += step) {
        size_t piece = size - at < step ? size - at : step;
        if (send(pair[1], data + at, piece, MSG_NOSIGNAL) < 0)
            break;
        run(2);
        if (!(data[0] & 0x80))
            drop_answers(pair[1]);
    }
    if (data[0] & 0x40)
        shutdown(pair[1], SHUT_WR);
    run(6);
    close(pair[1]);
    run(6);
    while (states && states->kind != 'u')
        run(1);
    if (server_connections(s) || open_states)
        abort();
    server_free(s);
    loop_free(loop);
    return 0;
}
