/* The event loop of wrap: reads lines of both sides and passes them on. Where one side does not
 * read, nothing more is read from the other. */
#include "mcp/wrap_serve.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "mcp/wrap.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* A side that does not read what is for it is not read from either. */
#define HIGH_WATER (1u << 20)
/* After the client has closed its side: for answers that are still owed, then for the server to end
 * by itself. */
#define ANSWERS_US (60u * 1000000u)
#define GRACE_US   5000000u

struct side {
    int in;
    int out;
    struct rpc_lines lines;
    struct buf *pending; /* for it */
    size_t at;
};

struct serve {
    struct wrap wrap;
    struct wrap_files *files;
    struct side client;
    struct side server;
    uint64_t client_gone_us; /* 0: it is there */
    bool quiet;
    bool over;
};

static void say(const char *text)
{
    char line[1024];
    int n = snprintf(line, sizeof line, "brig: %s\n", text);
    if (n >= (int)sizeof line)
        line[sizeof line - 2] = '\n';
    for (char *p = line; *p; p++) {
        if ((unsigned char)*p < 0x20 && *p != '\n')
            *p = '?';
    }
    if (write(STDERR_FILENO, line, strlen(line)) < 0)
        return; /* nobody listens */
}

/* ---- what wrap asks of us ---- */

static void note(void *ctx, const char *text)
{
    const struct serve *s = ctx;
    if (!s->quiet)
        say(text);
}

static int send_ask(struct serve *s, const struct wrap_ask_msg *msg)
{
    if (s->files->asker < 0)
        return -1;
    return send(s->files->asker, msg, sizeof *msg, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 ? -1 : 0;
}

static int ask(void *ctx, uint32_t ticket, const char *text, const char *reason, struct err *err)
{
    struct wrap_ask_msg msg = {.type = WRAP_ASK, .ticket = ticket};
    if (strlen(text) >= sizeof msg.text)
        return err_set(err, ERR_LIMIT, "the call is too long to be shown");
    memcpy(msg.text, text, strlen(text));
    snprintf(msg.reason, sizeof msg.reason, "%s", reason);
    return send_ask(ctx, &msg) < 0 ? err_set(err, ERR_SYSTEM, "nobody is there to ask") : 0;
}

static void withdraw(void *ctx, uint32_t ticket)
{
    const struct wrap_ask_msg msg = {.type = WRAP_WITHDRAW, .ticket = ticket};
    (void)send_ask(ctx, &msg);
}

/* ---- bytes ---- */

static void close_fd(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

static void take_lines(struct serve *s, struct side *from)
{
    const char *line;
    size_t len;
    int r;
    bool client = from == &s->client;
    while ((r = rpc_lines_next(&from->lines, &line, &len)) != 0) {
        if (r > 0)
            (client ? wrap_client_line : wrap_server_line)(&s->wrap, line, len);
        else
            (client ? wrap_client_overlong : wrap_server_overlong)(&s->wrap);
    }
}

static void read_side(struct serve *s, struct side *from)
{
    char data[65536];
    ssize_t n = read(from->in, data, sizeof data);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0 || rpc_lines_add(&from->lines, data, (size_t)n, NULL) < 0) {
        close_fd(&from->in);
        return;
    }
    take_lines(s, from);
}

/* poll promises room for this much: nobody's descriptor has to be changed. */
static void write_side(struct side *to)
{
    size_t len = to->pending->len - to->at;
    if (len > PIPE_BUF)
        len = PIPE_BUF;
    ssize_t n = write(to->out, to->pending->data + to->at, len);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n < 0) {
        close_fd(&to->out);
        return;
    }
    to->at += (size_t)n;
    if (to->at == to->pending->len) {
        buf_reset(to->pending);
        to->at = 0;
    }
}

static size_t waiting(const struct side *s)
{
    return s->pending->len - s->at;
}

static void on_asker(struct serve *s)
{
    struct wrap_ask_msg msg;
    ssize_t n = recv(s->files->asker, &msg, sizeof msg, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n != (ssize_t)sizeof msg || msg.type != WRAP_ANSWERED) {
        /* The process that asks is gone: there will be no answer any more. */
        close_fd(&s->files->asker);
        for (uint32_t t = 1; t && t <= s->wrap.last_ticket; t++)
            wrap_answer(&s->wrap, t, WRAP_ANSWER_NOBODY);
        return;
    }
    wrap_answer(&s->wrap, msg.ticket,
                msg.answer <= WRAP_ANSWER_NOBODY ? (enum wrap_answer)msg.answer : WRAP_ANSWER_DENY);
}

/* ---- the loop ---- */

enum slot { SLOT_CLIENT_IN, SLOT_CLIENT_OUT, SLOT_SERVER_IN, SLOT_SERVER_OUT, SLOT_ASKER, SLOTS };

static void watch(struct pollfd *p, bool wanted, int fd, short events)
{
    *p = (struct pollfd){.fd = wanted ? fd : -1, .events = events};
}

static void fill(const struct serve *s, struct pollfd fds[SLOTS])
{
    bool room = waiting(&s->client) < HIGH_WATER && waiting(&s->server) < HIGH_WATER;
    watch(&fds[SLOT_CLIENT_IN], room, s->client.in, POLLIN);
    watch(&fds[SLOT_SERVER_OUT], room, s->server.in, POLLIN);
    /* poll reports a hang-up even if no event is asked for. */
    watch(&fds[SLOT_CLIENT_OUT], true, s->client.out, waiting(&s->client) ? POLLOUT : 0);
    watch(&fds[SLOT_SERVER_IN], true, s->server.out, waiting(&s->server) ? POLLOUT : 0);
    watch(&fds[SLOT_ASKER], true, s->files->asker, POLLIN);
}

static void move(struct serve *s, const struct pollfd fds[SLOTS])
{
    if (fds[SLOT_CLIENT_OUT].revents & POLLOUT)
        write_side(&s->client);
    else if (fds[SLOT_CLIENT_OUT].revents)
        close_fd(&s->client.out);
    if (fds[SLOT_SERVER_IN].revents & POLLOUT)
        write_side(&s->server);
    else if (fds[SLOT_SERVER_IN].revents)
        close_fd(&s->server.out);
    if (fds[SLOT_ASKER].revents)
        on_asker(s);
    if (fds[SLOT_CLIENT_IN].revents)
        read_side(s, &s->client);
    if (fds[SLOT_SERVER_OUT].revents)
        read_side(s, &s->server);
}

/* Notices which side is gone, and ends what has no use without it. */
static void settle(struct serve *s, uint64_t now)
{
    if (s->wrap.to_client.failed || s->wrap.to_server.failed) {
        say("a side does not read what is for it");
        s->over = true;
    }
    if (s->client.in < 0 && !s->client_gone_us)
        s->client_gone_us = now;
    if (s->client.in < 0 && !waiting(&s->server))
        close_fd(&s->server.out);
    if (s->server.out < 0) {
        buf_reset(s->server.pending);
        s->server.at = 0;
    }
    bool server_done = s->server.in < 0 && !waiting(&s->client);
    if (server_done || s->client.out < 0)
        s->over = true;
    if (s->client_gone_us && !waiting(&s->client) &&
        now >= s->client_gone_us + (wrap_owes(&s->wrap) ? ANSWERS_US : GRACE_US))
        s->over = true;
}

static int wait_ms(const struct serve *s, uint64_t now)
{
    if (!s->client_gone_us)
        return -1;
    uint64_t until = s->client_gone_us + (wrap_owes(&s->wrap) ? ANSWERS_US : GRACE_US);
    return until > now ? (int)((until - now) / 1000 + 1) : 100;
}

static void summary(const struct serve *s)
{
    const struct denial_list *list = &s->wrap.denials;
    for (size_t i = 0; i < list->count; i++) {
        const struct denial *d = &list->items[i];
        char line[512];
        char times[40] = "";
        if (d->count > 1)
            snprintf(times, sizeof times, " (%" PRIu64 " times)", d->count);
        snprintf(line, sizeof line, "denied: %s%s: %s", d->what, times, d->rule);
        say(line);
    }
    if (list->dropped)
        say("denied: further tools");
    if (s->wrap.notes > WRAP_NOTES_MAX) {
        char line[100];
        snprintf(line, sizeof line, "%" PRIu64 " messages in all went nowhere", s->wrap.dropped);
        say(line);
    }
}

static int loop(struct serve *s, struct err *err)
{
    while (!s->over) {
        struct pollfd fds[SLOTS];
        uint64_t now = clock_us();
        fill(s, fds);
        int n = poll(fds, SLOTS, wait_ms(s, now));
        if (n < 0 && errno != EINTR)
            return err_sys(err, "poll");
        if (n > 0)
            move(s, fds);
        settle(s, clock_us());
    }
    return 0;
}

int wrap_serve(struct wrap_files *files, const struct tools *tools, bool quiet, struct err *err)
{
    struct serve s = {.files = files, .quiet = quiet};
    const struct wrap_hooks hooks = {.ctx = &s, .ask = ask, .withdraw = withdraw, .note = note};
    wrap_init(&s.wrap, tools, &hooks);
    s.client = (struct side){files->client_in, files->client_out, .pending = &s.wrap.to_client};
    s.server = (struct side){files->server_out, files->server_in, .pending = &s.wrap.to_server};
    rpc_lines_init(&s.client.lines, RPC_BYTES_MAX);
    rpc_lines_init(&s.server.lines, RPC_BYTES_MAX);
    int r = loop(&s, err);
    /* A last line without a line feed was no message. */
    close_fd(&s.server.out);
    if (!quiet)
        summary(&s);
    rpc_lines_done(&s.client.lines);
    rpc_lines_done(&s.server.lines);
    wrap_done(&s.wrap);
    return r;
}
