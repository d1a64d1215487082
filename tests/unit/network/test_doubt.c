/* What could make a server see another request (N-16). */
#include "network/doubt.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static void find(const char *target, const char *headers, struct doubts *ret)
{
    char head[8192];
    struct http_request r;
    struct err err = ERR_INIT;
    int len =
        snprintf(head, sizeof head, "GET %s HTTP/1.1\r\nHost: h.test\r\n%s\r\n", target, headers);
    cr_assert_eq(http_request_parse(head, (size_t)len, &r, &err), 0, "%s: %s", headers,
                 err.message);
    doubts_find(&r, ret);
    http_request_done(&r);
}

static void expect(const char *header, int kind)
{
    struct doubts d;
    char line[256];
    snprintf(line, sizeof line, "%s: x\r\n", header);
    find("/", line, &d);
    cr_expect_eq(d.count, kind >= 0, "%s", header);
    if (d.count && kind >= 0)
        cr_expect_eq((int)d.items[0].kind, kind, "%s", header);
}

Test(doubt, charsets)
{
    static const struct {
        const char *type;
        size_t count;
    } rows[] = {
        {"application/json", 0},
        {"text/html; charset=utf-8", 0},
        {"text/html; charset=\"UTF-8\"; a=b", 0},
        {"text/html;charset=ISO-8859-15", 0},
        {"text/html;charset=windows-1252", 0},
        {"text/html; charset=", 0},
        {"multipart/form-data; boundary=charset", 0},
        {"text/html; charset=ibm037", 1},
        {"text/html; charset=utf-16", 1},
        {"text/html; charset=utf-8; charset=UTF-7", 1},
        {"text/html; CharSet = \"ibm500\"", 1},
        {"text/html; charset=utf-80", 1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct doubts d;
        char line[256];
        snprintf(line, sizeof line, "Content-Type: %s\r\n", rows[i].type);
        find("/", line, &d);
        cr_expect_eq(d.count, rows[i].count, "%s", rows[i].type);
    }
}

Test(doubt, headers)
{
    static const struct {
        const char *name;
        int kind;
    } rows[] = {
        {"X-HTTP-Method", DOUBT_METHOD},
        {"X-HTTP-Method-Override", DOUBT_METHOD},
        {"X-Method-Override", DOUBT_METHOD},
        {"x_http_method_override", DOUBT_METHOD},
        {"X.Http.Method", DOUBT_METHOD},
        {"XHttpMethodOverride", DOUBT_METHOD},
        {"X-Original-URL", DOUBT_PATH},
        {"X-Rewrite-URL", DOUBT_PATH},
        {"X-Original-Uri", DOUBT_PATH},
        {"X-Override-Url", DOUBT_PATH},
        {"X-OriginalUrl", DOUBT_PATH},
        {"X-Envoy-Original-Path", DOUBT_PATH},
        {"X-Amz-Copy-Source", DOUBT_PATH},
        {"X-Ms-Copy-Source", DOUBT_PATH},
        {"Destination", DOUBT_PATH},
        {"X-HTTP-DestinationURL", DOUBT_PATH},
        {"X-Accel-Redirect", DOUBT_PATH},
        {"Forwarded", DOUBT_HOST},
        {"X-Forwarded-For", DOUBT_HOST},
        {"X-Forwarded-Proto", DOUBT_HOST},
        {"X-Forwarded-Host", DOUBT_HOST},
        {"X_Forwarded_Host", DOUBT_HOST},
        {"X-Host", DOUBT_HOST},
        {"X-Original-Host", DOUBT_HOST},
        {"X-HTTP-Host-Override", DOUBT_HOST},
        {"X-Script-Name", DOUBT_PATH},
        {"SCRIPT_NAME", DOUBT_PATH},
        {"X-Path-Info", DOUBT_PATH},
        {"X-Base-Path", DOUBT_PATH},
        {"X-Prefix", DOUBT_PATH},
        {"X-Route", DOUBT_PATH},
        {"X-Middleware-Subrequest", DOUBT_PATH},
        {"X-HTTP-Verb", DOUBT_METHOD},
        {"X-Router", -1},
        {"X-Verbose", -1},
        {"Accept", -1},
        {"Access-Control-Request-Method", -1},
        {"Content-Location", -1},
        {"Referer", -1},
        {"User-Agent", -1},
        {"Upgrade-Insecure-Requests", -1},
        {"Max-Forwards", -1},
        {"X-Request-Id", -1},
        {"X-Methodology", -1},
        {"X-Ghosting", -1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        expect(rows[i].name, rows[i].kind);
}

Test(doubt, members_of_the_query)
{
    static const char *const bad[] = {
        "_method",       "%5fmethod",   "_METHOD",   "+_method",
        ".method",       "[method]",    "_method[]", "X-HTTP-Method-Override",
        "x_http_method", "_http_method"};
    static const char *const good[] = {"method", "http_method", "a_method", "methodology", "_meth"};
    struct doubts d;
    char target[128];
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        snprintf(target, sizeof target, "/p?a=1&%s=DELETE", bad[i]);
        find(target, "", &d);
        cr_expect(d.count == 1 && d.items[0].query && d.items[0].kind == DOUBT_METHOD, "%s",
                  bad[i]);
        cr_expect(doubt_is_method(bad[i], strlen(bad[i])), "%s", bad[i]);
    }
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        snprintf(target, sizeof target, "/_method?%s=_method", good[i]);
        find(target, "", &d);
        cr_expect_eq(d.count, 0, "%s", good[i]);
    }
}

Test(doubt, a_path_in_the_query)
{
    static const char *const bad[] = {"_url", "_URL", "%5furl", "_path", "__route__", "_uri[]"};
    static const char *const good[] = {"url", "redirect_url", "path", "route", "_urls", "_page"};
    struct doubts d;
    char target[128];
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        snprintf(target, sizeof target, "/p?a=1&%s=/private", bad[i]);
        find(target, "", &d);
        cr_expect(d.count == 1 && d.items[0].query && d.items[0].kind == DOUBT_PATH, "%s", bad[i]);
    }
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        snprintf(target, sizeof target, "/_url?%s=_url", good[i]);
        find(target, "", &d);
        cr_expect_eq(d.count, 0, "%s", good[i]);
    }
}

Test(doubt, what_a_rule_names)
{
    char *names[] = {"X-HTTP-Method", "?_method"};
    struct egress_rule rule = {.pass = {names, 2}};
    struct doubts d;
    find("/?_method=x", "X-HTTP-Method: y\r\n", &d);
    cr_assert_eq(d.count, 2);
    cr_assert_null(doubts_open(&d, &rule));
    cr_assert_not_null(doubts_open(&d, NULL));
    rule.pass.count = 1;
    cr_assert(doubts_open(&d, &rule)->query);
    find("/?X-HTTP-Method=x", "", &d);
    cr_assert_not_null(doubts_open(&d, &rule), "a header is no member");
}

Test(doubt, more_than_fit_are_never_passed)
{
    char *names[] = {"X-Forwarded-For"};
    struct egress_rule rule = {.pass = {names, 1}};
    struct doubts d;
    char headers[4096] = "";
    for (int i = 0; i < DOUBTS_MAX; i++)
        strcat(headers, "X-Forwarded-For: x\r\n");
    find("/", headers, &d);
    cr_assert_null(doubts_open(&d, &rule));
    strcat(headers, "X-HTTP-Method: x\r\n");
    find("/", headers, &d);
    cr_assert(d.more);
    cr_assert_not_null(doubts_open(&d, &rule));
    find("/",
         "X-Forwarded-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa: 1\r\n",
         &d);
    cr_assert(d.more, "a name that no rule can have");
}
