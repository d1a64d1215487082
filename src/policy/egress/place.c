/* Where a rule or a secret leads: scheme, host, port, address, path, out of one text. */
#include "base/cleanup.h"
#include "base/quote.h"
#include "http/url.h"
#include "policy/egress/internal.h"

#include <string.h>

int scheme_parse(const char *text, size_t len, enum scheme *ret)
{
    for (enum scheme s = SCHEME_ANY; s < SCHEME_COUNT; s++) {
        const char *name = scheme_name(s);
        if (strlen(name) == len && memcmp(name, text, len) == 0) {
            *ret = s;
            return 0;
        }
    }
    return -(int)ERR_USAGE;
}

uint16_t scheme_port(enum scheme scheme)
{
    return scheme == SCHEME_HTTP ? 80 : scheme == SCHEME_HTTPS ? 443 : 0;
}

int address_parse(const char *text, struct host *ret, struct err *err)
{
    struct quoted q;
    int r = host_parse(text, strlen(text), false, ret, err);
    if (r < 0)
        return err_wrap(err, "%s is not an address", quote(&q, text));
    if (ret->kind == HOST_NAME)
        return err_set(err, ERR_USAGE, "%s is not an address, expected one such as 10.0.0.5",
                       quote(&q, text));
    return 0;
}

static int take_scheme(const char **text, struct place_spec *ret, struct err *err)
{
    const char *end = strstr(*text, "://");
    if (!end)
        return 0;
    if (scheme_parse(*text, (size_t)(end - *text), &ret->scheme) < 0) {
        struct quoted q;
        cleanup_free char *word = strndup(*text, (size_t)(end - *text));
        return err_set(err, ERR_USAGE, "unknown scheme %s, expected http, https, tcp or any",
                       quote(&q, word));
    }
    ret->has_scheme = true;
    *text = end + 3;
    return 0;
}

/* The ':' in front of a port: behind the bracket of an IPv6 address, or the only one there is. */
static int find_port(const char *text, size_t len, size_t *ret_host, struct err *err)
{
    const char *close = text[0] == '[' ? memchr(text, ']', len) : NULL;
    const char *slash = close ? NULL : memchr(text, '/', len);
    size_t from = close ? (size_t)(close - text) + 1 : slash ? (size_t)(slash - text) : 0;
    const char *colon = memchr(text + from, ':', len - from);
    *ret_host = colon ? (size_t)(colon - text) : len;
    if (colon && memchr(colon + 1, ':', len - *ret_host - 1))
        return err_set(err, ERR_USAGE,
                       "more than one colon, expected HOST:PORT, or an IPv6 "
                       "address in brackets such as [2001:db8::1]:443");
    return 0;
}

static int take_host(const char *text, size_t len, bool stars, struct place_spec *ret,
                     struct err *err)
{
    size_t host_len;
    int r = find_port(text, len, &host_len, err);
    if (r < 0)
        return r;
    if ((r = host_pattern_parse(text, host_len, &ret->host, err)) < 0)
        return r;
    if (!stars && ret->host.stars != STARS_NONE)
        return err_set(err, ERR_USAGE, "a pattern, expected exactly one host");
    if (host_len == len)
        return 0;
    if (port_parse(text + host_len + 1, len - host_len - 1, &ret->port) < 0)
        return err_set(err, ERR_USAGE, "no port behind the colon, expected 1 to 65535");
    return 0;
}

static int take_address(const char *text, size_t len, struct place_spec *ret, struct err *err)
{
    cleanup_free char *copy = strndup(text, len);
    if (!copy)
        return err_memory(err);
    ret->pinned = true;
    return address_parse(copy, &ret->address, err);
}

/* Up to the path. A slash in brackets is that of a range, and so is one behind an address where no
 * scheme announces a path. */
static size_t place_len(const char *text, bool has_scheme)
{
    struct host host;
    const char *close = text[0] == '[' ? strchr(text, ']') : NULL;
    size_t len = strcspn(text, "/");
    if (close && text + len < close)
        return (size_t)(close - text) + strcspn(close, "/");
    if (has_scheme || !text[len] || host_parse(text, len, false, &host, NULL) < 0 ||
        host.kind == HOST_NAME)
        return len;
    return len + 1 + strcspn(text + len + 1, "/");
}

static int take_place(const char *text, bool stars, bool pins, struct place_spec *ret,
                      struct err *err)
{
    int r = take_scheme(&text, ret, err);
    if (r < 0)
        return r;
    size_t len = place_len(text, ret->has_scheme);
    if (text[len])
        ret->path = text + len;
    if (ret->path && !ret->has_scheme)
        return err_set(err, ERR_USAGE,
                       "a path needs a scheme in front, expected https://HOST/PATH");
    const char *equals = memchr(text, '=', len);
    if (equals && !pins)
        return err_set(err, ERR_USAGE, "an address after the host, expected a host alone");
    size_t host_len = equals ? (size_t)(equals - text) : len;
    r = take_host(text, host_len, stars, ret, err);
    if (r == 0 && equals)
        r = take_address(equals + 1, len - host_len - 1, ret, err);
    return r;
}

int place_parse(const char *text, bool stars, bool pins, struct place_spec *ret, struct err *err)
{
    struct quoted q;
    *ret = (struct place_spec){0};
    int r = take_place(text, stars, pins, ret, err);
    return r < 0 ? err_wrap(err, "%s", quote(&q, text)) : 0;
}
