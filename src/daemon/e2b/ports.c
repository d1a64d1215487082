/* A user's own port: one request of a client becomes one request on one connection inside.
 *
 * Both ways are parsed and written anew. That keeps a client's connection ours: the next request on
 * it is checked like the first, and its key never reaches a sandbox. Only after "101 Switching
 * Protocols" to a WebSocket the two sockets are joined for good (tunnel.c).
 *
 * What comes from inside is hostile: bounded, strict, and it can at most end its own exchange. */
#include "daemon/e2b/ports.h"

#include "base/api_key.h"
#include "base/container.h"
#include "daemon/api/activity.h"
#include "daemon/e2b/tunnel.h"
#include "http/chunk.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define UP_MAX    (256u * 1024) /* of the request, waiting for the sandbox to take it */
#define UP_LITTLE (16u * 1024)
#define READ_SIZE (64u * 1024)

struct relay {
    struct activity activity;
    struct loop_io io; /* the connection inside */
    struct buf up;     /* to be sent in */
    size_t up_at;
    bool wants_upgrade, request_done, reading_body;
    struct buf down; /* what came out and is not understood yet: a head, or a piece of chunks */
    size_t scanned;
    struct http_response response;
    bool has_head, client_full;
    struct chunk_reader chunk;
    uint64_t left;
};

/* ---- the end ---- */

static void relay_stop(struct activity *a)
{
    loop_close(a->loop, &container_of(a, struct relay, activity)->io);
}

static void relay_done(struct activity *a)
{
    struct relay *r = container_of(a, struct relay, activity);
    if (r->has_head)
        http_response_done(&r->response);
    buf_done(&r->up);
    buf_done(&r->down);
}

/* Before the head of the answer is out a status can still be said. */
static void relay_fail(struct relay *r, const char *why)
{
    struct call *call = activity_end(&r->activity);
    if (r->has_head)
        call_abort(call);
    else
        call_fail(call, 502, "port %u of sandbox %s: %s", call->port, call->id, why);
}

static void relay_box_gone(struct activity *a)
{
    relay_fail(container_of(a, struct relay, activity), "the sandbox ended");
}

static void relay_finish(struct relay *r)
{
    call_end(activity_end(&r->activity));
}

/* ---- in: the request ---- */

static size_t up_waiting(const struct relay *r)
{
    return r->up.len - r->up_at;
}

static void watch(struct relay *r)
{
    if (!r->activity.ended)
        loop_watch(r->activity.loop, &r->io,
                   (up_waiting(r) ? EPOLLOUT : 0u) | (r->client_full ? 0u : EPOLLIN));
}

static void flush_up(struct relay *r)
{
    while (up_waiting(r)) {
        /* Whether it waits is not left to the descriptor: inside they can have it as well. */
        ssize_t n =
            send(r->io.fd, r->up.data + r->up_at, up_waiting(r), MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0) {
            /* A server may answer and close without reading all: its answer still counts. */
            if (errno != EAGAIN && errno != EINTR)
                r->up_at = r->up.len;
            break;
        }
        r->up_at += (size_t)n;
    }
    if (!up_waiting(r)) {
        if (r->up.size > UP_LITTLE)
            buf_release(&r->up);
        else
            buf_reset(&r->up);
        r->up_at = 0;
    }
    watch(r);
}

static size_t body_take(void *ctx, const char *data, size_t len)
{
    struct relay *r = ctx;
    bool chunked = exchange_request(r->activity.call->x)->body == BODY_CHUNKED;
    if (up_waiting(r) > UP_MAX / 2)
        return 0;
    if (len > UP_MAX / 4)
        len = UP_MAX / 4;
    /* With a slow reader the buffer never becomes empty, so drop the part that was sent. */
    if (r->up_at >= UP_MAX / 4) {
        buf_drop(&r->up, r->up_at);
        r->up_at = 0;
    }
    if (chunked)
        buf_fmt(&r->up, "%zx\r\n", len);
    buf_add(&r->up, data, len);
    if (chunked)
        buf_add(&r->up, "\r\n", 2);
    struct err err = ERR_INIT;
    if (r->up.failed) { /* half a chunk cannot be mended */
        if (hold_refusal(&r->activity.hold, &err) < 0)
            call_fail_err(activity_end(&r->activity), &err);
        else
            relay_fail(r, ERR_MEMORY_TEXT);
        return len;
    }
    flush_up(r);
    return len;
}

static void body_done(void *ctx, bool good)
{
    struct relay *r = ctx;
    struct call *call = r->activity.call;
    r->reading_body = false;
    if (!good) {
        activity_gone(&r->activity);
        return;
    }
    r->request_done = true;
    if (exchange_request(call->x)->body == BODY_CHUNKED)
        buf_str(&r->up, "0\r\n\r\n");
    call_watch(call);
    flush_up(r);
}

/* Headers for the daemon itself, and API keys: not for the program inside. */
static bool is_private(const struct http_header *h)
{
    if (!strncasecmp(h->name, "E2b-", 4) || !strcasecmp(h->name, "X-Access-Token"))
        return true;
    return (!strcasecmp(h->name, "X-API-Key") || !strcasecmp(h->name, "Authorization")) &&
           api_key_within(h->value);
}

bool mask_host_write(const char *mask, uint16_t port, char out[static MASK_HOST_SIZE])
{
    static const char mark[] = "${PORT}";
    struct buf text cleanup_buf;
    const char *at;
    buf_init(&text, MASK_HOST_SIZE - 1);
    while ((at = strstr(mask, mark))) {
        buf_add(&text, mask, (size_t)(at - mask));
        buf_fmt(&text, "%u", port);
        mask = at + sizeof(mark) - 1;
    }
    buf_str(&text, mask);
    if (text.failed || !text.len)
        return false;
    snprintf(out, MASK_HOST_SIZE, "%s", buf_text(&text));
    return true;
}

/* The service sees the Host that its owner wants it to see, and the other one beside it. */
static int mask_host(const struct relay *r, struct http_request *to, const char **host,
                     char mask[static MASK_HOST_SIZE], struct err *err)
{
    const struct box *b = activity_box(&r->activity);
    if (!b || !box_info(b)->mask_host[0] ||
        !mask_host_write(box_info(b)->mask_host, r->activity.call->port, mask))
        return 0;
    http_header_remove(&to->headers, "X-Forwarded-Host");
    int done = *host ? http_header_add(&to->headers, "X-Forwarded-Host", *host, err) : 0;
    *host = mask;
    return done;
}

static int write_request(struct relay *r, struct err *err)
{
    const struct http_request *from = exchange_request(r->activity.call->x);
    const char *host = http_header_get(&from->headers, "Host");
    char mask[MASK_HOST_SIZE];
    struct http_request to = {.target = from->target, .body = from->body, .length = from->length};
    memcpy(to.method, from->method, sizeof(to.method));
    for (size_t i = 0; i < from->headers.count; i++) {
        const struct http_header *h = &from->headers.items[i];
        if (!is_private(h) && http_header_add(&to.headers, h->name, h->value, err) < 0) {
            http_headers_done(&to.headers);
            return err_wrap(err, "header");
        }
    }
    http_strip_hop_by_hop(&to.headers);
    r->wants_upgrade =
        from->upgrade && !strcasecmp(from->upgrade, "websocket") && from->body == BODY_NONE;
    if (r->wants_upgrade)
        to.upgrade = from->upgrade;
    int done = mask_host(r, &to, &host, mask, err);
    if (done == 0)
        http_request_write(&to, host ? host : "localhost", &r->up);
    http_headers_done(&to.headers);
    return done;
}

/* ---- out: the answer ---- */

static bool is_framing(const char *name)
{
    static const char *const names[] = {"Content-Length", "Content-Type", "Date"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (!strcasecmp(name, names[i]))
            return true;
    return false;
}

static void pass_headers(struct relay *r)
{
    struct http_headers *h = &r->response.headers;
    http_strip_hop_by_hop(h);
    for (size_t i = 0; i < h->count; i++)
        if (!is_framing(h->items[i].name))
            exchange_add_header(r->activity.call->x, h->items[i].name, h->items[i].value);
}

static void begin_answer(struct relay *r)
{
    struct http_headers *h = &r->response.headers;
    const char *length = http_header_get(h, "Content-Length");
    int64_t size = r->response.body == BODY_LENGTH ? (int64_t)r->response.length
                   : r->response.body == BODY_NONE ? 0
                                                   : -1;
    /* An answer to HEAD says how long it would be. */
    if (r->response.body == BODY_NONE && length && strlen(length) < 19)
        size = strtoll(length, NULL, 10);
    pass_headers(r);
    exchange_begin(r->activity.call->x, r->response.status, http_header_get(h, "Content-Type"),
                   size);
    r->left = r->response.length;
    chunk_reader_init(&r->chunk);
}

static void answer_without_body(struct relay *r)
{
    int status = r->response.status;
    pass_headers(r);
    call_empty(activity_end(&r->activity), status);
}

static void join_sockets(struct relay *r)
{
    struct err err = ERR_INIT;
    struct activity *a = &r->activity;
    struct tunnel *t = tunnel_new(a->core, a->box, a->hold.account, &err);
    struct buf out[2]; /* to the client, to the sandbox */
    struct seat seat;
    if (!t) {
        call_fail_err(activity_end(a), &err);
        return;
    }
    buf_init(&out[0], READ_SIZE + HTTP_HEAD_MAX);
    buf_init(&out[1], READ_SIZE);
    http_response_write(&r->response, true, &out[0]);
    buf_add(&out[0], r->down.data, r->down.len);
    int fds[2] = {exchange_tunnel(a->call->x, &out[1], &seat), r->io.fd};
    loop_forget(a->loop, &r->io);
    r->io.fd = -1;
    call_ended(activity_end(a));
    tunnel_start(t, &seat, fds, out);
}

/* What the client gets of the body. False: it must be left alone from here on. */
static bool pass(struct relay *r, const char *data, size_t len)
{
    if (len && !exchange_write(r->activity.call->x, data, len)) {
        r->client_full = true;
        watch(r);
    }
    return !r->activity.ended;
}

static void body_length(struct relay *r, const char *data, size_t len)
{
    if (len > r->left)
        len = (size_t)r->left; /* what follows belongs to nobody */
    r->left -= len;
    if (pass(r, data, len) && !r->left)
        relay_finish(r);
}

static void body_chunks(struct relay *r, const char *data, size_t len)
{
    while (len && !r->chunk.done) {
        struct err err = ERR_INIT;
        const char *piece = NULL;
        size_t piece_len = 0;
        ssize_t n = chunk_read(&r->chunk, data, len, &piece, &piece_len, &err);
        if (n < 0) {
            relay_fail(r, err.message);
            return;
        }
        if (!pass(r, piece, piece_len))
            return;
        data += n;
        len -= (size_t)n;
    }
    if (r->chunk.done)
        relay_finish(r);
}

static void take_body(struct relay *r, const char *data, size_t len)
{
    switch (r->response.body) {
    case BODY_LENGTH:
        body_length(r, data, len);
        break;
    case BODY_CHUNKED:
        body_chunks(r, data, len);
        break;
    case BODY_UNTIL_CLOSE:
        pass(r, data, len);
        break;
    case BODY_NONE:
        break;
    }
}

static void on_head(struct relay *r)
{
    int status = r->response.status;
    r->has_head = true;
    if (status == 101 && r->wants_upgrade) {
        join_sockets(r);
    } else if (status == 101) {
        r->has_head = false;
        http_response_done(&r->response);
        relay_fail(r, "switched protocols without being asked");
    } else if (status == 204 || status == 304) {
        answer_without_body(r);
    } else {
        begin_answer(r);
        if (r->response.body == BODY_NONE || (r->response.body == BODY_LENGTH && !r->left))
            relay_finish(r);
        else if (r->down.len)
            take_body(r, r->down.data, r->down.len);
    }
}

static void take_head(struct relay *r)
{
    struct err err = ERR_INIT;
    while (!r->has_head && !r->activity.ended) {
        ssize_t n = http_head_scan(buf_text(&r->down), r->down.len, &r->scanned, &err);
        if (n == 0 && r->down.failed)
            n = -E2BIG;
        if (n == 0)
            return;
        if (n < 0 || http_response_parse(r->down.data, (size_t)n,
                                         exchange_request(r->activity.call->x)->method,
                                         &r->response, &err) < 0) {
            relay_fail(r, err.message);
            return;
        }
        buf_drop(&r->down, (size_t)n);
        r->scanned = 0;
        if (r->response.status < 200 && r->response.status != 101)
            http_response_done(&r->response); /* "go on", "more to come" */
        else
            on_head(r);
    }
}

static void on_end_of_stream(struct relay *r)
{
    if (r->has_head && r->response.body == BODY_UNTIL_CLOSE)
        relay_finish(r);
    else
        relay_fail(r, "the server closed the connection");
}

static void read_down(struct relay *r)
{
    char data[READ_SIZE];
    ssize_t n = recv(r->io.fd, data, sizeof(data), MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        on_end_of_stream(r);
    } else if (r->has_head) {
        take_body(r, data, (size_t)n);
    } else {
        buf_add(&r->down, data, (size_t)n);
        take_head(r);
    }
}

static void on_io(struct loop_io *io, uint32_t events)
{
    struct relay *r = container_of(io, struct relay, io);
    if (events & EPOLLOUT) {
        flush_up(r);
        if (r->reading_body && up_waiting(r) < UP_MAX / 2)
            exchange_body_resume(r->activity.call->x);
    }
    if (!r->activity.ended && (events & (EPOLLIN | EPOLLHUP | EPOLLERR)))
        read_down(r);
}

static void relay_writable(struct activity *a)
{
    struct relay *r = container_of(a, struct relay, activity);
    r->client_full = false;
    watch(r);
}

static const struct activity_ops relay_ops = {
    .stop = relay_stop, .done = relay_done, .writable = relay_writable, .box_gone = relay_box_gone};

/* ---- start ---- */

static void start_relay(struct call *call, struct box *b, int fd)
{
    struct err err = ERR_INIT;
    struct relay *r = activity_new(sizeof(*r), &relay_ops, call->core, box_account(b), &err);
    if (r)
        r->io = (struct loop_io){.fd = fd, .fn = on_io, .share = account_share(box_account(b))};
    else
        close(fd);
    if (!r || activity_charge(&r->activity, ACCOUNT_DESCRIPTORS, &err) < 0) {
        if (r)
            activity_end(&r->activity);
        call_fail_err(call, &err);
        return;
    }
    activity_buf(&r->activity, &r->up, UP_MAX + HTTP_HEAD_MAX);
    activity_buf(&r->activity, &r->down, HTTP_HEAD_MAX + READ_SIZE);
    activity_enter(&r->activity, b);
    activity_serve(&r->activity, call);
    if (write_request(r, &err) < 0 || r->up.failed) {
        if (r->up.failed)
            hold_refusal(&r->activity.hold, &err);
        relay_fail(r, err.message);
        return;
    }
    flush_up(r);
    if (exchange_request(call->x)->body == BODY_NONE) {
        r->request_done = true;
        return;
    }
    r->reading_body = true;
    call_unwatch(call); /* body_done says it */
    exchange_read_stream(call->x, body_take, body_done, r);
}

static void connected(void *ctx, int fd, const struct err *err)
{
    struct call *call = ctx;
    if (!call_back(call)) {
        if (fd >= 0)
            close(fd);
        return;
    }
    struct box *b = box_find_any(call->core, call->id);
    if (fd >= 0 && !b)
        close(fd);
    if (fd < 0 || !b)
        call_fail(call, 502, "%s",
                  !b                               ? PORTS_NO_SANDBOX
                  : err->sys_errno == ECONNREFUSED ? "The sandbox is running but port is not open"
                                                   : err->message);
    else
        start_relay(call, b, fd);
}

void ports_serve(struct call *call)
{
    struct box *b = box_find_any(call->core, call->id);
    if (!b || box_info(b)->state != BOX_RUNNING) {
        call_fail(call, 502, b ? "The sandbox is paused" : PORTS_NO_SANDBOX);
        return;
    }
    box_touch(b);
    call_watch(call);
    call_wait(call);
    port_connect(b, call->port, connected, call);
}
