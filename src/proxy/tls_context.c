/* The settings of both sides, and the life of what a run needs for TLS. */
#include "proxy/tls_internal.h"

#include "base/cleanup.h"

#include <openssl/crypto.h>
#include <string.h>
#include <time.h>

/* With forward secrecy only; CBC still, for servers that have nothing newer. */
#define CLIENT_CIPHERS "ECDHE+AESGCM:ECDHE+CHACHA20:DHE+AESGCM:DHE+CHACHA20:ECDHE+AES"
#define SERVER_CIPHERS                                                                             \
    "ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-ECDSA-AES256-GCM-SHA384:ECDHE-ECDSA-CHACHA20-POLY1305"
#define TLS13_CIPHERS "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256"
#define GROUPS        "X25519:P-256:P-384"
#define HANDSHAKE_MS  15000
#define CHAIN_DEPTH   8
#define CHAIN_BYTES   (64u * 1024)
/* Several records with one system call; given back as soon as it is empty. */
#define READ_BUFFER (48u * 1024)

static const uint8_t http11[] = {8, 'h', 't', 't', 'p', '/', '1', '.', '1'};

/* ---- settings ---- */

static bool set_common(SSL_CTX *ctx, const char *ciphers)
{
    SSL_CTX_set_options(ctx, SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_TICKET);
    SSL_CTX_set_mode(ctx, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE |
                              SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_read_ahead(ctx, 1);
    SSL_CTX_set_default_read_buffer_len(ctx, READ_BUFFER);
    return SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION) == 1 &&
           SSL_CTX_set_cipher_list(ctx, ciphers) == 1 &&
           SSL_CTX_set_ciphersuites(ctx, TLS13_CIPHERS) == 1 &&
           SSL_CTX_set1_groups_list(ctx, GROUPS) == 1;
}

static bool set_client(SSL_CTX *ctx, struct roots *roots)
{
    X509_STORE *store = roots_store(roots);
    if (!store)
        return false;
    SSL_CTX_set_cert_store(ctx, store); /* which owns it now */
    SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, NULL);
    SSL_CTX_set_verify_depth(ctx, CHAIN_DEPTH);
    SSL_CTX_sess_set_new_cb(ctx, tls_on_session);
    SSL_CTX_set_max_cert_list(ctx, CHAIN_BYTES);
    if (!set_common(ctx, CLIENT_CIPHERS))
        return false;
    SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
    return SSL_CTX_set_alpn_protos(ctx, http11, sizeof http11) == 0;
}

/* A client that offers protocols must offer HTTP/1.1; one that offers none is taken to speak it. */
static int select_protocol(SSL *ssl, const unsigned char **ret, unsigned char *ret_len,
                           const unsigned char *offered, unsigned len, void *arg)
{
    for (unsigned i = 0; i < len && offered[i] < len - i; i += 1u + offered[i])
        if (offered[i] == http11[0] && memcmp(offered + i, http11, sizeof http11) == 0) {
            *ret = offered + i + 1;
            *ret_len = http11[0];
            return SSL_TLSEXT_ERR_OK;
        }
    return SSL_TLSEXT_ERR_ALERT_FATAL;
}

static bool set_server(SSL_CTX *ctx)
{
    SSL_CTX_set_alpn_select_cb(ctx, select_protocol, NULL);
    SSL_CTX_set_options(ctx, SSL_OP_CIPHER_SERVER_PREFERENCE);
    return set_common(ctx, SERVER_CIPHERS) && SSL_CTX_set_num_tickets(ctx, 0) == 1;
}

SSL_CTX *tls_client_context(struct tls_context *c)
{
    if (c->client)
        return c->client;
    SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
    if (ctx && set_client(ctx, &c->roots))
        return c->client = ctx;
    SSL_CTX_free(ctx);
    return NULL;
}

SSL_CTX *tls_server_context(struct tls_context *c)
{
    if (c->server)
        return c->server;
    SSL_CTX *ctx = SSL_CTX_new(TLS_server_method());
    if (ctx && set_server(ctx))
        return c->server = ctx;
    SSL_CTX_free(ctx);
    return NULL;
}

/* ---- life ---- */

int tls_context_new(bool authority, struct tls_context **ret, struct err *err)
{
    /* No configuration file, hence no provider and no engine from one; no tables of messages. */
    if (OPENSSL_init_ssl(OPENSSL_INIT_NO_LOAD_CONFIG | OPENSSL_INIT_NO_LOAD_SSL_STRINGS |
                             OPENSSL_INIT_NO_LOAD_CRYPTO_STRINGS,
                         NULL) != 1)
        return err_set(err, ERR_INTERNAL, "OpenSSL does not start");
    tzset(); /* the dates of certificates need it, and it opens a file the first time */
    struct tls_context *c = calloc(1, sizeof *c);
    if (!c)
        return err_memory(err);
    c->handshake_ms = HANDSHAKE_MS;
    roots_read(&c->roots);
    int result = authority ? authority_new(&c->authority, err) : 0;
    if (result < 0) {
        tls_context_free(c);
        return result;
    }
    *ret = c;
    return 0;
}

void tls_context_free(struct tls_context *c)
{
    if (!c)
        return;
    tickets_done(&c->tickets);
    SSL_CTX_free(c->client);
    SSL_CTX_free(c->server);
    authority_free(c->authority);
    roots_done(&c->roots);
    free(c);
}

int tls_trust(struct tls_context *c, const char *path, struct err *err)
{
    return roots_add(&c->roots, path, err);
}

void tls_warm(struct tls_context *c)
{
    tls_client_context(c);
    if (c->authority)
        tls_server_context(c);
}

const char *tls_authority_pem(const struct tls_context *c)
{
    return c->authority ? authority_pem(c->authority) : NULL;
}
