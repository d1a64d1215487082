#include "http/url.h"

#include "base/cleanup.h"

#include <criterion/criterion.h>
#include <string.h>

struct good {
    const char *text;
    enum scheme scheme;
    const char *host;
    uint16_t port;
    const char *path;
    const char *query;
};

static const struct good good[] = {
    {"http://a", SCHEME_HTTP, "a", 80, "", NULL},
    {"https://A.example.", SCHEME_HTTPS, "a.example", 443, "", NULL},
    {"HTTP://a/", SCHEME_HTTP, "a", 80, "/", NULL},
    {"http://a:8080/b/c?d=e?f", SCHEME_HTTP, "a", 8080, "/b/c", "d=e?f"},
    {"https://[::1]:1/x", SCHEME_HTTPS, "::1", 1, "/x", NULL},
    {"http://a?q", SCHEME_HTTP, "a", 80, "", "q"},
    {"http://a/?", SCHEME_HTTP, "a", 80, "/", ""},
    {"http://a/@evil.com", SCHEME_HTTP, "a", 80, "/@evil.com", NULL},
    {"http://a/?x=\\&y=http://b/", SCHEME_HTTP, "a", 80, "/", "x=\\&y=http://b/"},
    {"http://a//b/../c", SCHEME_HTTP, "a", 80, "//b/../c", NULL},
    {"https://a:65535", SCHEME_HTTPS, "a", 65535, "", NULL},
};

Test(url, good)
{
    for (size_t i = 0; i < ARRAY_LEN(good); i++) {
        const struct good *g = &good[i];
        struct err err = ERR_INIT;
        struct url u;
        cr_assert_eq(url_parse(g->text, strlen(g->text), &u, &err), 0, "%s: %s", g->text,
                     err.message);
        cr_assert_eq(u.scheme, g->scheme);
        cr_assert_str_eq(u.host.text, g->host);
        cr_assert_eq(u.port, g->port);
        cr_assert_eq(u.path_len, strlen(g->path), "%s", g->text);
        cr_assert_arr_eq(u.path, g->path, u.path_len);
        cr_assert_eq(!u.query, !g->query, "%s", g->text);
        if (g->query) {
            cr_assert_eq(u.query_len, strlen(g->query));
            cr_assert_arr_eq(u.query, g->query, u.query_len);
        }
    }
}

Test(url, bad)
{
    static const char *const texts[] = {
        "",
        "http",
        "http:",
        "http:/",
        "http://",
        "http:///a",
        "//a/b",
        "/a",
        "a",
        "ftp://a/",
        "ws://a/",
        "httpx://a",
        " http://a",
        "http ://a",
        "http://a b",
        "http://a/b c",
        "http://a/\t",
        "http://a/\r\n",
        "http://user@a/",
        "http://user:pw@a/",
        "http://a@b@c/",
        "http://good.com@evil",
        "http://a#f",
        "http://a/#f",
        "http://a/?q#f",
        "http://a:/",
        "http://a:0/",
        "http://a:080/",
        "http://a:65536/",
        "http://a:99999999999/",
        "http://a:-1/",
        "http://a:+1/",
        "http://a:0x50/",
        "http://a:8 /",
        "http://a:80:80/",
        "http://::1/",
        "http://[::1/",
        "http://[::1]x/",
        "http://[::1]:/",
        "http://a\\b/",
        "http://a/b\\c",
        "http://a\\@b/",
        "http://%61/",
        "http://a%00/",
        "http://0x7f.1/",
        "http://127.1/",
        "http://[::ffff:1.2.3.4]/",
        "http://a/\xc3\xbc",
        "http://\xc3\xbc/",
        "http://a/\x7f",
        "http:\\\\a\\",
        "http://a..b/",
        "http://?a",
        "http://:80/",
    };
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        struct err err = ERR_INIT;
        struct url u;
        cr_assert_lt(url_parse(texts[i], strlen(texts[i]), &u, &err), 0, "%s", texts[i]);
        cr_assert(err.message[0]);
    }
    struct url u;
    cr_assert_lt(url_parse("http://a/\0b", 11, &u, NULL), 0);
}

Test(url, authorities)
{
    struct host h;
    uint16_t port = 0;
    cr_assert_eq(authority_parse("A.b:443", 7, 0, &h, &port, NULL), 0);
    cr_assert_str_eq(h.text, "a.b");
    cr_assert_eq(port, 443);
    cr_assert_eq(authority_parse("[::1]:22", 8, 0, &h, &port, NULL), 0);
    cr_assert_eq(port, 22);
    cr_assert_eq(authority_parse("a", 1, 99, &h, &port, NULL), 0);
    cr_assert_eq(port, 99);
    cr_assert_lt(authority_parse("a", 1, 0, &h, &port, NULL), 0);
    cr_assert_lt(authority_parse("::1:22", 6, 0, &h, &port, NULL), 0);
    cr_assert_lt(authority_parse("a:", 2, 99, &h, &port, NULL), 0);
    cr_assert_lt(authority_parse("a:22/", 5, 99, &h, &port, NULL), 0);
    cr_assert_lt(authority_parse("u@a:22", 6, 99, &h, &port, NULL), 0);
    cr_assert_lt(authority_parse("", 0, 99, &h, &port, NULL), 0);
    cr_assert_eq(host_header_parse("a", 1, &h, &port, NULL), 0);
    cr_assert_eq(port, 0);
}

Test(url, ports)
{
    static const char *const bad[] = {"",   "0",  "00", "01", "65536", "100000", "-1",
                                      "+1", " 1", "1 ", "1a", "0x1",   "1.0"};
    uint16_t port = 7;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        cr_assert_lt(port_parse(bad[i], strlen(bad[i]), &port), 0, "%s", bad[i]);
    cr_assert_eq(port, 7);
    cr_assert_eq(port_parse("65535", 5, &port), 0);
    cr_assert_eq(port, 65535);
    cr_assert_eq(port_parse("1", 1, &port), 0);
    cr_assert_eq(port, 1);
}
