/* Lines on stdin become requests to the daemon, answers become lines on stdout.
 *
 * Each request has a connection of its own; closing it is the cancellation, in both eras. What is
 * no good message is answered here. Nothing but messages is ever written to stdout. */
#include "cli/mcp/mcp.h"

#include "base/cleanup.h"
#include "base/container.h"
#include "base/text.h"
#include "cli/term.h"
#include "mcp/answer.h"
#include "mcp/envelope.h"
#include "os/loop.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define FLIGHTS_MAX  128u
#define END_GRACE_MS 10000u /* for what was asked before stdin ended */
#define READ_SIZE    65536u
#define META_VERSION "io.modelcontextprotocol/protocolVersion"
#define RPC_TOO_MANY (-32000)

struct bridge {
    const struct client *client;
    struct loop *loop;
    struct rpc_lines lines;
    struct loop_io in, out, daemon;
    struct loop_timer grace;
    struct flight *flights;
    unsigned count;
    char session[64];
    bool ending, lost, deaf, project;
};

struct flight {
    struct flight *next;
    struct bridge *bridge;
    struct rpc_msg msg;
    struct loop_io io;
    struct mcp_answer answer;
    struct loop_task release;
    bool answered, gone;
};

/* ---- stdout ---- */

static void put(struct bridge *b, const char *text, size_t len)
{
    struct buf line cleanup_buf = {0};
    buf_init(&line, len + 1);
    buf_add(&line, text, len);
    buf_chr(&line, '\n');
    if (!b->deaf && (line.failed || term_write(STDOUT_FILENO, line.data, line.len) < 0)) {
        b->deaf = true;
        loop_stop(b->loop);
    }
}

static void put_error(struct bridge *b, const struct json *id, int code, const char *text)
{
    struct buf out cleanup_buf = {0};
    buf_init(&out, 65536);
    rpc_write_error(&out, id, code, text, NULL);
    put(b, buf_text(&out), out.len);
}

/* ---- one request ---- */

static void flight_free(struct loop_task *t)
{
    struct flight *f = container_of(t, struct flight, release);
    answer_done(&f->answer);
    rpc_msg_done(&f->msg);
    free(f);
}

static void check_end(struct bridge *b)
{
    if (b->ending && !b->count)
        loop_stop(b->loop);
}

static void flight_end(struct flight *f)
{
    struct bridge *b = f->bridge;
    struct flight **at = &b->flights;
    if (f->gone)
        return;
    f->gone = true;
    while (*at != f)
        at = &(*at)->next;
    *at = f->next;
    b->count--;
    loop_forget(b->loop, &f->io);
    close(f->io.fd);
    loop_defer(b->loop, &f->release);
    check_end(b);
}

static void flight_fail(struct flight *f, const char *text)
{
    if (!f->answered)
        put_error(f->bridge, f->msg.id, RPC_INTERNAL_ERROR, text);
    flight_end(f);
}

/* A message goes on as it is if it is one line and looks like one; all else is put into words. */
static void on_message(void *ctx, const char *text, size_t len)
{
    static const char start[] = "{\"jsonrpc\":\"2.0\",";
    struct flight *f = ctx;
    char words[600];
    bool is_message = len > sizeof(start) && !memcmp(text, start, sizeof(start) - 1) &&
                      !memchr(text, '\n', len) && !memchr(text, '\r', len);
    if (is_message) {
        f->answered |= !text_begins(text + sizeof(start) - 1, "\"method\"");
        put(f->bridge, text, len);
        return;
    }
    snprintf(words, sizeof words, "the daemon answered with status %d: %.500s", f->answer.status,
             text);
    put_error(f->bridge, f->msg.id, RPC_INTERNAL_ERROR, words);
    f->answered = true;
}

static void on_answer(struct loop_io *io, uint32_t events)
{
    struct flight *f = container_of(io, struct flight, io);
    struct bridge *b = f->bridge;
    struct err err = ERR_INIT;
    char block[READ_SIZE];
    ssize_t n = recv(io->fd, block, sizeof block, MSG_DONTWAIT);
    (void)events;
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    int r =
        n > 0 ? answer_feed(&f->answer, block, (size_t)n, &err) : answer_close(&f->answer, &err);
    if (r < 0) {
        flight_fail(f, err.code ? err.message : "the daemon has closed the connection");
        return;
    }
    if (f->answer.session[0] && !strcmp(f->msg.method, "initialize"))
        memcpy(b->session, f->answer.session, sizeof b->session);
    if (f->answer.done)
        flight_end(f);
}

static bool is_plain(const char *text)
{
    size_t n = 0;
    while (text[n] > ' ' && text[n] <= '~')
        n++;
    return n && !text[n] && n < 1024;
}

/* The era without a handshake repeats in headers what the body says. */
static void write_headers(const struct bridge *b, const struct rpc_msg *m, struct buf *head)
{
    const struct json *meta = m->params ? json_get(m->params, "_meta") : NULL;
    const struct json *version =
        meta && json_type(meta) == JSON_OBJECT ? json_get(meta, META_VERSION) : NULL;
    const char *name = envelope_name(m);
    if (!version) {
        if (b->session[0] && strcmp(m->method, "initialize") != 0)
            buf_fmt(head, "Mcp-Session-Id: %s\r\n", b->session);
        return;
    }
    if (json_type(version) == JSON_STRING && is_plain(json_string(version)))
        buf_fmt(head, "MCP-Protocol-Version: %s\r\n", json_string(version));
    if (is_plain(m->method))
        buf_fmt(head, "Mcp-Method: %s\r\n", m->method);
    if (name && strlen(name) < 4096) {
        buf_str(head, "Mcp-Name: ");
        envelope_name_write(head, name);
        buf_str(head, "\r\n");
    }
}

static int send_all(int fd, const char *data, size_t len, struct err *err)
{
    while (len) {
        ssize_t n = send(fd, data, len, MSG_NOSIGNAL);
        if (n < 0 && errno != EINTR)
            return err_sys(err, "send to the daemon");
        data += n > 0 ? n : 0;
        len -= n > 0 ? (size_t)n : 0;
    }
    return 0;
}

static int flight_send(struct flight *f, const char *text, size_t len, struct err *err)
{
    const struct client *c = f->bridge->client;
    struct buf head cleanup_buf = {0};
    buf_init(&head, 32768);
    buf_fmt(&head,
            "POST /mcp HTTP/1.1\r\nHost: %s\r\nX-API-KEY: %s\r\nUser-Agent: brig/%s\r\n"
            "Accept: application/json, text/event-stream\r\nContent-Type: application/json\r\n"
            "Content-Length: %zu\r\nConnection: close\r\n",
            c->authority, c->key, BRIG_VERSION, len);
    if (f->bridge->project)
        buf_str(&head, "X-Brig-Project: first\r\n");
    write_headers(f->bridge, &f->msg, &head);
    buf_str(&head, "\r\n");
    if (len < 16384)
        buf_add(&head, text, len); /* one packet */
    if (head.failed)
        return err_set(err, ERR_LIMIT, "the request is too long");
    int r = send_all(f->io.fd, head.data, head.len, err);
    explicit_bzero(head.data, head.len);
    return r >= 0 && len >= 16384 ? send_all(f->io.fd, text, len, err) : r;
}

/* Takes the message. */
static void flight_start(struct bridge *b, struct rpc_msg *m, const char *text, size_t len)
{
    struct err err = ERR_INIT;
    struct flight *f = b->count < FLIGHTS_MAX ? calloc(1, sizeof *f) : NULL;
    int fd = f ? client_connect(b->client, &err) : -1;
    if (fd < 0) {
        put_error(b, m->id, f ? RPC_INTERNAL_ERROR : RPC_TOO_MANY,
                  f ? err.message : "too many requests at once");
        rpc_msg_done(m);
        free(f);
        return;
    }
    f->bridge = b;
    f->msg = *m;
    f->io = (struct loop_io){.fd = fd, .fn = on_answer};
    f->release.fn = flight_free;
    answer_init(&f->answer, on_message, f);
    f->next = b->flights;
    b->flights = f;
    b->count++;
    if (flight_send(f, text, len, &err) < 0 || loop_watch(b->loop, &f->io, EPOLLIN) < 0)
        flight_fail(f, err.code ? err.message : "out of descriptors");
}

/* ---- stdin ---- */

static void cancel(struct bridge *b, const struct rpc_msg *m)
{
    const struct json *id = m->params ? json_get(m->params, "requestId") : NULL;
    struct flight *f = b->flights;
    while (f && !rpc_id_equal(f->msg.id, id))
        f = f->next;
    if (f)
        flight_end(f);
}

static void take_line(struct bridge *b, const char *text, size_t len)
{
    struct err err = ERR_INIT;
    struct rpc_msg m = {0};
    int code = 0;
    if (rpc_parse(text, len, &m, &code, &err) < 0) {
        put_error(b, m.id, code, err.message);
    } else if (m.kind == RPC_REQUEST) {
        flight_start(b, &m, text, len);
        return;
    } else if (m.kind == RPC_NOTIFICATION && !strcmp(m.method, "notifications/cancelled")) {
        cancel(b, &m);
    }
    /* Other news change nothing here, and nothing was asked that could be answered. */
    rpc_msg_done(&m);
}

static void on_grace(struct loop_timer *t)
{
    loop_stop(container_of(t, struct bridge, grace)->loop);
}

static void input_end(struct bridge *b)
{
    b->ending = true;
    loop_forget(b->loop, &b->in);
    loop_timer_set(b->loop, &b->grace, END_GRACE_MS);
    check_end(b);
}

/* False: nothing more will come. */
static bool read_some(struct bridge *b)
{
    char block[READ_SIZE];
    const char *line;
    size_t len;
    ssize_t n = read(STDIN_FILENO, block, sizeof block);
    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return true;
    if (n <= 0 || rpc_lines_add(&b->lines, block, (size_t)n, NULL) < 0)
        return false;
    for (int r; (r = rpc_lines_next(&b->lines, &line, &len));) {
        if (r > 0)
            take_line(b, line, len);
        else
            put_error(b, NULL, RPC_INVALID_REQUEST, "a message of more than 16 MiB");
    }
    return true;
}

static void on_input(struct loop_io *io, uint32_t events)
{
    struct bridge *b = container_of(io, struct bridge, in);
    (void)events;
    if (!read_some(b))
        input_end(b);
}

/* ---- the others ---- */

static void on_output(struct loop_io *io, uint32_t events)
{
    struct bridge *b = container_of(io, struct bridge, out);
    if (!(events & (EPOLLERR | EPOLLHUP)))
        return;
    b->deaf = true; /* who should read has gone */
    loop_stop(b->loop);
}

static void on_daemon(struct loop_io *io, uint32_t events)
{
    struct bridge *b = container_of(io, struct bridge, daemon);
    (void)events;
    b->lost = true;
    while (b->flights)
        flight_fail(b->flights, "brig serve has ended");
    loop_stop(b->loop);
}

static int open_all(struct bridge *b, int pidfd, struct err *err)
{
    b->in = (struct loop_io){.fd = STDIN_FILENO, .fn = on_input};
    b->out = (struct loop_io){.fd = STDOUT_FILENO, .fn = on_output};
    b->daemon = (struct loop_io){.fd = pidfd, .fn = on_daemon};
    b->grace.fn = on_grace;
    rpc_lines_init(&b->lines, RPC_BYTES_MAX);
    int result = loop_watch(b->loop, &b->in, EPOLLIN);
    if (result >= 0)
        result = loop_watch(b->loop, &b->out, EPOLLERR); /* of a file: never */
    if (result >= 0 && pidfd >= 0)
        result = loop_watch(b->loop, &b->daemon, EPOLLIN);
    errno = -result;
    return errno ? err_sys(err, "watch stdin, stdout and brig serve") : 0;
}

int mcp_bridge_run(const struct client *c, int pidfd, bool project, struct err *err)
{
    struct bridge b = {.client = c, .project = project};
    int r = loop_new(&b.loop, err);
    if (r < 0)
        return r;
    r = open_all(&b, pidfd, err);
    if (r >= 0)
        r = loop_run(b.loop);
    while (b.flights) {
        struct flight *f = b.flights;
        b.flights = f->next;
        close(f->io.fd);
        flight_free(&f->release);
    }
    rpc_lines_done(&b.lines);
    loop_free(b.loop);
    if (b.lost)
        return err_set(err, ERR_SYSTEM, "brig serve has ended");
    return r < 0 ? err_sys(err, "wait") : 0;
}
