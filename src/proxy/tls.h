/* TLS, both sides; only the files behind this header (tls*.c, ca.c, roots.c) see OpenSSL.
 *
 * Towards the outside: TLS 1.2 or later, certificates verified against the host's store, with the
 * name. Towards the sandbox: a certificate of the run's own authority, whose key never leaves this
 * process. */
#pragma once

#include "base/buf.h"
#include "http/host.h"
#include "proxy/stream.h"

struct tls_context; /* of the run: the authority, the certificates made so far, the client context
                     */

/* `authority`: make one. Everything that must be read from files (the host's trust store) is read
 * here, before the process is sealed. */
int tls_context_new(bool authority, struct tls_context **ret, struct err *err);
void tls_context_free(struct tls_context *c);
/* Also trust the certificates of this PEM file (private authorities); before the process is sealed.
 */
int tls_trust(struct tls_context *c, const char *path, struct err *err);
/* Make now what the first connection would otherwise wait for. Opens nothing; for when there is
 * nothing better to do. */
void tls_warm(struct tls_context *c);
/* PEM, or NULL without an authority. */
const char *tls_authority_pem(const struct tls_context *c);

/* Start a handshake on a plain stream; `done` is called once, with 0 or a negative number and why.
 * The stream's callback belongs to the handshake until then. A handshake that fails at once returns
 * a negative number and never calls `done`. The stream may be closed at any time, which ends the
 * handshake without a call. */
typedef void tls_done(void *ctx, int result, const struct err *err);
/* As a client; ALPN http/1.1. `host` may be an address (then the certificate must name it). */
int tls_connect(struct tls_context *c, struct stream *s, const struct host *host, tls_done *done,
                void *ctx, struct err *err);
/* As the server for `host`, with bytes that were already read from the connection (the
 * ClientHello). ALPN: http/1.1 only. */
int tls_accept(struct tls_context *c, struct stream *s, const struct host *host, const void *seen,
               size_t seen_len, tls_done *done, void *ctx, struct err *err);

/* For stream.c. */
ssize_t tls_read(struct tls *t, void *data, size_t len);
ssize_t tls_write(struct tls *t, const void *data, size_t len);
bool tls_pending(const struct tls *t);                     /* decrypted bytes wait */
uint32_t tls_events(const struct tls *t, unsigned wanted); /* EPOLL* to wait for */
void tls_finish(struct tls *t);
void tls_free(struct tls *t);
