/* The other end of a connection, in a process of its own: OpenSSL as everybody uses it. */
#pragma once

#include "base/cleanup.h"
#include "proxy/tls_internal.h"

#include <criterion/criterion.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>

/* ---- certificates ---- */

struct cert {
    X509 *x;
    EVP_PKEY *key;
};

struct cert_spec {
    const char *name;  /* common name, and DNS name unless it is an authority */
    const uint8_t *ip; /* four bytes, instead of a DNS name */
    bool ca;
    bool rsa;
    long from, to; /* seconds from now; 0 and 0: a day around now */
};

static inline void cert_extension(X509 *x, X509 *issuer, int nid, const char *value)
{
    X509V3_CTX ctx;
    X509V3_set_ctx_nodb(&ctx);
    X509V3_set_ctx(&ctx, issuer ? issuer : x, x, NULL, NULL, 0);
    X509_EXTENSION *e = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
    cr_assert(e && X509_add_ext(x, e, -1));
    X509_EXTENSION_free(e);
}

/* issuer NULL: self-signed. */
static inline struct cert cert_make(const struct cert_spec *spec, const struct cert *issuer)
{
    struct cert c = {X509_new(), spec->rsa ? EVP_RSA_gen(2048) : EVP_EC_gen("P-256")};
    static long serial = 100;
    char names[300];
    cr_assert(c.x && c.key);
    X509_set_version(c.x, X509_VERSION_3);
    ASN1_INTEGER_set(X509_get_serialNumber(c.x), serial++);
    bool dated = spec->from || spec->to;
    X509_gmtime_adj(X509_getm_notBefore(c.x), dated ? spec->from : -43200);
    X509_gmtime_adj(X509_getm_notAfter(c.x), dated ? spec->to : 43200);
    X509_set_pubkey(c.x, c.key);
    X509_NAME_add_entry_by_txt(X509_get_subject_name(c.x), "CN", MBSTRING_UTF8,
                               (const uint8_t *)spec->name, -1, -1, 0);
    X509_set_issuer_name(c.x, X509_get_subject_name(issuer ? issuer->x : c.x));
    cert_extension(c.x, NULL, NID_basic_constraints, spec->ca ? "critical,CA:TRUE" : "CA:FALSE");
    cert_extension(c.x, NULL, NID_subject_key_identifier, "hash");
    if (issuer)
        cert_extension(c.x, issuer->x, NID_authority_key_identifier, "keyid");
    if (spec->ip)
        snprintf(names, sizeof names, "IP:%u.%u.%u.%u", spec->ip[0], spec->ip[1], spec->ip[2],
                 spec->ip[3]);
    else
        snprintf(names, sizeof names, "DNS:%s", spec->name);
    if (!spec->ca)
        cert_extension(c.x, NULL, NID_subject_alt_name, names);
    cr_assert(X509_sign(c.x, issuer ? issuer->key : c.key, EVP_sha256()) > 0);
    return c;
}

static inline void cert_free(struct cert *c)
{
    X509_free(c->x);
    EVP_PKEY_free(c->key);
}

/* Makes the context trust it, by way of a file. */
static inline void cert_trust(struct tls_context *c, const struct cert *root)
{
    char path[] = "/tmp/brig-test-roots-XXXXXX";
    struct err err = ERR_INIT;
    int fd = mkstemp(path);
    cr_assert_geq(fd, 0);
    FILE *f = fdopen(fd, "w");
    fputs("# a private authority\n", f);
    cr_assert(PEM_write_X509(f, root->x));
    cr_assert_eq(fclose(f), 0);
    int result = tls_trust(c, path, &err);
    unlink(path);
    cr_assert_eq(result, 0, "%s", err.message);
}

/* ---- peers ---- */

struct peer_spec {
    const struct cert *cert;  /* server */
    const struct cert *chain; /* and the one above it */
    const char *trusted_pem;  /* client: verify against this */
    const char *host;         /* client: SNI, and the name to verify */
    const uint8_t *alpn;      /* offered or, as a server, chosen whatever is offered */
    unsigned alpn_len;
    int max_version; /* 0: the newest */
    const char *say; /* sent after the handshake */
    bool echo;       /* send back all that comes */
    bool resumed;    /* server: it must be a session that an earlier one gave out */
    bool drop;       /* end without close_notify */
};

enum peer_exit {
    PEER_FINE,
    PEER_NO_HANDSHAKE,
    PEER_WRONG_PROTOCOL,
    PEER_WRONG_SESSION,
    PEER_BROKEN,
    PEER_ALERT = 64
};

struct peer {
    pid_t pid;
    int fd; /* our end */
};

static int peer_choose(SSL *ssl, const unsigned char **ret, unsigned char *len,
                       const unsigned char *offered, unsigned offered_len, void *arg)
{
    const struct peer_spec *spec = arg;
    *ret = spec->alpn + 1;
    *len = spec->alpn[0];
    return SSL_TLSEXT_ERR_OK;
}

static inline void peer_settings(SSL_CTX *ctx, const struct peer_spec *spec)
{
    SSL_CTX_set_security_level(ctx, 0);
    SSL_CTX_set_min_proto_version(ctx, TLS1_VERSION);
    SSL_CTX_set_max_proto_version(ctx, spec->max_version);
    SSL_CTX_set_cipher_list(ctx, "ALL:@SECLEVEL=0");
    if (spec->cert) {
        SSL_CTX_use_certificate(ctx, spec->cert->x);
        SSL_CTX_use_PrivateKey(ctx, spec->cert->key);
        if (spec->chain)
            SSL_CTX_add1_chain_cert(ctx, spec->chain->x);
        /* The same for all of them, as of a server with many processes. */
        static uint8_t keys[80] = "not very secret";
        SSL_CTX_set_tlsext_ticket_keys(ctx, keys, sizeof keys);
        SSL_CTX_set_session_id_context(ctx, (const uint8_t *)"peer", 4);
        if (spec->alpn)
            SSL_CTX_set_alpn_select_cb(ctx, peer_choose, (void *)spec);
        return;
    }
    if (spec->alpn)
        SSL_CTX_set_alpn_protos(ctx, spec->alpn, spec->alpn_len);
    if (spec->trusted_pem) {
        BIO *bio = BIO_new_mem_buf(spec->trusted_pem, -1);
        X509 *x = PEM_read_bio_X509(bio, NULL, NULL, NULL);
        X509_STORE_add_cert(SSL_CTX_get_cert_store(ctx), x);
        SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, NULL);
        X509_VERIFY_PARAM_set_flags(SSL_CTX_get0_param(ctx), X509_V_FLAG_X509_STRICT);
    }
}

static inline int peer_talk(SSL *ssl, const struct peer_spec *spec)
{
    static char data[65536];
    int n;
    if (spec->say && SSL_write(ssl, spec->say, (int)strlen(spec->say)) <= 0)
        return PEER_BROKEN;
    if (spec->drop)
        return PEER_FINE;
    while ((n = SSL_read(ssl, data, sizeof data)) > 0)
        if (spec->echo && SSL_write(ssl, data, n) <= 0)
            return PEER_BROKEN;
    if (SSL_get_error(ssl, n) != SSL_ERROR_ZERO_RETURN)
        return PEER_BROKEN;
    SSL_shutdown(ssl);
    return PEER_FINE;
}

static inline int peer_run(int fd, const struct peer_spec *spec)
{
    SSL_CTX *ctx = SSL_CTX_new(spec->cert ? TLS_server_method() : TLS_client_method());
    peer_settings(ctx, spec);
    SSL *ssl = SSL_new(ctx);
    SSL_set_fd(ssl, fd);
    if (spec->host) {
        SSL_set_tlsext_host_name(ssl, spec->host);
        SSL_set1_host(ssl, spec->host);
    }
    if ((spec->cert ? SSL_accept(ssl) : SSL_connect(ssl)) != 1) {
        int reason = ERR_GET_REASON(ERR_peek_error());
        return reason > SSL_AD_REASON_OFFSET ? PEER_ALERT + reason - SSL_AD_REASON_OFFSET
                                             : PEER_NO_HANDSHAKE;
    }
    if (spec->cert && SSL_session_reused(ssl) != spec->resumed)
        return PEER_WRONG_SESSION;
    const unsigned char *name;
    unsigned len;
    SSL_get0_alpn_selected(ssl, &name, &len);
    if (spec->alpn && !spec->cert && (len != 8 || memcmp(name, "http/1.1", 8) != 0))
        return PEER_WRONG_PROTOCOL;
    return peer_talk(ssl, spec);
}

static inline struct peer peer_start(const struct peer_spec *spec)
{
    int pair[2];
    cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    pid_t pid = fork();
    cr_assert_geq(pid, 0);
    if (pid == 0) {
        close(pair[0]);
        signal(SIGPIPE, SIG_IGN);
        _exit(peer_run(pair[1], spec));
    }
    close(pair[1]);
    return (struct peer){pid, pair[0]};
}

static inline int peer_exit(struct peer *p)
{
    int status;
    cr_assert_eq(waitpid(p->pid, &status, 0), p->pid);
    cr_assert(WIFEXITED(status), "the peer was killed");
    return WEXITSTATUS(status);
}
