/* A certificate with its chain and its key become the settings of connections, or a reason why not.
 */
#include "tls/gate.h"

#include "base/cleanup.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define FILE_MAX  (256u * 1024)
#define CHAIN_MAX 8
/* With forward secrecy and authenticated encryption only. */
#define TLS12_CIPHERS "ECDHE+AESGCM:ECDHE+CHACHA20"
#define TLS13_CIPHERS "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256"
#define GROUPS        "X25519:P-256:P-384"
#define SECURITY      2 /* 112 bits: RSA from 2048 on, no SHA-1 */

static const uint8_t http11[] = {8, 'h', 't', 't', 'p', '/', '1', '.', '1'};

int pair_prepare(struct err *err)
{
    uint8_t some[16];
    /* No configuration file, hence no provider and no engine from one; no tables of messages. */
    if (OPENSSL_init_ssl(OPENSSL_INIT_NO_LOAD_CONFIG | OPENSSL_INIT_NO_LOAD_SSL_STRINGS |
                             OPENSSL_INIT_NO_LOAD_CRYPTO_STRINGS,
                         NULL) != 1 ||
        RAND_bytes(some, sizeof some) != 1)
        return err_set(err, ERR_INTERNAL, "OpenSSL does not start");
    tzset(); /* the dates of certificates need it, and it opens a file the first time */
    return 0;
}

/* ---- settings ---- */

/* A client that offers protocols must offer HTTP/1.1; one that offers none is taken to speak it. */
static int select_protocol(SSL *ssl, const unsigned char **ret, unsigned char *ret_len,
                           const unsigned char *offered, unsigned len, void *arg)
{
    unsigned char *chosen = NULL;
    (void)ssl;
    (void)arg;
    if (SSL_select_next_proto(&chosen, ret_len, http11, sizeof http11, offered, len) !=
        OPENSSL_NPN_NEGOTIATED)
        return SSL_TLSEXT_ERR_ALERT_FATAL;
    *ret = chosen;
    return SSL_TLSEXT_ERR_OK;
}

/* No session is kept and no ticket given: nothing that outlives a connection could open it later.
 */
static SSL_CTX *new_settings(void)
{
    SSL_CTX *ctx = SSL_CTX_new(TLS_server_method());
    if (!ctx)
        return NULL;
    SSL_CTX_set_security_level(ctx, SECURITY);
    SSL_CTX_set_options(ctx, SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_TICKET |
                                 SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_PRIORITIZE_CHACHA);
    SSL_CTX_set_mode(ctx, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE |
                              SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    /* A record without data is the end of a read: others have their turn then. */
    SSL_CTX_clear_mode(ctx, SSL_MODE_AUTO_RETRY);
    SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_alpn_select_cb(ctx, select_protocol, NULL);
    if (SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION) == 1 &&
        SSL_CTX_set_cipher_list(ctx, TLS12_CIPHERS) == 1 &&
        SSL_CTX_set_ciphersuites(ctx, TLS13_CIPHERS) == 1 &&
        SSL_CTX_set1_groups_list(ctx, GROUPS) == 1 && SSL_CTX_set_num_tickets(ctx, 0) == 1)
        return ctx;
    SSL_CTX_free(ctx);
    return NULL;
}

/* ---- the files ---- */

struct text {
    char *data;
    size_t len;
};

static void text_done(struct text *t)
{
    OPENSSL_clear_free(t->data, FILE_MAX);
    t->data = NULL;
}

/* From its beginning: the descriptor may be of one that was read before. */
static int read_text(int fd, const char *name, struct text *ret, struct err *err)
{
    ret->data = OPENSSL_malloc(FILE_MAX);
    ret->len = 0;
    if (!ret->data)
        return err_memory(err);
    while (ret->len < FILE_MAX) {
        ssize_t n = pread(fd, ret->data + ret->len, FILE_MAX - ret->len, (off_t)ret->len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_sys(err, "read %s", name);
        if (n == 0)
            return 0;
        ret->len += (size_t)n;
    }
    return err_set(err, ERR_LIMIT, "%s is over %u bytes", name, FILE_MAX);
}

/* No terminal is asked for a word. */
static int no_passphrase(char *out, int size, int writing, void *asked)
{
    (void)out;
    (void)size;
    (void)writing;
    *(bool *)asked = true;
    return -1;
}

static void free_chain(STACK_OF(X509) * *chain)
{
    sk_X509_pop_free(*chain, X509_free);
}

static void free_key(EVP_PKEY **key)
{
    EVP_PKEY_free(*key);
}

static void free_bio(BIO **bio)
{
    BIO_free(*bio);
}

static int read_chain(const struct text *text, const char *name, STACK_OF(X509) * chain,
                      struct err *err)
{
    BIO *bio __attribute__((cleanup(free_bio))) = BIO_new_mem_buf(text->data, (int)text->len);
    X509 *x;
    while (bio && (x = PEM_read_bio_X509(bio, NULL, NULL, NULL))) {
        if (sk_X509_num(chain) == CHAIN_MAX || !sk_X509_push(chain, x)) {
            X509_free(x);
            return err_set(err, ERR_LIMIT, "%s has more than %d certificates", name, CHAIN_MAX);
        }
    }
    /* The end of the file is no error; anything else is a certificate that is none. */
    bool good = bio && ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
    ERR_clear_error();
    if (!good)
        return err_set(err, ERR_USAGE, "%s: certificate %d in it is malformed", name,
                       sk_X509_num(chain) + 1);
    if (sk_X509_num(chain) > 0)
        return 0;
    err_set(err, ERR_USAGE, "%s has no certificate in PEM form", name);
    return err_hint(err, "--tls takes the certificate, with those between it and the authority "
                         "behind it, and then the key: CERT,KEY");
}

static EVP_PKEY *read_key(const struct text *text, const char *name, struct err *err)
{
    bool asked = false;
    BIO *bio __attribute__((cleanup(free_bio))) = BIO_new_mem_buf(text->data, (int)text->len);
    EVP_PKEY *key = bio ? PEM_read_bio_PrivateKey(bio, NULL, no_passphrase, &asked) : NULL;
    ERR_clear_error();
    if (key)
        return key;
    if (asked) {
        err_set(err, ERR_USAGE, "the key in %s is protected by a passphrase", name);
        err_hint(err, "openssl pkey -in %.100s -out NEW, and keep NEW to yourself (chmod 600)",
                 name);
        return NULL;
    }
    err_set(err, ERR_USAGE, "%s has no private key in PEM form", name);
    err_hint(err, "--tls takes CERT,KEY, in this order");
    return NULL;
}

/* ---- what it says ---- */

static void write_date(const ASN1_TIME *at, char out[static PAIR_DATE_SIZE])
{
    struct tm tm;
    if (ASN1_TIME_to_tm(at, &tm) != 1 || !strftime(out, PAIR_DATE_SIZE, "%Y-%m-%d %H:%M UTC", &tm))
        snprintf(out, PAIR_DATE_SIZE, "?");
}

/* Clients would refuse it: better said here, to the operator, who can renew it. */
static int check_dates(const X509 *x, const struct pair_words *words,
                       char until[static PAIR_DATE_SIZE], struct err *err)
{
    char from[PAIR_DATE_SIZE];
    write_date(X509_get0_notBefore(x), from);
    write_date(X509_get0_notAfter(x), until);
    if (words->again)
        return 0;
    if (X509_cmp_current_time(X509_get0_notAfter(x)) <= 0) {
        err_set(err, ERR_REFUSED, "the certificate in %s expired on %s", words->certificate, until);
        return err_hint(err, "renew it; if it is new, look at the clock of this machine");
    }
    if (X509_cmp_current_time(X509_get0_notBefore(x)) > 0) {
        err_set(err, ERR_REFUSED, "the certificate in %s is not valid before %s",
                words->certificate, from);
        return err_hint(err, "look at the clock of this machine");
    }
    return 0;
}

static bool names(X509 *x, const char *host)
{
    return X509_check_host(x, host, 0,
                           X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS |
                               X509_CHECK_FLAG_NEVER_CHECK_SUBJECT,
                           NULL) == 1;
}

/* What clients will call: the API, and a port of a sandbox, which only a wildcard can name. */
static int check_names(X509 *x, const struct pair_words *words, struct err *err)
{
    char host[300];
    static const char *const below[] = {"api.", "3000-sandbox."};
    for (size_t i = 0; words->domain && i < ARRAY_LEN(below); i++) {
        snprintf(host, sizeof host, "%s%.*s", below[i], (int)strcspn(words->domain, ":"),
                 words->domain);
        if (names(x, host))
            continue;
        err_set(err, ERR_REFUSED, "the certificate in %s is not for %s", words->certificate,
                i ? "the ports of sandboxes" : host);
        return err_hint(err, "it must name *.%.*s (as a subject alternative name)",
                        (int)strcspn(words->domain, ":"), words->domain);
    }
    return 0;
}

/* ---- all of it ---- */

static int use(SSL_CTX *ctx, STACK_OF(X509) * chain, EVP_PKEY *key, const struct pair_words *words,
               struct err *err)
{
    X509 *leaf = sk_X509_value(chain, 0);
    if (X509_check_private_key(leaf, key) != 1) {
        err_set(err, ERR_REFUSED, "the key in %s is not that of the certificate in %s", words->key,
                words->certificate);
        return err_hint(err, "the certificate comes first in its file, those of authorities behind "
                             "it");
    }
    bool good = SSL_CTX_use_certificate(ctx, leaf) == 1 && SSL_CTX_use_PrivateKey(ctx, key) == 1;
    for (int i = 1; good && i < sk_X509_num(chain); i++)
        good = SSL_CTX_add1_chain_cert(ctx, sk_X509_value(chain, i)) == 1;
    if (good)
        return 0;
    err_set(err, ERR_REFUSED, "the certificate in %s is too weak to be used, or of an unknown kind",
            words->certificate);
    return err_hint(err, "ECDSA on P-256, or RSA with 2048 bits or more, signed with SHA-256");
}

int pair_load(int certificate, int key, const struct pair_words *words, SSL_CTX **ret,
              char until[static PAIR_DATE_SIZE], struct err *err)
{
    struct text certificate_text __attribute__((cleanup(text_done))) = {0};
    struct text key_text __attribute__((cleanup(text_done))) = {0};
    STACK_OF(X509) * chain __attribute__((cleanup(free_chain))) = sk_X509_new_null();
    EVP_PKEY *pkey __attribute__((cleanup(free_key))) = NULL;
    ERR_clear_error();
    if (!chain)
        return err_memory(err);
    if (read_text(certificate, words->certificate, &certificate_text, err) < 0 ||
        read_text(key, words->key, &key_text, err) < 0 ||
        read_chain(&certificate_text, words->certificate, chain, err) < 0 ||
        !(pkey = read_key(&key_text, words->key, err)) ||
        check_dates(sk_X509_value(chain, 0), words, until, err) < 0 ||
        check_names(sk_X509_value(chain, 0), words, err) < 0)
        return err_number(err);
    SSL_CTX *ctx = new_settings();
    int r = ctx ? use(ctx, chain, pkey, words, err) : err_memory(err);
    ERR_clear_error();
    if (r < 0) {
        SSL_CTX_free(ctx);
        return r;
    }
    *ret = ctx;
    return 0;
}
