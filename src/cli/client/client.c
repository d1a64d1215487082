/* A client of the daemon's HTTP API: finds the daemon and the key, sends one request per connection
 * and reads the answer. */
#include "cli/client/client.h"

#include "base/cleanup.h"
#include "base/text.h"
#include "cli/state.h"
#include "cli/verb.h"
#include "http/url.h"
#include "os/fd.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { OPT_HOST = 900, OPT_KEY_FILE, OPT_STATE };

static const struct opt client_items[] = {
    {.id = OPT_HOST,
     .name = "host",
     .kind = OPT_VALUE,
     .value = "ADDRESS",
     .group = "Daemon",
     .help = "unix:PATH or http://ADDRESS:PORT; else $BRIG_HOST, else the socket of `brig serve`"},
    {.id = OPT_KEY_FILE,
     .name = "key-file",
     .kind = OPT_VALUE,
     .value = "FILE",
     .group = "Daemon",
     .help = "the API key; else $BRIG_API_KEY, else the key file in the state folder"},
    {.id = OPT_STATE,
     .name = "state",
     .kind = OPT_VALUE,
     .value = "DIR",
     .group = "Daemon",
     .help = "the state folder that `brig serve` was given"},
};
const struct opt_table client_option_table = {
    .items = client_items, .count = ARRAY_LEN(client_items), .next = &common_options};

int client_take(struct client *c, const struct opt *opt, const char *value)
{
    switch (opt->id) {
    case OPT_HOST:
        c->host = value;
        return 1;
    case OPT_KEY_FILE:
        c->key_file = value;
        return 1;
    case OPT_STATE:
        c->state = value;
        return 1;
    default:
        return 0;
    }
}

/* ---- where it is ---- */

/* The first line of a small file, without its end. */
static int first_line(const char *path, char *ret, size_t size)
{
    ssize_t n = file_read(AT_FDCWD, path, ret, size);
    if (n < 0)
        return (int)n;
    ret[strcspn(ret, "\r\n")] = '\0';
    return 0;
}

static int no_daemon(const char *place, struct err *err)
{
    err_set(err, ERR_SYSTEM, "no daemon can be found: %s is not there", place);
    return err_hint(err, "start one with `brig serve`, or name it: --host unix:PATH or "
                         "http://ADDRESS:PORT");
}

static int read_address(struct client *c, const char *text, struct err *err)
{
    struct url url;
    if (text_begins(text, "unix:")) {
        if (strlen(text + 5) == 0 || strlen(text + 5) >= sizeof c->path)
            return err_set(err, ERR_USAGE, "'%.80s' names no socket", text);
        snprintf(c->path, sizeof c->path, "%s", text + 5);
        snprintf(c->authority, sizeof c->authority, "localhost");
        return 0;
    }
    if (text_begins(text, "https:")) {
        err_set(err, ERR_USAGE, "'%.80s': brig's own verbs speak no TLS", text);
        return err_hint(err, "on the daemon's machine name its UNIX socket: --host unix:PATH");
    }
    if (url_parse(text, strlen(text), &url, err) < 0 || url.scheme != SCHEME_HTTP ||
        (url.host.kind == HOST_NAME && strcmp(url.host.text, "localhost") != 0)) {
        err_set(err, ERR_USAGE, "'%.80s' is no address of a daemon", text);
        return err_hint(err, "unix:PATH, or http://ADDRESS:PORT with a numeric address");
    }
    bool v6 = url.host.kind == HOST_IPV6;
    snprintf(c->address, sizeof c->address, "%s",
             url.host.kind == HOST_NAME ? "127.0.0.1" : url.host.text);
    snprintf(c->authority, sizeof c->authority, v6 ? "[%.60s]:%u" : "%.60s:%u", c->address,
             url.port);
    c->port = url.port;
    return 0;
}

/* Socket activation: the service manager holds the socket and starts the daemon when somebody
 * connects. */
static bool find_waiting(struct client *c)
{
    char folder[STATE_RUNTIME_SIZE];
    state_runtime(folder);
    snprintf(c->path, sizeof c->path, "%s/brig.sock", folder);
    snprintf(c->authority, sizeof c->authority, "localhost");
    if (!c->state && folder[0] && access(c->path, W_OK) == 0)
        return true;
    c->path[0] = '\0';
    return false;
}

static int find_address(struct client *c, const char *state, struct err *err)
{
    char line[256];
    cleanup_buf struct buf path = {0};
    const char *text = c->host ? c->host : c->state ? NULL : getenv("BRIG_HOST");
    if (text && text[0])
        return read_address(c, text, err);
    buf_init(&path, 4096);
    buf_fmt(&path, "%s/address", state);
    if (first_line(buf_text(&path), line, sizeof line) < 0)
        return find_waiting(c) ? 0 : no_daemon(buf_text(&path), err);
    return read_address(c, line, err);
}

static int find_key(struct client *c, const char *state, struct err *err)
{
    cleanup_buf struct buf path = {0};
    const char *text = c->key_file || c->state ? NULL : getenv("BRIG_API_KEY");
    buf_init(&path, 4096);
    if (text && text[0]) {
        if (strlen(text) >= sizeof c->key)
            return err_set(err, ERR_USAGE, "$BRIG_API_KEY is too long to be a key");
        snprintf(c->key, sizeof c->key, "%s", text);
        return 0;
    }
    if (c->key_file)
        buf_str(&path, c->key_file);
    else
        buf_fmt(&path, "%s/key", state);
    int r = first_line(buf_text(&path), c->key, sizeof c->key);
    if (r == 0 && c->key[0])
        return 0;
    errno = r < 0 ? -r : EINVAL;
    err_sys(err, "read the API key from %s", buf_text(&path));
    return err_hint(err, "name the file with --key-file, or set BRIG_API_KEY");
}

int client_open(struct client *c, struct err *err)
{
    cleanup_buf struct buf state = {0};
    buf_init(&state, 3000);
    if (state_folder(c->state, &state, err) < 0 || find_address(c, buf_text(&state), err) < 0)
        return err_number(err);
    return find_key(c, buf_text(&state), err);
}

/* ---- one call ---- */

static int connect_unix(const struct client *c, struct err *err)
{
    struct sockaddr_un sa = {.sun_family = AF_UNIX};
    snprintf(sa.sun_path, sizeof sa.sun_path, "%s", c->path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return err_sys(err, "socket");
    if (connect(fd, (struct sockaddr *)&sa, sizeof sa) == 0)
        return fd;
    err_sys(err, "connect to the daemon at %s", c->path);
    close(fd);
    return err_hint(err, "is `brig serve` running?");
}

static int connect_tcp(const struct client *c, struct err *err)
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(c->port)};
    struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_port = htons(c->port)};
    bool v6 = inet_pton(AF_INET6, c->address, &in6.sin6_addr) == 1;
    if (!v6 && inet_pton(AF_INET, c->address, &in.sin_addr) != 1)
        return err_set(err, ERR_USAGE, "%s is no address", c->address);
    int fd = socket(v6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return err_sys(err, "socket");
    if (connect(fd, v6 ? (struct sockaddr *)&in6 : (struct sockaddr *)&in,
                v6 ? sizeof in6 : sizeof in) == 0)
        return fd;
    err_sys(err, "connect to the daemon at %s", c->authority);
    close(fd);
    return err_hint(err, "is `brig serve` running there?");
}

int client_connect(const struct client *c, struct err *err)
{
    return c->path[0] ? connect_unix(c, err) : connect_tcp(c, err);
}

void call_init(struct call *call)
{
    memset(call, 0, sizeof *call);
    call->fd = -1;
    buf_init(&call->in, 1u << 20);
}

void call_done(struct call *call)
{
    if (call->fd >= 0)
        close(call->fd);
    call->fd = -1;
    http_response_done(&call->response);
    buf_done(&call->in);
}

int call_send(struct call *call, const void *data, size_t len, struct err *err)
{
    const char *at = data;
    while (len > 0) {
        ssize_t n = send(call->fd, at, len, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_sys(err, "send to the daemon");
        at += n;
        len -= (size_t)n;
    }
    return 0;
}

static int send_head(struct call *call, const struct client *c, const struct ask *ask,
                     uint64_t length, struct err *err)
{
    cleanup_buf struct buf head = {0};
    bool stream = ask->type && text_begins(ask->type, "application/connect+");
    buf_init(&head, 64u << 10);
    buf_fmt(&head, "%s %s HTTP/1.1\r\nHost: %s\r\nX-API-KEY: %s\r\nUser-Agent: brig/%s\r\n",
            ask->method, ask->path, c->authority, c->key, BRIG_VERSION);
    if (ask->box)
        buf_fmt(&head, "E2b-Sandbox-Id: %s\r\nE2b-Sandbox-Port: 49983\r\n", ask->box);
    if (ask->box && strchr(ask->path + 1, '/'))
        buf_str(&head, "Connect-Protocol-Version: 1\r\n");
    if (stream)
        buf_str(&head, "Keepalive-Ping-Interval: 50\r\n");
    if (ask->timeout_ms)
        buf_fmt(&head, "Connect-Timeout-Ms: %llu\r\n", (unsigned long long)ask->timeout_ms);
    if (length > 0 || strcmp(ask->method, "GET") != 0)
        buf_fmt(&head, "Content-Type: %s\r\nContent-Length: %llu\r\n",
                ask->type ? ask->type : "application/json", (unsigned long long)length);
    buf_str(&head, "Connection: close\r\n\r\n");
    if (head.failed)
        return err_set(err, ERR_LIMIT, "the request is too long");
    return call_send(call, head.data, head.len, err);
}

int call_begin(struct call *call, const struct client *c, const struct ask *ask, uint64_t length,
               struct err *err)
{
    call->fd = client_connect(c, err);
    return call->fd < 0 ? err_number(err) : send_head(call, c, ask, length, err);
}

/* More bytes from the daemon: > 0, or 0 at the end. */
static ssize_t fill(struct call *call, struct err *err)
{
    char block[65536];
    if (call->taken) {
        memmove(call->in.data, call->in.data + call->taken, call->in.len - call->taken);
        call->in.len -= call->taken;
        call->taken = 0;
    }
    for (;;) {
        ssize_t n = recv(call->fd, block, sizeof block, 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_sys(err, "receive from the daemon");
        buf_add(&call->in, block, (size_t)n);
        if (call->in.failed)
            return err_set(err, ERR_LIMIT, "the daemon's answer is too long");
        return n;
    }
}

static int ended_early(struct err *err)
{
    return err_set(err, ERR_PROTOCOL, "the daemon ended the connection in the middle of an answer");
}

/* {"code", "message"} in all of the API's styles; else the text itself. */
static int say_status(struct call *call, struct err *err)
{
    cleanup_json struct json *root = NULL;
    cleanup_buf struct buf body = {0};
    const char *piece;
    buf_init(&body, 64u << 10);
    for (ssize_t n; body.len < 60000 && (n = call_read(call, &piece, NULL)) > 0;)
        buf_add(&body, piece, (size_t)n);
    const char *said = NULL;
    if (json_parse(buf_text(&body), body.len, &json_default_limits, &root, NULL) == 0)
        said = json_text(root, "message");
    enum err_code code = call->status == 404 || call->status == 502   ? ERR_NOT_FOUND
                         : call->status == 429 || call->status == 413 ? ERR_LIMIT
                         : call->status >= 500                        ? ERR_SYSTEM
                         : call->status == 400                        ? ERR_USAGE
                                                                      : ERR_REFUSED;
    if (call->status == 401) {
        err_set(err, ERR_REFUSED, "the daemon does not know this API key");
        return err_hint(err, "BRIG_API_KEY or --key-file must name a key of `brig keys list`");
    }
    return err_set(err, code, "%.400s",
                   said            ? said
                   : body.len == 0 ? "the daemon refused and gave no reason"
                                   : buf_text(&body));
}

int call_head(struct call *call, struct err *err)
{
    ssize_t head;
    for (;;) {
        while ((head = http_head_length(call->in.data, call->in.len, err)) == 0) {
            ssize_t n = fill(call, err);
            if (n <= 0)
                return n < 0 ? (int)n : ended_early(err);
        }
        if (head < 0 ||
            http_response_parse(call->in.data, (size_t)head, "GET", &call->response, err) < 0)
            return err_wrap(err, "the daemon's answer");
        call->taken = (size_t)head;
        if (call->response.status != 100)
            break;
        http_response_done(&call->response);
        memmove(call->in.data, call->in.data + head, call->in.len - (size_t)head);
        call->in.len -= (size_t)head;
        call->taken = 0;
    }
    call->status = call->response.status;
    call->left = call->response.length;
    call->done = call->response.body == BODY_NONE;
    chunk_reader_init(&call->chunks);
    return call->status >= 400 ? say_status(call, err) : 0;
}

int call_start(struct call *call, const struct client *c, const struct ask *ask, struct err *err)
{
    if (call_begin(call, c, ask, ask->body_len, err) < 0 ||
        call_send(call, ask->body, ask->body_len, err) < 0)
        return err_number(err);
    return call_head(call, err);
}

/* What is already here: > 0 with a piece, 0 when more must come, or `done`. */
static ssize_t next_piece(struct call *call, const char **ret, struct err *err)
{
    const char *at = call->in.data + call->taken;
    size_t have = call->in.len - call->taken, len = 0;
    if (call->response.body == BODY_CHUNKED) {
        ssize_t n = chunk_read(&call->chunks, at, have, ret, &len, err);
        if (n < 0)
            return n;
        call->taken += (size_t)n;
        call->done = call->chunks.done;
        if (len == 0 && n > 0 && !call->done)
            return next_piece(call, ret, err);
        return (ssize_t)len;
    }
    len = have;
    if (call->response.body == BODY_LENGTH && len > call->left)
        len = (size_t)call->left;
    *ret = at;
    call->taken += len;
    call->left -= call->response.body == BODY_LENGTH ? len : 0;
    call->done = call->response.body == BODY_LENGTH && call->left == 0;
    return (ssize_t)len;
}

ssize_t call_take(struct call *call, const char **ret, struct err *err)
{
    return call->done ? 0 : next_piece(call, ret, err);
}

int call_fill(struct call *call, struct err *err)
{
    ssize_t n = fill(call, err);
    if (n == 0 && call->response.body != BODY_UNTIL_CLOSE)
        return ended_early(err);
    call->done |= n == 0;
    return n < 0 ? (int)n : 0;
}

ssize_t call_read(struct call *call, const char **ret, struct err *err)
{
    while (!call->done) {
        ssize_t n = next_piece(call, ret, err);
        if (n != 0)
            return n;
        if (call->done)
            break;
        n = fill(call, err);
        if (n < 0)
            return n;
        if (n == 0 && call->response.body != BODY_UNTIL_CLOSE)
            return ended_early(err);
        if (n == 0)
            break;
    }
    return 0;
}
