/* What programs inside must trust so that the run's authority can speak for the hosts that are
 * intercepted: the host's certificates and one more, in the forms that programs read.
 *
 * Programs find them by variable (OpenSSL, curl, Python, Node, git, …) or, on the container tier,
 * where they always look: a file of ours then lies over the host's (GnuTLS, Go, Java).
 *
 * brig-proxy makes the authority but not these files: it talks to the outside, so nothing but its
 * certificate's text is taken from it, and no descriptor. */
#pragma once

#include "base/buf.h"
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The host's bundle, in PEM; false if it has none that can be read. */
bool trust_read_host(struct buf *out);

/* Both buffers must be initialised, with room for some megabytes. `ret_java` may be NULL. */
int trust_build(const char *authority_pem, struct buf *ret_bundle, struct buf *ret_java,
                struct err *err);

/* The keystore for a host that has none of Java's own format: the bundle's certificates, and ours.
 */
int trust_java_from(const struct buf *bundle, const char *authority_pem, struct buf *ret,
                    struct err *err);

/* Calls `set` with every variable that names a trust store. Paths as the code sees them:
 * `authority_path` holds the run's authority alone; `java_path` may be NULL, where a keystore lies
 * over the one that Java looks for (the variable for Java makes it talk on stderr). */
void trust_environment(void (*set)(void *ctx, const char *name, const char *value), void *ctx,
                       const char *bundle_path, const char *authority_path, const char *java_path);

/* Where programs look that know no variable: the i-th place of a PEM bundle, or of a Java keystore;
 * NULL after the last. */
const char *trust_bundle_place(size_t i);
const char *trust_java_place(size_t i);

/* ---- jks_parse.c ---- */
#define JKS_MAGIC       0xfeedfeedu
#define JKS_VERSION     2u
#define JKS_CERTIFICATE 2u

/* A keystore that holds certificates only: how many, and where its entries end (what follows is the
 * digest, which is not looked at). */
int jks_check(const void *data, size_t len, uint32_t *ret_count, size_t *ret_end, struct err *err);
