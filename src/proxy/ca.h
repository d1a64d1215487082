/* The authority of one run: it signs, for each host that is intercepted, a certificate that only
 * this run's sandbox trusts. Its key is made here, is never written anywhere, and is wiped with it.
 */
#pragma once

#include "base/err.h"
#include "http/host.h"

#include <openssl/x509.h>

struct authority;

int authority_new(struct authority **ret, struct err *err);
void authority_free(struct authority *a); /* takes NULL */
const char *authority_pem(const struct authority *a);
/* The certificate for this host, made or remembered; borrowed. NULL: it could not be made. */
X509 *authority_leaf(struct authority *a, const struct host *host);
EVP_PKEY *authority_leaf_key(const struct authority *a); /* borrowed; one for all of them */
size_t authority_leaf_count(const struct authority *a);
