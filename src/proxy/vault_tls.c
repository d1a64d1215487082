/* TLS to Vault, with the settings of every other connection to the outside. Runs in the keeper,
 * which has a context of its own: VAULT_CACERT is trusted there, and then nothing else. */
#include "proxy/vault_tls.h"

#include "proxy/tls_internal.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <poll.h>

static struct tls_context *context;

/* In place of the host's store. */
static int trust_only(SSL_CTX *ctx, const char *file, struct err *err)
{
    X509_STORE *store = X509_STORE_new();
    if (!store || X509_STORE_load_file(store, file) != 1) {
        X509_STORE_free(store);
        ERR_clear_error();
        return err_set(err, ERR_REFUSED, "VAULT_CACERT: %s cannot be read, or holds no certificate",
                       file);
    }
    SSL_CTX_set_cert_store(ctx, store); /* which owns it now */
    return 0;
}

static SSL_CTX *client_context(const char *ca_file, struct err *err)
{
    if (context)
        return tls_client_context(context);
    if (tls_context_new(false, &context, err) < 0)
        return NULL;
    SSL_CTX *ctx = tls_client_context(context);
    if (!ctx)
        err_memory(err);
    if (ctx) {
        /* Sessions are kept for streams of the loop; this is none. */
        SSL_CTX_sess_set_new_cb(ctx, NULL);
        SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
    }
    if (ctx && (!ca_file || trust_only(ctx, ca_file, err) == 0))
        return ctx;
    tls_context_free(context);
    context = NULL;
    return NULL;
}

static bool expect_host(SSL *ssl, const char *host)
{
    X509_VERIFY_PARAM *param = SSL_get0_param(ssl);
    if (X509_VERIFY_PARAM_set1_ip_asc(param, host) == 1)
        return true;
    ERR_clear_error();
    X509_VERIFY_PARAM_set_hostflags(param, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    return X509_VERIFY_PARAM_set1_host(param, host, 0) == 1 &&
           SSL_set_tlsext_host_name(ssl, host) == 1;
}

static int vault_open(int fd, const char *host, const char *ca_file, void **ret, struct err *err)
{
    SSL_CTX *ctx = client_context(ca_file, err);
    if (!ctx)
        return err_number(err);
    SSL *ssl = SSL_new(ctx);
    if (!ssl || !expect_host(ssl, host) || SSL_set_fd(ssl, fd) != 1) {
        SSL_free(ssl);
        return err_memory(err);
    }
    SSL_set_connect_state(ssl);
    *ret = ssl;
    return 0;
}

/* POLLIN or POLLOUT where it is only a matter of waiting, else 0. */
static short waits_for(const SSL *ssl, int result)
{
    int why = SSL_get_error(ssl, result);
    return why == SSL_ERROR_WANT_READ ? POLLIN : why == SSL_ERROR_WANT_WRITE ? POLLOUT : 0;
}

static int vault_handshake(void *session, short *want, struct err *err)
{
    ERR_clear_error();
    int r = SSL_do_handshake(session);
    if (r == 1)
        return 0;
    *want = waits_for(session, r);
    if (*want)
        return -EAGAIN;
    tls_explain(session, false, SSL_get_error(session, r) == SSL_ERROR_SYSCALL, err);
    return err_wrap(err, "TLS to Vault");
}

static ssize_t vault_read(void *session, void *data, size_t len, short *want)
{
    ERR_clear_error();
    int r = SSL_read(session, data, len > INT32_MAX ? INT32_MAX : (int)len);
    if (r > 0)
        return r;
    *want = waits_for(session, r);
    return *want ? -EAGAIN : SSL_get_error(session, r) == SSL_ERROR_ZERO_RETURN ? 0 : -EPROTO;
}

static ssize_t vault_write(void *session, const void *data, size_t len, short *want)
{
    ERR_clear_error();
    int r = SSL_write(session, data, len > INT32_MAX ? INT32_MAX : (int)len);
    if (r > 0)
        return r;
    *want = waits_for(session, r);
    return *want ? -EAGAIN : -EPROTO;
}

static void vault_close(void *session)
{
    SSL_shutdown(session);
    SSL_free(session);
    ERR_clear_error();
}

const struct keeper_transport vault_transport = {
    .resolve = vault_resolve,
    .open = vault_open,
    .handshake = vault_handshake,
    .read = vault_read,
    .write = vault_write,
    .close = vault_close,
};
