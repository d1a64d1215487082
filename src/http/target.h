/* What a request asks for, in the one form that everything decides on: rules, secrets, budgets and
 * the log. All three ways into the proxy end in this object, and what it says is what is dialled.
 */
#pragma once

#include "http/host.h"

enum scheme {
    SCHEME_ANY, /* in rules: whatever is spoken on that port */
    SCHEME_HTTP,
    SCHEME_HTTPS,
    SCHEME_TCP, /* a stream of bytes */
    SCHEME_COUNT,
};
const char *scheme_name(enum scheme scheme); /* "any", "http", "https", "tcp" */

struct target {
    enum scheme scheme;
    struct host host;
    uint16_t port;
    char method[24]; /* empty where nothing is known of it (a tunnel) */
    /* Without the query, NUL-terminated; NULL where nothing is known of it. Percent signs stand as
     * they came. */
    const char *path;
};

/* "*" within one segment, "**" over segments; else literal. A path that could mean another after
 * decoding (%2e %2f %5c %00, backslash, "//", "." or ".." segments, control bytes) never matches.
 */
int path_pattern_check(const char *pattern, struct err *err);
bool path_pattern_match(const char *pattern, const char *path);
bool path_is_plain(const char *path);
