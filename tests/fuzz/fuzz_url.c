/* URLs, authorities and path patterns. A URL that is taken and put together from its parts is read
 * as the same parts. */
#include "http/url.h"

#include "base/buf.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool same(const char *a, size_t a_len, const char *b, size_t b_len)
{
    return !a == !b && a_len == b_len && (!a_len || !memcmp(a, b, a_len));
}

static void check_url(const char *text, size_t size)
{
    struct err err = ERR_INIT;
    struct url u;
    struct url again;
    struct buf out;
    if (url_parse(text, size, &u, &err) < 0) {
        if (!err.message[0])
            abort();
        return;
    }
    buf_init(&out, size + 512);
    buf_fmt(&out, u.host.kind == HOST_IPV6 ? "%s://[%s]:%d" : "%s://%s:%d", scheme_name(u.scheme),
            u.host.text, u.port);
    buf_add(&out, u.path, u.path_len);
    if (u.query)
        buf_chr(&out, '?');
    buf_add(&out, u.query, u.query_len);
    if (out.failed || url_parse(out.data, out.len, &again, NULL) < 0)
        abort();
    if (again.scheme != u.scheme || again.port != u.port || !host_equal(&again.host, &u.host) ||
        !same(again.path, again.path_len, u.path, u.path_len) ||
        !same(again.query, again.query_len, u.query, u.query_len))
        abort();
    buf_done(&out);
}

static void check_path(const char *text, size_t size)
{
    char *path = strndup(text, size);
    if (!path)
        return;
    if (path_pattern_match("/**", path) != path_is_plain(path))
        abort();
    if (path_pattern_check(path, NULL) == 0 && !path_pattern_match(path, path))
        abort();
    free(path);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data;
    struct host host;
    uint16_t port = 0;
    check_url(text, size);
    check_path(text, size);
    if (authority_parse(text, size, 0, &host, &port, NULL) == 0 && !port)
        abort();
    return 0;
}
