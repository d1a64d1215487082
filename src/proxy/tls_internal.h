/* What the TLS files share. Nobody else includes this. */
#pragma once

#include "proxy/ca.h"
#include "proxy/roots.h"
#include "proxy/tickets.h"
#include "proxy/tls.h"

#include <openssl/ssl.h>

struct tls_context {
    struct authority *authority; /* NULL: nothing is intercepted */
    struct roots roots;
    SSL_CTX *client; /* both made at their first use */
    SSL_CTX *server;
    struct tickets tickets; /* with upstream servers */
    unsigned handshake_ms;
};

/* tls_context.c */
SSL_CTX *tls_client_context(struct tls_context *c); /* NULL: no memory */
SSL_CTX *tls_server_context(struct tls_context *c);

/* tls.c */
int tls_on_session(SSL *ssl, SSL_SESSION *session);

/* tls_words.c: why a handshake failed, in a few words of our own. */
int tls_explain(SSL *ssl, bool server, bool ended, struct err *err);
