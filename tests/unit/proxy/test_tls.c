/* Handshakes in both directions, against OpenSSL in another process. */
#include "tls_peer.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>

static const char http11[] = "\x08http/1.1";
static const char h2[] = "\x02h2";
static const char both[] = "\x02h2\x08http/1.1";
#define ALPN(text) .alpn = (const uint8_t *)(text), .alpn_len = sizeof(text) - 1

static struct loop *loop;
static struct tls_context *context;
static struct cert root;
static struct stream *stream;
static int result;
static unsigned calls;
static struct err why;

static void begin(void)
{
    cr_assert_eq(loop_new(&loop, &why), 0);
    cr_assert_eq(tls_context_new(true, &context, &why), 0, "%s", why.message);
    root = cert_make(&(struct cert_spec){.name = "test root", .ca = true}, NULL);
    cert_trust(context, &root);
}

static void end(void)
{
    tls_context_free(context);
    loop_free(loop);
    cert_free(&root);
}

static struct host name_of(const char *text)
{
    struct host host = {.kind = HOST_NAME};
    snprintf(host.text, sizeof host.text, "%s", text);
    return host;
}

static struct host address_of(uint8_t a, uint8_t b, uint8_t c, uint8_t d)
{
    struct host host = {.kind = HOST_IPV4, .addr = {a, b, c, d}};
    snprintf(host.text, sizeof host.text, "%u.%u.%u.%u", a, b, c, d);
    return host;
}

static void on_done(void *ctx, int r, const struct err *err)
{
    calls++;
    result = r;
    if (err)
        why = *err;
    cr_assert_eq(r < 0, err != NULL);
    loop_stop(loop);
}

/* Deferred work of the loop is done when this returns. */
static void stop_timer(struct loop_timer *t)
{
    loop_stop(loop);
}

static void settle(void)
{
    struct loop_timer t = {.fn = stop_timer};
    loop_timer_set(loop, &t, 1);
    loop_run(loop);
    loop_timer_cancel(loop, &t);
}

static void wrap(int fd)
{
    cr_assert_eq(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
    stream = stream_new(loop, fd);
    cr_assert(stream);
}

static int shake(int started)
{
    calls = 0;
    if (started < 0)
        return started;
    loop_run(loop);
    cr_assert_eq(calls, 1);
    return result;
}

static int dial(const struct peer *p, struct host host)
{
    wrap(p->fd);
    return shake(tls_connect(context, stream, &host, on_done, NULL, &why));
}

static int serve(const struct peer *p, struct host host, const void *seen, size_t len)
{
    wrap(p->fd);
    return shake(tls_accept(context, stream, &host, seen, len, on_done, NULL, &why));
}

static void finish(void)
{
    stream_close(stream);
    settle();
}

/* ---- reading and writing until something happens ---- */

static char got[1 << 16];
static size_t got_len;
static ssize_t last;

static void on_read(void *ctx, unsigned ready)
{
    while ((last = stream_read(stream, got + got_len, sizeof got - got_len)) > 0)
        got_len += (size_t)last;
    if (last != -EAGAIN)
        loop_stop(loop);
}

static ssize_t read_to_end(void)
{
    got_len = 0;
    stream_on(stream, on_read, NULL);
    stream_want(stream, STREAM_READABLE);
    loop_run(loop);
    return last;
}

/* ---- towards the outside ---- */

static int dial_again(const struct peer_spec *spec, struct host host, int *ret_exit)
{
    struct peer p = peer_start(spec);
    int r = dial(&p, host);
    if (r == 0)
        stream_finish(stream);
    if (r == 0)
        read_to_end();
    finish();
    int code = peer_exit(&p);
    if (ret_exit)
        *ret_exit = code;
    return r;
}

/* As if for the first time. */
static int dial_server(const struct peer_spec *spec, struct host host, int *ret_exit)
{
    tickets_done(&context->tickets);
    return dial_again(spec, host, ret_exit);
}

TestSuite(tls_client, .init = begin, .fini = end, .timeout = 60);

Test(tls_client, a_good_server)
{
    int code;
    struct cert leaf = cert_make(&(struct cert_spec){.name = "good.test"}, &root);
    struct peer_spec spec = {.cert = &leaf, ALPN(http11), .say = "welcome"};
    cr_assert_eq(dial_server(&spec, name_of("good.test"), &code), 0, "%s", why.message);
    cr_assert(got_len == 7 && memcmp(got, "welcome", 7) == 0);
    cr_assert_eq(code, PEER_FINE);
    cr_assert_eq(last, 0, "close_notify is the end");
    spec.max_version = TLS1_2_VERSION;
    cr_assert_eq(dial_server(&spec, name_of("good.test"), &code), 0, "TLS 1.2: %s", why.message);
    spec.alpn = NULL;
    cr_assert_eq(dial_server(&spec, name_of("good.test"), &code), 0, "no ALPN: %s", why.message);
    cert_free(&leaf);
}

Test(tls_client, a_chain_over_an_authority_in_between)
{
    struct cert middle = cert_make(&(struct cert_spec){.name = "middle", .ca = true}, &root);
    struct cert leaf = cert_make(&(struct cert_spec){.name = "good.test"}, &middle);
    struct peer_spec spec = {.cert = &leaf, .chain = &middle};
    cr_assert_eq(dial_server(&spec, name_of("good.test"), NULL), 0, "%s", why.message);
    spec.chain = NULL;
    cr_assert_lt(dial_server(&spec, name_of("good.test"), NULL), 0);
    cr_assert_str_eq(why.message, "certificate is of an unknown authority");
    cert_free(&middle);
    cert_free(&leaf);
}

/* Two authorities of one name: the one that signed is found, whichever comes first. */
Test(tls_client, a_root_that_was_renewed)
{
    struct cert twin = cert_make(&(struct cert_spec){.name = "test root", .ca = true}, NULL);
    cert_trust(context, &twin);
    for (int i = 0; i < 2; i++) {
        struct cert leaf = cert_make(&(struct cert_spec){.name = "good.test"}, i ? &root : &twin);
        struct peer_spec spec = {.cert = &leaf};
        cr_assert_eq(dial_server(&spec, name_of("good.test"), NULL), 0, "%d: %s", i, why.message);
        cert_free(&leaf);
    }
    cert_free(&twin);
}

Test(tls_client, resumes_what_was_verified)
{
    int code;
    struct cert leaf = cert_make(&(struct cert_spec){.name = "*.good.test"}, &root);
    struct peer_spec spec = {.cert = &leaf, .say = "welcome"};
    cr_assert_eq(dial_again(&spec, name_of("a.good.test"), &code), 0, "%s", why.message);
    cr_assert_eq(code, PEER_FINE);
    spec.resumed = true;
    cr_assert_eq(dial_again(&spec, name_of("a.good.test"), &code), 0, "%s", why.message);
    cr_assert_eq(code, PEER_FINE, "the second time it is resumed");
    cr_assert_eq(got_len, 7);
    spec.resumed = false;
    cr_assert_eq(dial_again(&spec, name_of("b.good.test"), &code), 0, "%s", why.message);
    cr_assert_eq(code, PEER_FINE, "another name is verified anew");
    context->tickets.items[0].verified_ms -= 11 * 60 * 1000;
    spec.resumed = false;
    cr_assert_eq(dial_again(&spec, name_of("a.good.test"), &code), 0, "%s", why.message);
    cr_assert_eq(code, PEER_FINE, "after some minutes as well");
    cert_free(&leaf);
}

static void refused(const struct cert *leaf, struct host host, const char *words)
{
    int code;
    struct peer_spec spec = {.cert = leaf, .say = "welcome"};
    cr_assert_lt(dial_server(&spec, host, &code), 0, "expected: %s", words);
    cr_assert_str_eq(why.message, words);
    cr_assert_eq(why.code, ERR_REFUSED);
    cr_assert_neq(code, PEER_FINE, "the server learns of it");
}

Test(tls_client, wrong_names)
{
    static const uint8_t ip[] = {192, 0, 2, 1};
    struct cert leaf = cert_make(&(struct cert_spec){.name = "good.test"}, &root);
    refused(&leaf, name_of("other.test"), "certificate is for another name");
    refused(&leaf, name_of("sub.good.test"), "certificate is for another name");
    refused(&leaf, address_of(192, 0, 2, 1), "certificate is for another address");
    struct cert star = cert_make(&(struct cert_spec){.name = "*.good.test"}, &root);
    struct peer_spec spec = {.cert = &star};
    cr_assert_eq(dial_server(&spec, name_of("sub.good.test"), NULL), 0, "%s", why.message);
    refused(&star, name_of("good.test"), "certificate is for another name");
    refused(&star, name_of("a.b.good.test"), "certificate is for another name");
    struct cert numbered = cert_make(&(struct cert_spec){.name = "x.test", .ip = ip}, &root);
    spec.cert = &numbered;
    cr_assert_eq(dial_server(&spec, address_of(192, 0, 2, 1), NULL), 0, "%s", why.message);
    refused(&numbered, address_of(192, 0, 2, 2), "certificate is for another address");
    /* The common name alone has not meant anything for a long time. */
    refused(&numbered, name_of("x.test"), "certificate is for another name");
    cert_free(&leaf);
    cert_free(&star);
    cert_free(&numbered);
}

Test(tls_client, wrong_times)
{
    struct cert old =
        cert_make(&(struct cert_spec){.name = "good.test", .from = -7200, .to = -3600}, &root);
    struct cert early =
        cert_make(&(struct cert_spec){.name = "good.test", .from = 3600, .to = 7200}, &root);
    refused(&old, name_of("good.test"), "certificate has expired");
    refused(&early, name_of("good.test"), "certificate is not valid yet");
    cert_free(&old);
    cert_free(&early);
}

Test(tls_client, wrong_authorities)
{
    struct cert other = cert_make(&(struct cert_spec){.name = "other root", .ca = true}, NULL);
    struct cert leaf = cert_make(&(struct cert_spec){.name = "good.test"}, &other);
    struct cert self = cert_make(&(struct cert_spec){.name = "good.test"}, NULL);
    struct cert fake = cert_make(&(struct cert_spec){.name = "test root", .ca = true}, NULL);
    struct cert forged = cert_make(&(struct cert_spec){.name = "good.test"}, &fake);
    struct cert plain = cert_make(&(struct cert_spec){.name = "plain.test"}, &root);
    struct cert below = cert_make(&(struct cert_spec){.name = "good.test"}, &plain);
    refused(&leaf, name_of("good.test"), "certificate is of an unknown authority");
    refused(&self, name_of("good.test"), "certificate is self-signed");
    refused(&forged, name_of("good.test"), "certificate is of an unknown authority");
    struct peer_spec spec = {.cert = &below, .chain = &plain};
    cr_assert_lt(dial_server(&spec, name_of("good.test"), NULL), 0, "no authority may sign");
    cr_assert_eq(why.code, ERR_REFUSED);
    cert_free(&other);
    cert_free(&leaf);
    cert_free(&self);
    cert_free(&fake);
    cert_free(&forged);
    cert_free(&plain);
    cert_free(&below);
}

Test(tls_client, old_versions_and_other_protocols)
{
    struct cert leaf = cert_make(&(struct cert_spec){.name = "good.test", .rsa = true}, &root);
    struct peer_spec spec = {.cert = &leaf, .max_version = TLS1_1_VERSION};
    cr_assert_lt(dial_server(&spec, name_of("good.test"), NULL), 0);
    cr_assert_str_eq(why.message, "no TLS version in common: 1.2 or later is needed");
    spec.max_version = TLS1_2_VERSION;
    cr_assert_eq(dial_server(&spec, name_of("good.test"), NULL), 0, "%s", why.message);
    spec = (struct peer_spec){.cert = &leaf, ALPN(h2)};
    cr_assert_lt(dial_server(&spec, name_of("good.test"), NULL), 0, "h2 was not offered");
    cert_free(&leaf);
}

static void talk_plainly(const char *text, const char *words)
{
    int pair[2];
    cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    cr_assert_eq(write(pair[1], text, strlen(text)), (ssize_t)strlen(text));
    shutdown(pair[1], SHUT_WR);
    struct peer p = {.fd = pair[0]};
    cr_assert_lt(dial(&p, name_of("good.test")), 0);
    cr_assert_str_eq(why.message, words);
    finish();
    close(pair[1]);
}

Test(tls_client, servers_without_tls)
{
    talk_plainly("HTTP/1.1 400 Bad Request\r\n\r\n", "the other side does not speak TLS");
    talk_plainly("", "the connection ended during the handshake");
}

Test(tls_client, a_server_that_says_nothing)
{
    int pair[2];
    cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    struct peer p = {.fd = pair[0]};
    context->handshake_ms = 20;
    cr_assert_lt(dial(&p, name_of("good.test")), 0);
    cr_assert_str_eq(why.message, "the TLS handshake took too long");
    finish();
    close(pair[1]);
}

Test(tls_client, closed_in_the_middle)
{
    int pair[2];
    cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    struct host host = name_of("good.test");
    wrap(pair[0]);
    calls = 0;
    context->handshake_ms = 5;
    cr_assert_eq(tls_connect(context, stream, &host, on_done, NULL, &why), 0);
    finish();
    poll(NULL, 0, 10);
    settle();
    cr_assert_eq(calls, 0);
    close(pair[1]);
}

/* Records larger than what is asked for, and behind them more: nothing is lost in between. */
Test(tls_client, small_bites)
{
    static char text[40001];
    size_t at = 0;
    for (size_t i = 0; i < sizeof text - 1; i++)
        text[i] = (char)('a' + i * 7 % 26);
    struct cert leaf = cert_make(&(struct cert_spec){.name = "good.test"}, &root);
    struct peer_spec spec = {.cert = &leaf, .say = text, .drop = true};
    struct peer p = peer_start(&spec);
    cr_assert_eq(dial(&p, name_of("good.test")), 0);
    ssize_t n;
    while ((n = stream_read(stream, got, 13)) > 0 || n == -EAGAIN)
        for (ssize_t i = 0; i < n; i++)
            cr_assert_eq(got[i], text[at++]);
    cr_assert_eq(at, sizeof text - 1);
    finish();
    peer_exit(&p);
    cert_free(&leaf);
}

/* An end that anybody on the way could have made is no end. */
Test(tls_client, a_cut_is_not_an_end)
{
    struct cert leaf = cert_make(&(struct cert_spec){.name = "good.test"}, &root);
    struct peer_spec spec = {.cert = &leaf, .say = "half of", .drop = true};
    struct peer p = peer_start(&spec);
    cr_assert_eq(dial(&p, name_of("good.test")), 0);
    cr_assert_eq(read_to_end(), -EPROTO);
    cr_assert_eq(got_len, 7);
    finish();
    peer_exit(&p);
    cert_free(&leaf);
}

/* ---- towards the sandbox ---- */

static int serve_client(const struct peer_spec *spec, const char *host, int *ret_exit)
{
    struct peer p = peer_start(spec);
    int r = serve(&p, name_of(host), NULL, 0);
    if (r == 0)
        stream_finish(stream);
    finish();
    *ret_exit = peer_exit(&p);
    return r;
}

TestSuite(tls_server, .init = begin, .fini = end, .timeout = 60);

Test(tls_server, clients_that_trust_the_run)
{
    int code;
    struct peer_spec spec = {
        .trusted_pem = tls_authority_pem(context), .host = "api.test", ALPN(http11)};
    cr_assert_eq(serve_client(&spec, "api.test", &code), 0, "%s", why.message);
    cr_assert_eq(code, PEER_FINE);
    spec.max_version = TLS1_2_VERSION;
    cr_assert_eq(serve_client(&spec, "api.test", &code), 0, "%s", why.message);
    cr_assert_eq(code, PEER_FINE);
    spec = (struct peer_spec){.trusted_pem = tls_authority_pem(context), .host = "other.test"};
    cr_assert_lt(serve_client(&spec, "api.test", &code), 0, "control: the name is verified");
    cr_assert_neq(code, PEER_FINE);
}

Test(tls_server, addresses_and_long_names)
{
    int code;
    char name[256];
    struct peer_spec spec = {.trusted_pem = tls_authority_pem(context), .host = "192.0.2.7"};
    struct peer p = peer_start(&spec);
    cr_assert_eq(serve(&p, address_of(192, 0, 2, 7), NULL, 0), 0, "%s", why.message);
    stream_finish(stream);
    finish();
    cr_assert_eq(peer_exit(&p), PEER_FINE);
    snprintf(name, sizeof name, "%060d.%060d.%060d.test", 1, 2, 3);
    spec.host = name;
    cr_assert_eq(serve_client(&spec, name, &code), 0, "%s", why.message);
    cr_assert_eq(code, PEER_FINE);
}

Test(tls_server, a_client_that_does_not_trust_the_run)
{
    int code;
    struct tls_context *other;
    cr_assert_eq(tls_context_new(true, &other, NULL), 0);
    struct peer_spec spec = {.trusted_pem = tls_authority_pem(other), .host = "api.test"};
    cr_assert_lt(serve_client(&spec, "api.test", &code), 0);
    cr_assert_str_eq(why.message, "the program does not trust the run's authority");
    tls_context_free(other);
}

Test(tls_server, only_http11)
{
    int code;
    struct peer_spec spec = {
        .trusted_pem = tls_authority_pem(context), .host = "api.test", ALPN(both)};
    cr_assert_eq(serve_client(&spec, "api.test", &code), 0, "%s", why.message);
    cr_assert_eq(code, PEER_FINE);
    spec = (struct peer_spec){.trusted_pem = tls_authority_pem(context), .host = "api.test"};
    cr_assert_eq(serve_client(&spec, "api.test", &code), 0, "%s", why.message);
    cr_assert_eq(code, PEER_FINE);
    spec =
        (struct peer_spec){.trusted_pem = tls_authority_pem(context), .host = "api.test", ALPN(h2)};
    cr_assert_lt(serve_client(&spec, "api.test", &code), 0);
    cr_assert_str_eq(why.message, "no protocol in common: only HTTP/1.1 is spoken");
    cr_assert_eq(code, PEER_ALERT + SSL_AD_NO_APPLICATION_PROTOCOL);
}

Test(tls_server, old_versions)
{
    int code;
    struct peer_spec spec = {.trusted_pem = tls_authority_pem(context),
                             .host = "api.test",
                             .max_version = TLS1_1_VERSION};
    cr_assert_lt(serve_client(&spec, "api.test", &code), 0);
    cr_assert_str_eq(why.message, "no TLS version in common: 1.2 or later is needed");
    cr_assert_neq(code, PEER_FINE);
}

/* As sniffing does it: the first bytes were read by somebody else. */
Test(tls_server, bytes_that_were_read_before)
{
    static const size_t cuts[] = {1, 4, 5, 6, 100, 4096};
    for (size_t i = 0; i < ARRAY_LEN(cuts); i++) {
        char seen[4096];
        struct peer_spec spec = {
            .trusted_pem = tls_authority_pem(context), .host = "api.test", .say = "GET /"};
        struct peer p = peer_start(&spec);
        ssize_t n = recv(p.fd, seen, cuts[i], 0);
        cr_assert_gt(n, 0);
        cr_assert_eq(serve(&p, name_of("api.test"), seen, (size_t)n), 0, "%zu: %s", cuts[i],
                     why.message);
        stream_finish(stream);
        cr_assert_eq(read_to_end(), 0);
        cr_assert(got_len == 5 && memcmp(got, "GET /", 5) == 0);
        finish();
        cr_assert_eq(peer_exit(&p), PEER_FINE);
    }
}

Test(tls_server, without_an_authority)
{
    struct tls_context *none;
    int pair[2];
    struct host host = name_of("api.test");
    cr_assert_eq(tls_context_new(false, &none, NULL), 0);
    cr_assert_null(tls_authority_pem(none));
    cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair), 0);
    stream = stream_new(loop, pair[0]);
    cr_assert_lt(tls_accept(none, stream, &host, NULL, 0, on_done, NULL, &why), 0);
    finish();
    close(pair[1]);
    tls_context_free(none);
}

Test(tls_server, nonsense_instead_of_a_hello)
{
    int pair[2];
    struct host host = name_of("api.test");
    cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair), 0);
    stream = stream_new(loop, pair[0]);
    calls = 0;
    cr_assert_lt(
        tls_accept(context, stream, &host, "GET / HTTP/1.1\r\n\r\n", 18, on_done, NULL, &why), 0,
        "it fails at once");
    cr_assert_eq(calls, 0);
    cr_assert_null(stream->tls);
    finish();
    close(pair[1]);
}

/* OpenSSL would make room for all of it at once. */
Test(tls_server, a_hello_that_says_it_is_long)
{
    static const char hello[2][9] = {{22, 3, 1, 2, 0, 1, 0, (char)0x80, 1},
                                     {22, 3, 1, 2, 0, 1, 0, (char)0x80, 0}};
    struct host host = name_of("api.test");
    for (int good = 0; good <= 1; good++) {
        int pair[2];
        cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair), 0);
        stream = stream_new(loop, pair[0]);
        int r = tls_accept(context, stream, &host, hello[good], 9, on_done, NULL, &why);
        cr_assert_eq(r == 0, good, "%d %s", r, why.message);
        if (!good)
            cr_assert_str_eq(why.message, "a message of the handshake says that it is too long");
        finish();
        close(pair[1]);
    }
}

/* ---- much data, both ways at once ---- */

#define MUCH (6u << 20)

static uint8_t pattern(size_t i)
{
    return (uint8_t)(i * 7 + i / 4099);
}

struct flow {
    uint8_t block[40000];
    size_t sent, received, odd;
};
static struct flow flow;

static bool flow_send(void)
{
    while (flow.sent < MUCH) {
        size_t n = sizeof flow.block < MUCH - flow.sent ? sizeof flow.block : MUCH - flow.sent;
        for (size_t i = 0; i < n; i++)
            flow.block[i] = pattern(flow.sent + i);
        ssize_t w = stream_write(stream, flow.block, n);
        if (w == -EAGAIN)
            return true;
        cr_assert_gt(w, 0);
        flow.sent += (size_t)w;
    }
    return false;
}

static void flow_receive(void)
{
    uint8_t data[30011];
    ssize_t n = stream_read(stream, data, sizeof data);
    cr_assert(n > 0 || n == -EAGAIN, "%zd", n);
    for (ssize_t i = 0; i < n; i++)
        flow.odd += data[i] != pattern(flow.received++);
}

static void on_flow(void *ctx, unsigned ready)
{
    if (ready & STREAM_READABLE)
        flow_receive();
    bool more = ready & STREAM_WRITABLE ? flow_send() : flow.sent < MUCH;
    stream_want(stream, STREAM_READABLE | (more ? STREAM_WRITABLE : 0));
    if (flow.received == MUCH)
        loop_stop(loop);
}

Test(tls_server, much_data_comes_back_whole)
{
    struct peer_spec spec = {
        .trusted_pem = tls_authority_pem(context), .host = "api.test", .echo = true};
    struct peer p = peer_start(&spec);
    int small = 8192;
    setsockopt(p.fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
    cr_assert_eq(serve(&p, name_of("api.test"), NULL, 0), 0);
    stream_on(stream, on_flow, NULL);
    stream_want(stream, STREAM_READABLE | STREAM_WRITABLE);
    loop_run(loop);
    cr_assert(flow.received == MUCH && flow.odd == 0);
    stream_finish(stream);
    finish();
    peer_exit(&p);
}

/* ---- memory ---- */

/* Of the sanitizer, where the test is built with it. */
extern size_t __sanitizer_get_current_allocated_bytes(void) __attribute__((weak));

/* All that is held for one intercepted connection at rest: towards the sandbox and, to a server
 * that was there before, towards the outside. */
Test(tls_memory, of_an_intercepted_connection, .init = begin, .fini = end, .timeout = 60)
{
    struct cert middle =
        cert_make(&(struct cert_spec){.name = "m", .ca = true, .rsa = true}, &root);
    struct cert leaf = cert_make(&(struct cert_spec){.name = "api.test", .rsa = true}, &middle);
    struct peer_spec server = {.cert = &leaf, .chain = &middle, .say = "welcome"};
    struct peer_spec client = {.trusted_pem = tls_authority_pem(context), .host = "api.test"};
    cr_assert_eq(dial_server(&server, name_of("api.test"), NULL), 0, "%s", why.message);
    server.resumed = true;
    for (int i = 0; i < 2; i++) {
        struct peer inside = peer_start(&client), outside = peer_start(&server);
        size_t before = __sanitizer_get_current_allocated_bytes();
        cr_assert_eq(serve(&inside, name_of("api.test"), NULL, 0), 0, "%s", why.message);
        struct stream *first = stream;
        cr_assert_eq(dial(&outside, name_of("api.test")), 0, "%s", why.message);
        got_len = 0;
        while (got_len < 7) {
            last = stream_read(stream, got, sizeof got);
            got_len += last > 0 ? (size_t)last : 0;
        }
        cr_assert_eq(stream_read(stream, got, sizeof got), -EAGAIN);
        size_t used = __sanitizer_get_current_allocated_bytes() - before;
        stream_finish(first);
        stream_close(first);
        stream_finish(stream);
        finish();
        cr_assert_eq(peer_exit(&inside), PEER_FINE);
        cr_assert_eq(peer_exit(&outside), PEER_FINE);
        cr_assert(i == 0 || used < 28 * 1024, "%zu bytes", used);
    }
    cert_free(&middle);
    cert_free(&leaf);
}

/* ---- the authority ---- */

Test(authority, remembers_within_bounds)
{
    struct authority *a;
    cr_assert_eq(authority_new(&a, NULL), 0);
    struct host first = name_of("first.test"), second = name_of("second.test");
    X509 *kept = authority_leaf(a, &first);
    cr_assert(kept && authority_leaf(a, &first) == kept);
    X509_up_ref(kept);
    cr_assert_neq(authority_leaf(a, &second), kept);
    for (int i = 0; i < 300; i++) {
        char name[32];
        snprintf(name, sizeof name, "h%d.test", i);
        struct host host = name_of(name);
        cr_assert(authority_leaf(a, &host));
        cr_assert_eq(authority_leaf(a, &first), kept, "what is used stays");
    }
    cr_assert_eq(authority_leaf_count(a), 256);
    X509_free(kept);
    authority_free(a);
}

Test(authority, two_runs_have_nothing_in_common)
{
    struct authority *a, *b;
    cr_assert_eq(authority_new(&a, NULL), 0);
    cr_assert_eq(authority_new(&b, NULL), 0);
    cr_assert_str_neq(authority_pem(a), authority_pem(b));
    cr_assert_neq(EVP_PKEY_eq(authority_leaf_key(a), authority_leaf_key(b)), 1);
    cr_assert_null(strstr(authority_pem(a), "PRIVATE"));
    authority_free(a);
    authority_free(b);
}

/* ---- trusted files ---- */

static int trust_text(const char *text)
{
    char path[] = "/tmp/brig-test-roots-XXXXXX";
    int fd = mkstemp(path);
    cr_assert_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
    int r = tls_trust(context, path, &why);
    unlink(path);
    return r;
}

Test(roots, a_file_that_is_wrong_is_an_error, .init = begin, .fini = end)
{
    cr_assert_lt(tls_trust(context, "/nonexistent/roots.pem", &why), 0);
    cr_assert_lt(trust_text("no certificate\n"), 0);
    cr_assert_lt(trust_text("-----BEGIN CERTIFICATE-----\nMAA=\n"), 0);
    cr_assert_lt(trust_text("-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n"), 0);
    cr_assert_eq(trust_text(tls_authority_pem(context)), 0, "%s", why.message);
}
