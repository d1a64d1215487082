/* Reads URLs and authorities, strictly. */
#include "http/url.h"

#include <string.h>
#include <strings.h>

int port_parse(const char *text, size_t len, uint16_t *ret)
{
    unsigned value = 0;
    if (!len || len > 5 || text[0] == '0')
        return -1;
    for (size_t i = 0; i < len; i++) {
        if (text[i] < '0' || text[i] > '9')
            return -1;
        value = value * 10 + (unsigned)(text[i] - '0');
    }
    if (value > UINT16_MAX)
        return -1;
    *ret = (uint16_t)value;
    return 0;
}

/* Where the host ends: behind the bracket, at the first colon, or at the end. */
static size_t host_length(const char *text, size_t len)
{
    if (len && text[0] == '[') {
        const char *close = memchr(text, ']', len);
        return close ? (size_t)(close - text) + 1 : len;
    }
    const char *colon = memchr(text, ':', len);
    return colon ? (size_t)(colon - text) : len;
}

int host_header_parse(const char *text, size_t len, struct host *ret_host, uint16_t *ret_port,
                      struct err *err)
{
    size_t host_len = host_length(text, len);
    uint16_t port = 0;
    if (host_len < len &&
        (text[host_len] != ':' || port_parse(text + host_len + 1, len - host_len - 1, &port) < 0))
        return err_set(err, ERR_USAGE, "a port is a number from 1 to 65535");
    if (host_parse(text, host_len, true, ret_host, err) < 0)
        return err_number(err);
    *ret_port = port;
    return 0;
}

int authority_parse(const char *text, size_t len, uint16_t default_port, struct host *ret_host,
                    uint16_t *ret_port, struct err *err)
{
    struct host host = {0};
    uint16_t port = 0;
    if (host_header_parse(text, len, &host, &port, err) < 0)
        return err_number(err);
    if (!port && !default_port)
        return err_set(err, ERR_USAGE, "no port after the host");
    *ret_host = host;
    *ret_port = port ? port : default_port;
    return 0;
}

static size_t take_scheme(const char *text, size_t len, enum scheme *ret)
{
    if (len >= 7 && !strncasecmp(text, "http://", 7)) {
        *ret = SCHEME_HTTP;
        return 7;
    }
    if (len >= 8 && !strncasecmp(text, "https://", 8)) {
        *ret = SCHEME_HTTPS;
        return 8;
    }
    return 0;
}

int path_query_check(const char *text, size_t len, size_t *ret_path_len, struct err *err)
{
    size_t path_len = len;
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c <= ' ' || c >= 0x7f)
            return err_set(err, ERR_USAGE, "a byte that no URL has: 0x%02x", c);
        if (c == '#')
            return err_set(err, ERR_USAGE, "a fragment");
        if (c == '\\' && path_len == len)
            return err_set(err, ERR_USAGE, "a backslash in the path");
        if (c == '?' && path_len == len)
            path_len = i;
    }
    *ret_path_len = path_len;
    return 0;
}

static size_t authority_length(const char *text, size_t len)
{
    size_t i = 0;
    while (i < len && text[i] != '/' && text[i] != '?' && text[i] != '#')
        i++;
    return i;
}

int url_parse(const char *text, size_t len, struct url *ret, struct err *err)
{
    struct url url = {0};
    size_t at = take_scheme(text, len, &url.scheme);
    if (!at)
        return err_set(err, ERR_USAGE, "a URL starts with http:// or https://");
    size_t auth = authority_length(text + at, len - at);
    if (memchr(text + at, '@', auth))
        return err_set(err, ERR_USAGE, "a URL with a user in front of the host");
    if (authority_parse(text + at, auth, url.scheme == SCHEME_HTTPS ? 443 : 80, &url.host,
                        &url.port, err) < 0)
        return err_number(err);
    at += auth;
    if (path_query_check(text + at, len - at, &url.path_len, err) < 0)
        return err_number(err);
    url.path = text + at;
    if (at + url.path_len < len) {
        url.query = url.path + url.path_len + 1;
        url.query_len = len - at - url.path_len - 1;
    }
    *ret = url;
    return 0;
}
