#include "http/message.h"

#include "base/cleanup.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#define HOST "Host: a\r\n"

static int request(const char *head, struct http_request *r, struct err *err)
{
    return http_request_parse(head, strlen(head), r, err);
}

static int response(const char *head, const char *method, struct http_response *r, struct err *err)
{
    return http_response_parse(head, strlen(head), method, r, err);
}

/* ---- heads ---- */

Test(message, head_length)
{
    static const struct {
        const char *text;
        ssize_t length;
    } rows[] = {
        {"", 0},
        {"GET / HTTP/1.1\r\nHost: a\r\n\r\n", 27},
        {"GET / HTTP/1.1\r\nHost: a\r\n\r\nmore", 27},
        {"GET / HTTP/1.1\r\nHost: a\r\n", 0},
        {"GET / HTTP/1.1\r\n\r", 0},
        {"GET / HTTP/1.1\r\n\r\n", 18},
        {"GET / HTTP/1.1\nHost: a\r\n\r\n", -1},
        {"GET / HTTP/1.1\r\nHost: a\n\r\n", -1},
        {"GET / HTTP/1.1\r\n\n", -1},
        {"\r\nGET / HTTP/1.1\r\n\r\n", -1},
        {"\n", -1},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct err err = ERR_INIT;
        ssize_t n = http_head_length(rows[i].text, strlen(rows[i].text), &err);
        cr_assert(rows[i].length < 0 ? n < 0 : n == rows[i].length, "%zu: %zd", i, n);
    }
}

Test(message, head_is_found_in_whatever_pieces_it_comes)
{
    const char *head = "GET / HTTP/1.1\r\nHost: a\r\nB: c\r\n\r\n";
    size_t scanned = 0;
    for (size_t len = 0; len < strlen(head); len++)
        cr_assert_eq(http_head_scan(head, len, &scanned, NULL), 0, "%zu", len);
    cr_assert_eq(http_head_scan(head, strlen(head), &scanned, NULL), (ssize_t)strlen(head));
}

Test(message, head_without_an_end_is_refused_at_the_limit)
{
    static char big[HTTP_HEAD_MAX + 10];
    struct err err = ERR_INIT;
    memset(big, 'a', sizeof(big));
    cr_assert_eq(http_head_length(big, HTTP_HEAD_MAX - 1, &err), 0);
    cr_assert_lt(http_head_length(big, HTTP_HEAD_MAX, &err), 0);
    cr_assert_eq(err.code, ERR_LIMIT);
}

/* ---- requests ---- */

Test(message, origin_form)
{
    struct http_request r;
    struct err err = ERR_INIT;
    cr_assert_eq(request("GET /a/b?c=d HTTP/1.1\r\nHost: Example.org:8080\r\nAccept:\t*/* \r\n"
                         "X-Empty:\r\nX-Utf8: \xc3\xbc\r\n\r\n",
                         &r, &err),
                 0, "%s", err.message);
    cr_assert_str_eq(r.method, "GET");
    cr_assert_eq(r.form, FORM_ORIGIN);
    cr_assert_str_eq(r.target, "/a/b?c=d");
    cr_assert_str_eq(r.host.text, "example.org");
    cr_assert_eq(r.port, 8080);
    cr_assert_eq(r.minor, 1);
    cr_assert_eq(r.body, BODY_NONE);
    cr_assert(r.keep_alive);
    cr_assert_eq(r.headers.count, 4);
    cr_assert_str_eq(http_header_get(&r.headers, "accept"), "*/*");
    cr_assert_str_eq(http_header_get(&r.headers, "X-Empty"), "");
    cr_assert_null(http_header_get(&r.headers, "X"));
    cr_assert_null(r.upgrade);
    http_request_done(&r);
}

Test(message, absolute_form)
{
    static const struct {
        const char *url;
        const char *target;
        uint16_t port;
    } rows[] = {
        {"http://a.example/x?y", "/x?y", 80},
        {"http://a.example", "/", 80},
        {"http://a.example?y", "/?y", 80},
        {"https://A.example:99/", "/", 99},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char head[200];
        struct http_request r;
        struct err err = ERR_INIT;
        snprintf(head, sizeof(head), "GET %s HTTP/1.1\r\nHost: b.example\r\n\r\n", rows[i].url);
        cr_assert_eq(request(head, &r, &err), 0, "%s: %s", rows[i].url, err.message);
        cr_assert_eq(r.form, FORM_ABSOLUTE);
        cr_assert_str_eq(r.target, rows[i].target);
        cr_assert_str_eq(r.url.host.text, "a.example");
        cr_assert_eq(r.url.port, rows[i].port);
        cr_assert_str_eq(r.host.text, "b.example");
        http_request_done(&r);
    }
}

Test(message, connect_and_asterisk)
{
    struct http_request r;
    struct err err = ERR_INIT;
    cr_assert_eq(request("CONNECT [::1]:443 HTTP/1.1\r\nHost: [::1]:443\r\n\r\n", &r, &err), 0,
                 "%s", err.message);
    cr_assert_eq(r.form, FORM_AUTHORITY);
    cr_assert_str_eq(r.host.text, "::1");
    cr_assert_eq(r.port, 443);
    http_request_done(&r);
    cr_assert_eq(request("CONNECT a:1 HTTP/1.0\r\n\r\n", &r, &err), 0, "%s", err.message);
    http_request_done(&r);
    cr_assert_eq(request("OPTIONS * HTTP/1.1\r\n" HOST "\r\n", &r, &err), 0, "%s", err.message);
    cr_assert_eq(r.form, FORM_ASTERISK);
    http_request_done(&r);
}

Test(message, bodies_and_connection)
{
    static const struct {
        const char *headers;
        enum http_body body;
        uint64_t length;
        bool keep_alive;
    } rows[] = {
        {"Content-Length: 0\r\n", BODY_LENGTH, 0, true},
        {"Content-Length: 12345678901\r\n", BODY_LENGTH, 12345678901u, true},
        {"Transfer-Encoding: chunked\r\n", BODY_CHUNKED, 0, true},
        {"transfer-encoding: Chunked\r\nConnection: close\r\n", BODY_CHUNKED, 0, false},
        {"Connection: foo, CLOSE ,bar\r\n", BODY_NONE, 0, false},
        {"Connection: foo\r\nConnection: close\r\n", BODY_NONE, 0, false},
        {"Connection: closed\r\n", BODY_NONE, 0, true},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char head[300];
        struct http_request r;
        struct err err = ERR_INIT;
        snprintf(head, sizeof(head), "POST / HTTP/1.1\r\n" HOST "%s\r\n", rows[i].headers);
        cr_assert_eq(request(head, &r, &err), 0, "%s: %s", rows[i].headers, err.message);
        cr_assert_eq(r.body, rows[i].body);
        cr_assert_eq(r.length, rows[i].length);
        cr_assert_eq(r.keep_alive, rows[i].keep_alive, "%s", rows[i].headers);
        http_request_done(&r);
    }
}

Test(message, version_1_0)
{
    struct http_request r;
    cr_assert_eq(request("GET / HTTP/1.0\r\n\r\n", &r, NULL), 0);
    cr_assert_not(r.keep_alive);
    cr_assert_str_eq(r.host.text, "");
    http_request_done(&r);
    cr_assert_eq(request("GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n", &r, NULL), 0);
    cr_assert(r.keep_alive);
    http_request_done(&r);
}

Test(message, expect_and_upgrade)
{
    struct http_request r;
    cr_assert_eq(request("PUT / HTTP/1.1\r\n" HOST
                         "Expect: 100-Continue\r\nContent-Length: 1\r\n\r\n",
                         &r, NULL),
                 0);
    cr_assert(r.expects_continue);
    http_request_done(&r);
    cr_assert_eq(request("GET / HTTP/1.1\r\n" HOST
                         "Connection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n\r\n",
                         &r, NULL),
                 0);
    cr_assert_str_eq(r.upgrade, "websocket");
    http_request_done(&r);
    /* Not asked for in Connection, or more than one: as if it was not there. */
    cr_assert_eq(request("GET / HTTP/1.1\r\n" HOST "Upgrade: websocket\r\n\r\n", &r, NULL), 0);
    cr_assert_null(r.upgrade);
    http_request_done(&r);
    cr_assert_eq(request("GET / HTTP/1.1\r\n" HOST
                         "Connection: Upgrade\r\nUpgrade: websocket, h2c\r\n\r\n",
                         &r, NULL),
                 0);
    cr_assert_null(r.upgrade);
    http_request_done(&r);
}

#define GET  "GET / HTTP/1.1\r\n"
#define POST "POST / HTTP/1.1\r\n" HOST
static const char *const bad_requests[] = {
    /* the line */
    "\r\n",
    "GET\r\n" HOST "\r\n",
    "GET /\r\n" HOST "\r\n",
    "GET  / HTTP/1.1\r\n" HOST "\r\n",
    "GET /  HTTP/1.1\r\n" HOST "\r\n",
    "GET / HTTP/1.1 \r\n" HOST "\r\n",
    " GET / HTTP/1.1\r\n" HOST "\r\n",
    "GET\t/ HTTP/1.1\r\n" HOST "\r\n",
    "GET /\tHTTP/1.1\r\n" HOST "\r\n",
    "GET / a HTTP/1.1\r\n" HOST "\r\n",
    "GET / HTTP/1.2\r\n" HOST "\r\n",
    "GET / HTTP/2.0\r\n" HOST "\r\n",
    "GET / HTTP/0.9\r\n" HOST "\r\n",
    "GET / HTTP/1.\r\n" HOST "\r\n",
    "GET / HTTP/1.10\r\n" HOST "\r\n",
    "GET / HTTP/01.1\r\n" HOST "\r\n",
    "GET / http/1.1\r\n" HOST "\r\n",
    "GET / HTTP/1.1\rX\r\n" HOST "\r\n",
    "G\x01T / HTTP/1.1\r\n" HOST "\r\n",
    "G(T / HTTP/1.1\r\n" HOST "\r\n",
    "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAA / HTTP/1.1\r\n" HOST "\r\n",
    "GET a HTTP/1.1\r\n" HOST "\r\n",
    "GET * HTTP/1.1\r\n" HOST "\r\n",
    "GET /#x HTTP/1.1\r\n" HOST "\r\n",
    "GET /\xc3\xbc HTTP/1.1\r\n" HOST "\r\n",
    "GET /a\\b HTTP/1.1\r\n" HOST "\r\n",
    "GET http://u@a/ HTTP/1.1\r\n" HOST "\r\n",
    "GET ftp://a/ HTTP/1.1\r\n" HOST "\r\n",
    "GET a:443 HTTP/1.1\r\n" HOST "\r\n",
    "CONNECT a HTTP/1.1\r\n" HOST "\r\n",
    "CONNECT /a HTTP/1.1\r\n" HOST "\r\n",
    "CONNECT http://a/ HTTP/1.1\r\n" HOST "\r\n",
    "CONNECT a:1 HTTP/1.1\r\nHost: b:1\r\n\r\n",
    "CONNECT a:1 HTTP/1.1\r\nHost: a:2\r\n\r\n",
    "CONNECT a:1 HTTP/1.1\r\n" HOST "Content-Length: 4\r\n\r\n",
    "CONNECT a:1 HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n",
    /* Host */
    GET "\r\n",
    GET HOST HOST "\r\n",
    GET "Host: a\r\nhost: b\r\n\r\n",
    GET "Host:\r\n\r\n",
    GET "Host: a, b\r\n\r\n",
    GET "Host: a b\r\n\r\n",
    GET "Host: u@a\r\n\r\n",
    GET "Host: a:\r\n\r\n",
    GET "Host: a:0\r\n\r\n",
    GET "Host: a/b\r\n\r\n",
    GET "Host: http://a\r\n\r\n",
    GET "Host: 0x7f000001\r\n\r\n",
    /* fields */
    GET HOST " folded: x\r\n\r\n",
    GET HOST "A: b\r\n\tc\r\n\r\n",
    GET HOST "A : b\r\n\r\n",
    GET HOST "A\t: b\r\n\r\n",
    GET HOST "A b: c\r\n\r\n",
    GET HOST ": b\r\n\r\n",
    GET HOST "A\r\n\r\n",
    GET HOST "A\x01: b\r\n\r\n",
    GET HOST "A\xc3: b\r\n\r\n",
    GET HOST "A: b\x01\r\n\r\n",
    GET HOST "A: b\x7f\r\n\r\n",
    GET HOST "A: b\rc\r\n\r\n",
    GET HOST "A: b\r\r\n\r\n",
    GET HOST "A: b\nc: d\r\n\r\n",
    GET HOST "A: b\r\n",
    GET HOST "\r\nX",
    GET HOST,
    /* lengths */
    POST "Content-Length: 1\r\nContent-Length: 1\r\n\r\n",
    POST "Content-Length: 1\r\nContent-Length: 2\r\n\r\n",
    POST "Content-Length: 1, 1\r\n\r\n",
    POST "Content-Length: -1\r\n\r\n",
    POST "Content-Length: +1\r\n\r\n",
    POST "Content-Length: 0x10\r\n\r\n",
    POST "Content-Length: 1 0\r\n\r\n",
    POST "Content-Length: 1e3\r\n\r\n",
    POST "Content-Length: 01\r\n\r\n",
    POST "Content-Length:\r\n\r\n",
    POST "Content-Length: 1;\r\n\r\n",
    POST "Content-Length: 99999999999999999999\r\n\r\n",
    POST "Content-Length: 18446744073709551617\r\n\r\n",
    POST "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
    POST "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n",
    POST "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
    POST "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n",
    POST "Transfer-Encoding: chunked, chunked\r\n\r\n",
    POST "Transfer-Encoding: gzip, chunked\r\n\r\n",
    POST "Transfer-Encoding: identity\r\n\r\n",
    POST "Transfer-Encoding: xchunked\r\n\r\n",
    POST "Transfer-Encoding: chunked;q=1\r\n\r\n",
    POST "Transfer-Encoding: \"chunked\"\r\n\r\n",
    POST "Transfer-Encoding:\r\n\r\n",
    POST "Transfer-Encoding: \x0b"
         "chunked\r\n\r\n",
    POST "Transfer-Encoding : chunked\r\n\r\n",
    POST "Transfer-Encoding\r\n : chunked\r\n\r\n",
    "POST / HTTP/1.0\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n",
    POST "Expect: something\r\n\r\n",
    POST "Expect: 100-continue\r\nExpect: 100-continue\r\n\r\n",
};

Test(message, bad_requests)
{
    struct http_request control;
    cr_assert_eq(request(GET HOST "A: b\r\n\r\n", &control, NULL), 0);
    http_request_done(&control);
    for (size_t i = 0; i < ARRAY_LEN(bad_requests); i++) {
        struct err err = ERR_INIT;
        struct http_request r;
        cr_assert_lt(request(bad_requests[i], &r, &err), 0, "%zu: %s", i, bad_requests[i]);
        cr_assert(err.message[0]);
    }
}

Test(message, nul_bytes)
{
    static const char in_value[] = GET HOST "A: b\0c\r\n\r\n";
    static const char in_name[] = GET HOST "A\0: b\r\n\r\n";
    static const char in_target[] = "GET /\0 HTTP/1.1\r\n" HOST "\r\n";
    static const char in_host[] = GET "Host: a\0b\r\n\r\n";
    struct http_request r;
    cr_assert_lt(http_request_parse(in_value, sizeof(in_value) - 1, &r, NULL), 0);
    cr_assert_lt(http_request_parse(in_name, sizeof(in_name) - 1, &r, NULL), 0);
    cr_assert_lt(http_request_parse(in_target, sizeof(in_target) - 1, &r, NULL), 0);
    cr_assert_lt(http_request_parse(in_host, sizeof(in_host) - 1, &r, NULL), 0);
}

Test(message, caps)
{
    struct buf head;
    struct http_request r;
    struct err err = ERR_INIT;
    buf_init(&head, 1 << 20);
    buf_str(&head, GET HOST);
    for (int i = 1; i < HTTP_HEADERS_MAX; i++)
        buf_str(&head, "A: b\r\n");
    size_t full = head.len;
    buf_str(&head, "\r\n");
    cr_assert_eq(http_request_parse(head.data, head.len, &r, &err), 0, "%s", err.message);
    cr_assert_eq(r.headers.count, HTTP_HEADERS_MAX);
    http_request_done(&r);
    head.len = full;
    buf_str(&head, "A: b\r\n\r\n");
    cr_assert_lt(http_request_parse(head.data, head.len, &r, &err), 0);
    cr_assert_eq(err.code, ERR_LIMIT);
    buf_reset(&head);
    buf_str(&head, "GET /");
    for (size_t i = 1; i < HTTP_TARGET_MAX; i++)
        buf_chr(&head, 'a');
    full = head.len;
    buf_str(&head, " HTTP/1.1\r\n" HOST "\r\n");
    cr_assert_eq(http_request_parse(head.data, head.len, &r, &err), 0);
    http_request_done(&r);
    head.len = full;
    buf_str(&head, "a HTTP/1.1\r\n" HOST "\r\n");
    cr_assert_lt(http_request_parse(head.data, head.len, &r, &err), 0);
    buf_done(&head);
}

/* ---- lists ---- */

Test(message, headers_can_be_changed)
{
    struct http_request r;
    struct err err = ERR_INIT;
    cr_assert_eq(request(GET HOST "A: 1\r\nB: 2\r\na: 3\r\n\r\n", &r, &err), 0);
    cr_assert_eq(http_header_count(&r.headers, "A"), 2);
    cr_assert_eq(http_header_replace(&r.headers, 1, "one", &err), 0);
    cr_assert_str_eq(http_header_get(&r.headers, "A"), "one");
    http_header_remove(&r.headers, "a");
    cr_assert_eq(http_header_count(&r.headers, "A"), 0);
    cr_assert_str_eq(http_header_get(&r.headers, "B"), "2");
    for (int i = 0; i < 30; i++)
        cr_assert_eq(http_header_add(&r.headers, "New", " v ", &err), 0, "%s", err.message);
    cr_assert_str_eq(http_header_get(&r.headers, "New"), "v");
    cr_assert_eq(r.headers.count, 32);
    cr_assert_str_eq(r.headers.items[1].name, "B");
    cr_assert_eq(http_header_replace(&r.headers, 5, "w", &err), 0);
    http_header_remove(&r.headers, "New");
    cr_assert_eq(r.headers.count, 2);
    http_request_done(&r);
}

Test(message, headers_that_are_added_are_checked)
{
    static const char *const names[] = {"", "A B", "A:", "A\r\nB", "\xc3", "A\n"};
    static const char *const values[] = {"a\r\nB: c", "a\n", "\r", "a\x01", "\x7f"};
    struct http_headers h = {0};
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        cr_assert_lt(http_header_add(&h, names[i], "v", NULL), 0, "%s", names[i]);
    for (size_t i = 0; i < ARRAY_LEN(values); i++)
        cr_assert_lt(http_header_add(&h, "N", values[i], NULL), 0, "%s", values[i]);
    cr_assert_eq(h.count, 0);
    cr_assert_eq(http_header_add(&h, "N", "v", NULL), 0);
    cr_assert_lt(http_header_replace(&h, 0, "a\r\n", NULL), 0);
    cr_assert_str_eq(h.items[0].value, "v");
    for (int i = 0; i < 400; i++)
        http_header_add(&h, "N", "v", NULL);
    cr_assert_leq(h.count, 200);
    http_headers_done(&h);
}

Test(message, hop_by_hop)
{
    struct http_request r;
    cr_assert_eq(request(GET HOST
                         "Connection: close, X-Own\r\nX-Own: 1\r\nKeep-Alive: 2\r\nTE: x\r\n"
                         "Proxy-Authorization: y\r\nProxy-Connection: z\r\nTrailer: t\r\n"
                         "Upgrade: h2c\r\nX-Owned: stays\r\nConnection: X-Other\r\n"
                         "X-Other: 3\r\n\r\n",
                         &r, NULL),
                 0);
    http_strip_hop_by_hop(&r.headers);
    cr_assert_eq(r.headers.count, 2);
    cr_assert_str_eq(http_header_get(&r.headers, "X-Owned"), "stays");
    http_request_done(&r);
}

Test(message, request_is_written_anew)
{
    struct http_request r;
    struct buf out;
    buf_init(&out, 4096);
    cr_assert_eq(request("POST http://a.example:81/x?y HTTP/1.0\r\nhost:   b\r\nAccept:  c  \r\n"
                         "Content-Length: 3\r\nConnection: close\r\n\r\n",
                         &r, NULL),
                 0);
    http_strip_hop_by_hop(&r.headers);
    http_request_write(&r, "a.example:81", &out);
    cr_assert_str_eq(out.data, "POST /x?y HTTP/1.1\r\nHost: a.example:81\r\nAccept: c\r\n"
                               "Content-Length: 3\r\n\r\n");
    buf_done(&out);
    http_request_done(&r);
}

/* ---- responses ---- */

Test(message, responses)
{
    static const struct {
        const char *head;
        const char *method;
        int status;
        enum http_body body;
        uint64_t length;
        bool keep_alive;
        const char *reason;
    } rows[] = {
        {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", "GET", 200, BODY_LENGTH, 5, true, "OK"},
        {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", "HEAD", 200, BODY_NONE, 0, true, "OK"},
        {"HTTP/1.1 200 \r\nTransfer-Encoding: chunked\r\n\r\n", "GET", 200, BODY_CHUNKED, 0, true,
         ""},
        {"HTTP/1.1 200\r\n\r\n", "GET", 200, BODY_UNTIL_CLOSE, 0, false, ""},
        {"HTTP/1.0 200 Fine Thing\r\n\r\n", "GET", 200, BODY_UNTIL_CLOSE, 0, false, "Fine Thing"},
        {"HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\n", "GET", 200, BODY_LENGTH, 1, false, "OK"},
        {"HTTP/1.1 204 No\r\nContent-Length: 9\r\n\r\n", "GET", 204, BODY_NONE, 0, true, "No"},
        {"HTTP/1.1 304 Not\r\nContent-Length: 9\r\n\r\n", "GET", 304, BODY_NONE, 0, true, "Not"},
        {"HTTP/1.1 100 Continue\r\n\r\n", "POST", 100, BODY_NONE, 0, true, "Continue"},
        {"HTTP/1.1 101 S\r\nUpgrade: websocket\r\n\r\n", "GET", 101, BODY_NONE, 0, true, "S"},
        {"HTTP/1.1 200 OK\r\n\r\n", "CONNECT", 200, BODY_NONE, 0, true, "OK"},
        {"HTTP/1.1 404 \xc3\xbc\r\nContent-Length: 0\r\n\r\n", "GET", 404, BODY_LENGTH, 0, true,
         ""},
        {"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n", "GET", 200,
         BODY_LENGTH, 0, false, "OK"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct http_response r;
        struct err err = ERR_INIT;
        cr_assert_eq(response(rows[i].head, rows[i].method, &r, &err), 0, "%zu: %s", i,
                     err.message);
        cr_assert_eq(r.status, rows[i].status);
        cr_assert_eq(r.body, rows[i].body, "%zu", i);
        cr_assert_eq(r.length, rows[i].length);
        cr_assert_eq(r.keep_alive, rows[i].keep_alive, "%zu", i);
        cr_assert_str_eq(r.reason, rows[i].reason);
        http_response_done(&r);
    }
}

Test(message, bad_responses)
{
    static const char *const texts[] = {
        "HTTP/1.1\r\n\r\n",
        "HTTP/1.1 20\r\n\r\n",
        "HTTP/1.1 2000 OK\r\n\r\n",
        "HTTP/1.1 099 OK\r\n\r\n",
        "HTTP/1.1 +20 OK\r\n\r\n",
        "HTTP/1.1  200 OK\r\n\r\n",
        "HTTP/1.1\t200 OK\r\n\r\n",
        "HTTP/2 200 OK\r\n\r\n",
        "ICY 200 OK\r\n\r\n",
        "http/1.1 200 OK\r\n\r\n",
        "HTTP/1.1 200 O\x01K\r\n\r\n",
        "HTTP/1.1 200 O\rK\r\n\r\n",
        "HTTP/1.1 200 OK\r\nA : b\r\n\r\n",
        "HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
        "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 5 \x01\r\n\r\n",
    };
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        struct http_response r;
        cr_assert_lt(response(texts[i], "GET", &r, NULL), 0, "%s", texts[i]);
    }
}

Test(message, response_is_written_anew)
{
    static const struct {
        const char *head;
        const char *method;
        bool keep_alive;
        const char *written;
    } rows[] = {
        {"HTTP/1.0 200 Fine\r\nA:  b \r\nContent-Length: 5\r\nKeep-Alive: x\r\n\r\n", "GET", true,
         "HTTP/1.1 200 Fine\r\nA: b\r\nConnection: keep-alive\r\nContent-Length: 5\r\n\r\n"},
        {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", "HEAD", true,
         "HTTP/1.1 200 OK\r\nConnection: keep-alive\r\nContent-Length: 5\r\n\r\n"},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "GET", false,
         "HTTP/1.1 200 OK\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n"},
        {"HTTP/1.1 204\r\nContent-Length: 5\r\n\r\n", "GET", true,
         "HTTP/1.1 204 \r\nConnection: keep-alive\r\n\r\n"},
        {"HTTP/1.1 100 Continue\r\n\r\n", "GET", true, "HTTP/1.1 100 Continue\r\n\r\n"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct http_response r;
        struct buf out;
        buf_init(&out, 4096);
        cr_assert_eq(response(rows[i].head, rows[i].method, &r, NULL), 0);
        http_strip_hop_by_hop(&r.headers);
        http_response_write(&r, rows[i].keep_alive, &out);
        cr_assert_str_eq(out.data, rows[i].written);
        buf_done(&out);
        http_response_done(&r);
    }
}
