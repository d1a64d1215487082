/* One HTTP request to Vault with a deadline: connects, sends, reads the answer. */
#include "credentials/vault_http.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "credentials/swap.h"
#include "http/chunk.h"
#include "http/message.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>

#define CALL_MS     5000
#define HURRY_MS    3000 /* once the proxy is gone */
#define REPLY_MAX   (HTTP_HEAD_MAX + 256u * 1024)
#define ADDRESS_MAX 8

struct call {
    struct vault_server *v;
    uint64_t deadline_ms;
    int fd;
    void *session; /* of the transport; NULL: plain */
};

static uint64_t now_ms(void)
{
    return clock_us() / 1000;
}

static void hurry(struct call *c)
{
    uint64_t soon = now_ms() + HURRY_MS;
    c->v->control_fd = -1;
    if (c->deadline_ms > soon)
        c->deadline_ms = soon;
}

static int wait_for(struct call *c, short events, struct err *err)
{
    for (;;) {
        uint64_t now = now_ms();
        if (now >= c->deadline_ms)
            return err_set(err, ERR_SYSTEM, "Vault does not answer in time");
        struct pollfd p[2] = {{c->fd, events, 0}, {c->v->control_fd, POLLRDHUP, 0}};
        int r = poll(p, 2, (int)(c->deadline_ms - now) + 1);
        if (r < 0 && errno != EINTR)
            return err_sys(err, "wait for Vault");
        if (r > 0 && p[1].revents)
            hurry(c);
        if (r > 0 && p[0].revents)
            return 0;
    }
}

/* ---- connecting ---- */

static void put_address(struct sockaddr_storage *to, int family, const void *addr, uint16_t port)
{
    *to = (struct sockaddr_storage){.ss_family = (sa_family_t)family};
    if (family == AF_INET) {
        struct sockaddr_in *in = (struct sockaddr_in *)to;
        in->sin_port = htons(port);
        memcpy(&in->sin_addr, addr, 4);
    } else {
        struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)to;
        in6->sin6_port = htons(port);
        memcpy(&in6->sin6_addr, addr, 16);
    }
}

static int find_addresses(const struct call *c, struct sockaddr_storage *ret, struct err *err)
{
    const struct vault_server *v = c->v;
    if (v->host.kind != HOST_NAME) {
        put_address(ret, v->host.kind == HOST_IPV4 ? AF_INET : AF_INET6, v->host.addr, v->port);
        return 1;
    }
    if (strcmp(v->host.text, "localhost") == 0) {
        put_address(ret, AF_INET, (uint8_t[]){127, 0, 0, 1}, v->port);
        put_address(ret + 1, AF_INET6, &in6addr_loopback, v->port);
        return 2;
    }
    if (!v->transport)
        return err_set(err, ERR_UNSUPPORTED, "Vault's name cannot be looked up here");
    return v->transport->resolve(v->host.text, v->port, c->deadline_ms, ret, ADDRESS_MAX, err);
}

static int connect_to(struct call *c, const struct sockaddr_storage *to, struct err *err)
{
    socklen_t len =
        to->ss_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
    int failed = 0;
    socklen_t failed_len = sizeof failed;
    c->fd = socket(to->ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (c->fd < 0)
        return err_sys(err, "socket");
    if (connect(c->fd, (const struct sockaddr *)to, len) == 0)
        return 0;
    if (errno != EINPROGRESS)
        return err_sys(err, "connect to Vault");
    if (wait_for(c, POLLOUT, err) < 0)
        return err_number(err);
    getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &failed, &failed_len);
    errno = failed;
    return failed ? err_sys(err, "connect to Vault") : 0;
}

static int shake_hands(struct call *c, struct err *err)
{
    const struct vault_server *v = c->v;
    if (!v->tls)
        return 0;
    if (!v->transport)
        return err_set(err, ERR_UNSUPPORTED, "there is no TLS here");
    if (v->transport->open(c->fd, v->host.text, v->ca_file, &c->session, err) < 0)
        return err_number(err);
    for (;;) {
        short want = 0;
        int r = v->transport->handshake(c->session, &want, err);
        if (r != -EAGAIN)
            return r;
        r = wait_for(c, want, err);
        if (r < 0)
            return r;
    }
}

static int connect_any(struct call *c, struct err *err)
{
    struct sockaddr_storage to[ADDRESS_MAX] = {0};
    int count = find_addresses(c, to, err);
    if (count == 0)
        return err_set(err, ERR_SYSTEM, "Vault's name has no address");
    for (int i = 0; i < count; i++) {
        if (connect_to(c, &to[i], err) == 0)
            return shake_hands(c, err);
        if (c->fd >= 0)
            close(c->fd);
        c->fd = -1;
    }
    return err_number(err);
}

/* ---- bytes ---- */

static int send_all(struct call *c, const char *data, size_t len, struct err *err)
{
    while (len > 0) {
        short want = POLLOUT;
        ssize_t n = c->session ? c->v->transport->write(c->session, data, len, &want)
                               : send(c->fd, data, len, MSG_NOSIGNAL);
        if (!c->session && n < 0)
            n = -errno;
        if (n == -EINTR)
            continue;
        if (n == -EAGAIN) {
            if (wait_for(c, want, err) < 0)
                return err_number(err);
        } else if (n < 0) {
            errno = (int)-n;
            return err_sys(err, "send to Vault");
        } else {
            data += n;
            len -= (size_t)n;
        }
    }
    return 0;
}

/* More bytes into `in`: how many; 0 at the end. */
static ssize_t receive(struct call *c, struct buf *in, struct err *err)
{
    char data[4096];
    for (;;) {
        short want = POLLIN;
        ssize_t n = c->session ? c->v->transport->read(c->session, data, sizeof data, &want)
                               : recv(c->fd, data, sizeof data, 0);
        if (!c->session && n < 0)
            n = -errno;
        if (n == -EAGAIN) {
            if (wait_for(c, want, err) < 0)
                return err_number(err);
            continue;
        }
        if (n == -EINTR)
            continue;
        if (n < 0) {
            errno = (int)-n;
            return err_sys(err, "receive from Vault");
        }
        buf_add(in, data, (size_t)n);
        secret_wipe(data, sizeof data);
        if (in->failed)
            return err_set(err, ERR_PROTOCOL, "Vault's answer is too long");
        return n;
    }
}

/* ---- messages ---- */

static void write_request(const struct vault_server *v, const struct vault_request *q,
                          struct buf *out)
{
    buf_room(out, 4096 + SECRET_MAX + q->body_len);
    buf_fmt(out, "%s /v1/%s HTTP/1.1\r\nHost: ", q->method, q->path);
    buf_fmt(out, v->host.kind == HOST_IPV6 ? "[%s]:%u\r\n" : "%s:%u\r\n", v->host.text, v->port);
    if (q->token) {
        size_t len;
        const char *bytes = secret_expose(q->token, &len);
        buf_str(out, "X-Vault-Token: ");
        buf_add(out, bytes, len);
        buf_str(out, "\r\n");
    }
    if (v->ns)
        buf_fmt(out, "X-Vault-Namespace: %s\r\n", v->ns);
    buf_str(out, "X-Vault-Request: true\r\nAccept: application/json\r\nConnection: close\r\n");
    if (q->body)
        buf_fmt(out, "Content-Type: application/json\r\nContent-Length: %zu\r\n", q->body_len);
    buf_str(out, "\r\n");
    if (q->body)
        buf_add(out, q->body, q->body_len);
}

static int read_head(struct call *c, struct buf *in, const char *method, size_t *ret_len,
                     struct http_response *ret, struct err *err)
{
    for (;;) {
        ssize_t head = http_head_length(buf_text(in), in->len, err);
        if (head < 0)
            return err_number(err);
        if (head > 0) {
            *ret_len = (size_t)head;
            return http_response_parse(in->data, (size_t)head, method, ret, err);
        }
        ssize_t n = receive(c, in, err);
        if (n < 0)
            return err_number(err);
        if (n == 0)
            return err_set(err, ERR_PROTOCOL, "Vault ended the connection without an answer");
    }
}

/* A chunked body, from in->data + at on. */
static int read_chunks(struct call *c, struct buf *in, size_t at, struct buf *out, struct err *err)
{
    struct chunk_reader r;
    chunk_reader_init(&r);
    while (!r.done) {
        const char *piece = NULL;
        size_t len = 0;
        ssize_t took = chunk_read(&r, buf_text(in) + at, in->len - at, &piece, &len, err);
        if (took < 0)
            return err_number(err);
        if (len > 0)
            buf_add(out, piece, len);
        at += (size_t)took;
        if (took > 0 || r.done)
            continue;
        ssize_t n = receive(c, in, err);
        if (n <= 0)
            return n < 0 ? -1 : err_set(err, ERR_PROTOCOL, "Vault's answer is cut off");
    }
    return 0;
}

static int read_body(struct call *c, struct buf *in, size_t at, const struct http_response *r,
                     struct buf *out, struct err *err)
{
    if (r->body == BODY_NONE)
        return 0;
    if (r->body == BODY_CHUNKED)
        return read_chunks(c, in, at, out, err);
    while (r->body == BODY_UNTIL_CLOSE || in->len - at < r->length) {
        ssize_t n = receive(c, in, err);
        if (n < 0)
            return err_number(err);
        if (n == 0 && r->body == BODY_LENGTH)
            return err_set(err, ERR_PROTOCOL, "Vault's answer is cut off");
        if (n == 0)
            break;
    }
    buf_add(out, buf_text(in) + at, r->body == BODY_LENGTH ? (size_t)r->length : in->len - at);
    return 0;
}

static int exchange(struct call *c, const struct vault_request *q, struct buf *ret, struct err *err)
{
    struct buf out cleanup_wiped, in cleanup_wiped;
    struct http_response response = {0};
    size_t head = 0;
    buf_init(&out, REPLY_MAX);
    buf_init(&in, REPLY_MAX);
    buf_room(&in, 16384);
    write_request(c->v, q, &out);
    if (out.failed)
        return err_set(err, ERR_LIMIT, "the request to Vault is too long");
    if (connect_any(c, err) < 0 || send_all(c, out.data, out.len, err) < 0 ||
        read_head(c, &in, q->method, &head, &response, err) < 0)
        return err_number(err);
    int r = read_body(c, &in, head, &response, ret, err);
    int status = response.status;
    http_response_done(&response);
    if (r == 0 && ret->failed)
        r = err_set(err, ERR_PROTOCOL, "Vault's answer is too long");
    return r < 0 ? r : status;
}

int vault_call(struct vault_server *v, const struct vault_request *q, struct buf *ret,
               struct err *err)
{
    struct call c = {.v = v, .fd = -1, .deadline_ms = now_ms() + CALL_MS};
    if (c.deadline_ms > v->deadline_ms)
        c.deadline_ms = v->deadline_ms;
    int status = exchange(&c, q, ret, err);
    if (c.session)
        v->transport->close(c.session);
    if (c.fd >= 0)
        close(c.fd);
    return status;
}
