/* Tokens of a sandbox and what is derived from them. All comparisons take the same time whatever
 * differs. */
#pragma once

#include "base/sha256.h"

#include <stdbool.h>
#include <stdint.h>

/* Lengths are no secret, contents are. */
bool token_equal(const char *a, const char *b);

/* A second, weaker token: for the user's own ports and the list of contexts, where clients do not
 * send the first. Derived, so that there is nothing to keep. */
#define TRAFFIC_TOKEN_LEN 43
void traffic_token(const char *token, char out[static TRAFFIC_TOKEN_LEN + 1]);

/* "v1_" and base64 of SHA-256 over "path:read|write:user:token[:expiry]", without padding. A user
 * with a colon is nobody's: it could make a link to read into one to write. */
struct signature {
    const char *text;
    const char *path, *user; /* as in the query, "" where absent */
    bool write;
    const char *expiration; /* seconds since 1970 as in the query, or NULL */
};
/* Its shape, and that it has not expired. */
bool signature_current(const struct signature *s, int64_t now_s);
/* Whose token it was, among many: what does not depend on the token is hashed once. Anybody can
 * ask, with as long a path as a request may have. */
struct signature_start {
    struct sha256 hash;
};
void signature_begin(const struct signature *s, struct signature_start *ret);
bool signature_matches(const struct signature *s, const struct signature_start *start,
                       const char *token);
