/* "a=1&b=two+words&c=%C3%A9": the query of a URL or the body of a form, decoded strictly.
 *
 * Refused: a percent sign without two hex digits, %00, more than QUERY_PAIRS_MAX pairs, bytes that
 * no URL has. A pair without "=" has an empty value; empty pairs ("a=1&&b=2") are left out. */
#pragma once

#include "base/err.h"

#include <stddef.h>

#define QUERY_PAIRS_MAX 128

struct query_pair {
    const char *name, *value; /* decoded, NUL-terminated, no NUL inside */
};
struct query {
    struct query_pair *pairs;
    size_t count;
};
int query_parse(const char *text, size_t len, struct query *ret, struct err *err);
void query_done(struct query *q);
const char *query_get(const struct query *q, const char *name); /* the first, or NULL */

/* A path, without its query: percent-decoded, "+" stays. Refused besides: %2F and %5C (a border
 * that was none before), and "." and ".." segments. `out` has room for len + 1 bytes. */
int path_decode(const char *text, size_t len, char *out, struct err *err);
