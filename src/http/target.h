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

struct doubts;
struct target {
    enum scheme scheme;
    struct host host;
    uint16_t port;
    char method[24]; /* empty where nothing is known of it (a tunnel) */
    /* Without the query, NUL-terminated; NULL where nothing is known of it. Percent signs stand as
     * they came. */
    const char *path;
    /* What else the request says about its method, path or host (network/doubt.h); NULL: nothing
     * is known of it. */
    const struct doubts *doubts;
};

/* "*" within one segment, "**" over segments; else literal.
 *
 * A path that could mean another one never matches: %2e %2f %5c %25 and control bytes, backslash,
 * "//", segments of dots and blanks, %XX that is not UTF-8 in its shortest form, or that is a
 * character which some servers take for a dot, a slash or nothing at all.
 *
 * Others can be read in several ways of which none leaves its segment: with or without
 * ";parameters", up to an encoded '?' or '#', without dots and blanks at the end of a segment. They
 * match where every reading does: "users;.json" is no "*.json". */
int path_pattern_check(const char *pattern, struct err *err);
bool path_pattern_match(const char *pattern, const char *path);
bool path_is_plain(const char *path);
