/* TLS connections over OpenSSL: handshakes with a deadline, reading, writing, and what to wait for
 * in between. */
#include "proxy/tls_internal.h"

#include "base/cleanup.h"
#include "base/container.h"
#include "base/shake_parse.h"

#include <errno.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

/* System calls that one call of ours may read with: a peer that sends records without data (key
 * updates, empty ones) faster than we look at them must not keep the others waiting. */
#define READS_AT_ONCE 16
/* Of one message of a program's side of a handshake: OpenSSL makes room for what a hello says of
 * itself, up to 128 KiB, and a program can begin thousands. */
#define MESSAGE_MAX (32u * 1024)

/* Owned by its stream. */
struct tls {
    SSL *ssl;
    struct stream *stream;
    struct tls_context *context;
    struct loop_timer timer; /* of the handshake */
    tls_done *done;
    void *ctx;
    uint8_t *seen; /* bytes that were read before we came; NULL once they are consumed */
    size_t seen_at, seen_len;
    unsigned reads_left;
    struct shake said;
    bool claims_much; /* a message of it says that it is longer than MESSAGE_MAX */
    bool server, handshaking, failed;
    bool eof;     /* the socket has ended */
    bool drained; /* nothing can be read before the socket has more */
    bool finished;
    uint32_t read_needs, write_needs; /* EPOLL* */
};

/* ---- the socket, as OpenSSL sees it ---- */

static size_t take_seen(struct tls *t, char *out, size_t len)
{
    size_t n = t->seen_len - t->seen_at;
    if (n > len)
        n = len;
    memcpy(out, t->seen + t->seen_at, n);
    t->seen_at += n;
    if (t->seen_at == t->seen_len) {
        free(t->seen);
        t->seen = NULL;
    }
    return n;
}

/* Of what was read: `n`, or -1 where OpenSSL gets to see none of it. */
static int show(struct tls *t, const char *data, ssize_t n)
{
    if (n > 0 && t->server && t->handshaking)
        t->claims_much = !shake_take(&t->said, data, (size_t)n, MESSAGE_MAX,
                                     SSL_version(t->ssl) < TLS1_3_VERSION);
    return t->claims_much ? -1 : (int)n;
}

static int socket_read(BIO *bio, char *out, int len)
{
    struct tls *t = BIO_get_data(bio);
    ssize_t n;
    BIO_clear_retry_flags(bio);
    if (len <= 0)
        return 0;
    if (t->seen)
        return show(t, out, (ssize_t)take_seen(t, out, (size_t)len));
    if (t->reads_left == 0) {
        BIO_set_retry_read(bio);
        return -1;
    }
    t->reads_left--;
    do
        n = recv(t->stream->io.fd, out, (size_t)len, 0);
    while (n < 0 && errno == EINTR);
    if (n == 0)
        t->eof = true;
    else if (n < 0 && errno == EAGAIN)
        BIO_set_retry_read(bio);
    return show(t, out, n);
}

static int socket_write(BIO *bio, const char *data, int len)
{
    struct tls *t = BIO_get_data(bio);
    ssize_t n;
    BIO_clear_retry_flags(bio);
    do
        n = send(t->stream->io.fd, data, (size_t)len, MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    if (n < 0 && errno == EAGAIN)
        BIO_set_retry_write(bio);
    return (int)n;
}

static long socket_control(BIO *bio, int command, long number, void *pointer)
{
    const struct tls *t = BIO_get_data(bio);
    switch (command) {
    case BIO_CTRL_FLUSH:
        return 1;
    case BIO_CTRL_EOF:
        return t->eof;
    default:
        return 0;
    }
}

static BIO_METHOD *socket_method(void)
{
    static BIO_METHOD *method;
    if (method)
        return method;
    BIO_METHOD *m = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "stream");
    if (!m || !BIO_meth_set_read(m, socket_read) || !BIO_meth_set_write(m, socket_write) ||
        !BIO_meth_set_ctrl(m, socket_control)) {
        BIO_meth_free(m);
        return NULL;
    }
    return method = m;
}

/* ---- the handshake ---- */

/* What SSL_get_error says, as what to wait for; 0: nothing will help. */
static uint32_t needs_of(int error)
{
    return error == SSL_ERROR_WANT_READ ? EPOLLIN : error == SSL_ERROR_WANT_WRITE ? EPOLLOUT : 0;
}

static int check_protocol(struct tls *t, struct err *err)
{
    const unsigned char *name;
    unsigned len;
    SSL_get0_alpn_selected(t->ssl, &name, &len);
    if (len == 0 || (len == 8 && memcmp(name, "http/1.1", 8) == 0))
        return 0;
    return err_set(err, ERR_PROTOCOL, "the other side chose a protocol that was not offered");
}

/* Certificates that were looked at and will not be again: kilobytes each, for as long as the
 * connection lives. OpenSSL keeps its own reference to the server's. */
static void drop_certificates(STACK_OF(X509) * chain)
{
    X509 *x;
    while (chain && (x = sk_X509_pop(chain)))
        X509_free(x);
}

static void drop_chain(SSL *ssl)
{
    drop_certificates(SSL_get_peer_cert_chain(ssl));
    drop_certificates(SSL_get0_verified_chain(ssl));
}

/* 1: done; 0: waits; negative: failed. */
static int handshake(struct tls *t, struct err *err)
{
    ERR_clear_error();
    int result = SSL_do_handshake(t->ssl);
    if (result == 1) {
        if (!t->server)
            drop_chain(t->ssl);
        return check_protocol(t, err) < 0 ? err_number(err) : 1;
    }
    uint32_t needs = needs_of(SSL_get_error(t->ssl, result));
    t->read_needs = t->write_needs = needs;
    if (needs)
        return 0;
    if (t->claims_much)
        err_set(err, ERR_PROTOCOL, "a message of the handshake says that it is too long");
    else
        tls_explain(t->ssl, t->server, t->eof, err);
    ERR_clear_error();
    return err_number(err);
}

static void end_handshake(struct tls *t, int result, const struct err *err)
{
    tls_done *done = t->done;
    loop_timer_cancel(t->stream->loop, &t->timer);
    t->handshaking = false;
    t->failed = result < 0;
    t->read_needs = EPOLLIN;
    t->write_needs = EPOLLOUT;
    stream_on(t->stream, NULL, NULL);
    stream_want(t->stream, 0);
    done(t->ctx, result, err); /* which may end `t` */
}

static void on_ready(void *ctx, unsigned ready)
{
    struct tls *t = ctx;
    struct err err = ERR_INIT;
    t->reads_left = READS_AT_ONCE;
    int result = handshake(t, &err);
    if (result != 0)
        end_handshake(t, result < 0 ? result : 0, result < 0 ? &err : NULL);
}

static void on_timeout(struct loop_timer *timer)
{
    struct tls *t = container_of(timer, struct tls, timer);
    struct err err = ERR_INIT;
    int result = err_set(&err, ERR_PROTOCOL, "the TLS handshake took too long");
    end_handshake(t, result, &err);
}

static struct tls *tls_new(struct tls_context *c, SSL_CTX *ctx, struct stream *s, bool server)
{
    struct tls *t = calloc(1, sizeof *t);
    BIO_METHOD *method = socket_method();
    BIO *bio = method ? BIO_new(method) : NULL;
    if (!t || !bio || !(t->ssl = SSL_new(ctx))) {
        BIO_free(bio);
        free(t);
        return NULL;
    }
    BIO_set_data(bio, t);
    BIO_set_init(bio, 1);
    SSL_set_bio(t->ssl, bio, bio);
    t->stream = s;
    t->context = c;
    t->server = server;
    t->timer.fn = on_timeout;
    return t;
}

/* The first step sends and looks at what was seen, but reads nothing: so it can fail, and then says
 * so to the caller, but never ends before the caller knows of it. */
static int start(struct tls *t, tls_done *done, void *ctx, struct err *err)
{
    struct stream *s = t->stream;
    t->handshaking = true;
    t->done = done;
    t->ctx = ctx;
    if (t->server)
        SSL_set_accept_state(t->ssl);
    else
        SSL_set_connect_state(t->ssl);
    int result = handshake(t, err);
    if (result != 0) {
        tls_free(t);
        return result < 0 ? result : err_set(err, ERR_INTERNAL, "a handshake without an answer");
    }
    s->tls = t;
    loop_timer_set(s->loop, &t->timer, t->context->handshake_ms);
    stream_on(s, on_ready, t);
    stream_want(s, STREAM_READABLE | STREAM_WRITABLE);
    return 0;
}

static bool expect_host(SSL *ssl, const struct host *host)
{
    X509_VERIFY_PARAM *param = SSL_get0_param(ssl);
    if (host->kind != HOST_NAME)
        return X509_VERIFY_PARAM_set1_ip(param, host->addr, host->kind == HOST_IPV4 ? 4 : 16) == 1;
    X509_VERIFY_PARAM_set_hostflags(param, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS |
                                               X509_CHECK_FLAG_NEVER_CHECK_SUBJECT);
    return X509_VERIFY_PARAM_set1_host(param, host->text, 0) == 1 &&
           SSL_set_tlsext_host_name(ssl, host->text) == 1;
}

int tls_connect(struct tls_context *c, struct stream *s, const struct host *host, tls_done *done,
                void *ctx, struct err *err)
{
    SSL_CTX *settings = tls_client_context(c);
    struct tls *t = settings ? tls_new(c, settings, s, false) : NULL;
    if (!t || !expect_host(t->ssl, host)) {
        tls_free(t);
        return err_memory(err);
    }
    SSL_SESSION *known = host->kind == HOST_NAME
                             ? tickets_find(&c->tickets, host->text, loop_now_ms(s->loop))
                             : NULL;
    if (known)
        SSL_set_session(t->ssl, known);
    return start(t, done, ctx, err);
}

static bool keep_seen(struct tls *t, const void *seen, size_t len)
{
    if (len == 0)
        return true;
    t->seen = malloc(len);
    if (!t->seen)
        return false;
    memcpy(t->seen, seen, len);
    t->seen_len = len;
    return true;
}

int tls_accept(struct tls_context *c, struct stream *s, const struct host *host, const void *seen,
               size_t seen_len, tls_done *done, void *ctx, struct err *err)
{
    if (!c->authority)
        return err_set(err, ERR_INTERNAL, "this run has no authority");
    X509 *leaf = authority_leaf(c->authority, host);
    SSL_CTX *settings = leaf ? tls_server_context(c) : NULL;
    struct tls *t = settings ? tls_new(c, settings, s, true) : NULL;
    if (!t || !keep_seen(t, seen, seen_len) || SSL_use_certificate(t->ssl, leaf) != 1 ||
        SSL_use_PrivateKey(t->ssl, authority_leaf_key(c->authority)) != 1) {
        tls_free(t);
        ERR_clear_error();
        return err_memory(err);
    }
    return start(t, done, ctx, err);
}

int tls_on_session(SSL *ssl, SSL_SESSION *session)
{
    const struct tls *t = BIO_get_data(SSL_get_rbio(ssl));
    const char *name = SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name);
    if (name)
        tickets_keep(&t->context->tickets, name, session, SSL_session_reused(ssl),
                     loop_now_ms(t->stream->loop));
    return 0; /* the reference stays OpenSSL's */
}

/* ---- the stream's side ---- */

/* How a call that moved nothing ended: -EAGAIN with what to wait for, 0 at a proper end, or an
 * error. */
static ssize_t outcome(struct tls *t, int result, uint32_t *needs)
{
    int error = SSL_get_error(t->ssl, result);
    if ((*needs = needs_of(error)))
        return -EAGAIN;
    int saved = errno;
    *needs = EPOLLIN;
    ERR_clear_error();
    if (error == SSL_ERROR_ZERO_RETURN)
        return 0;
    t->failed = true;
    return error == SSL_ERROR_SYSCALL && saved && !t->eof ? -saved : -EPROTO;
}

/* A session ticket makes OpenSSL take a buffer for an answer that it never gives. Versions before
 * the fix of CVE-2024-4741 freed buffers that were still in use. */
static void give_back_buffers(SSL *ssl)
{
#if OPENSSL_VERSION_NUMBER >= 0x30300010L ||                                                       \
    (OPENSSL_VERSION_NUMBER >= 0x30200020L && OPENSSL_VERSION_NUMBER < 0x30300000L) ||             \
    (OPENSSL_VERSION_NUMBER >= 0x30100060L && OPENSSL_VERSION_NUMBER < 0x30200000L) ||             \
    (OPENSSL_VERSION_NUMBER >= 0x300000e0L && OPENSSL_VERSION_NUMBER < 0x30100000L)
    if (!SSL_has_pending(ssl))
        SSL_free_buffers(ssl);
#else
    (void)ssl;
#endif
}

static ssize_t read_records(struct tls *t, char *data, size_t len)
{
    size_t total = 0, n;
    do {
        errno = 0;
        int result = SSL_read_ex(t->ssl, data + total, len - total, &n);
        if (result != 1) {
            ssize_t end = outcome(t, result, &t->read_needs);
            t->drained = end == -EAGAIN;
            return total > 0 ? (ssize_t)total : end;
        }
        total += n;
    } while (total < len && SSL_has_pending(t->ssl));
    t->drained = false;
    t->read_needs = EPOLLIN;
    return (ssize_t)total;
}

ssize_t tls_read(struct tls *t, void *data, size_t len)
{
    if (t->failed)
        return -EPROTO;
    if (t->handshaking || len == 0)
        return -EAGAIN;
    ERR_clear_error();
    t->reads_left = READS_AT_ONCE;
    ssize_t n = read_records(t, data, len);
    give_back_buffers(t->ssl);
    return n;
}

ssize_t tls_write(struct tls *t, const void *data, size_t len)
{
    size_t total = 0, n;
    if (t->failed || t->finished)
        return -EPIPE;
    if (t->handshaking)
        return -EAGAIN;
    ERR_clear_error();
    t->reads_left = READS_AT_ONCE;
    while (total < len) {
        errno = 0;
        int result = SSL_write_ex(t->ssl, (const char *)data + total, len - total, &n);
        if (result != 1) {
            ssize_t end = outcome(t, result, &t->write_needs);
            return total > 0 ? (ssize_t)total : end == 0 ? -EPIPE : end;
        }
        total += n;
    }
    t->write_needs = EPOLLOUT;
    return (ssize_t)total;
}

bool tls_pending(const struct tls *t)
{
    return !t->handshaking && !t->failed && !t->drained && SSL_has_pending(t->ssl);
}

uint32_t tls_events(const struct tls *t, unsigned wanted)
{
    return (wanted & STREAM_READABLE ? t->read_needs : 0) |
           (wanted & STREAM_WRITABLE ? t->write_needs : 0);
}

void tls_finish(struct tls *t)
{
    if (t->handshaking || t->failed || t->finished)
        return;
    t->finished = true;
    ERR_clear_error();
    SSL_shutdown(t->ssl);
    ERR_clear_error();
}

void tls_free(struct tls *t)
{
    if (!t)
        return;
    loop_timer_cancel(t->stream->loop, &t->timer);
    /* Closing a connection in a hurry is no reason to forget the session. */
    if (!t->handshaking && !t->failed)
        SSL_set_shutdown(t->ssl, SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN);
    SSL_free(t->ssl);
    free(t->seen);
    free(t);
}
