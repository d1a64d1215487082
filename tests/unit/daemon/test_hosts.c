/* Which Host and Origin are served (D-03). */
#include "daemon/server/connection.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static struct server *server;

static void setup(void)
{
    cr_assert_eq(server_new(&server, NULL, NULL, NULL, NULL, NULL, NULL), 0);
    cr_assert_eq(server_allow_host(server, "api.brig.example", NULL), 0);
    cr_assert_eq(server_allow_host(server, ".boxes.example", NULL), 0);
    cr_assert_eq(server_allow_host(server, "192.0.2.7", NULL), 0);
}
static void teardown(void)
{
    server_free(server);
}
TestSuite(hosts, .init = setup, .fini = teardown);

static int check_on(bool local, const char *target, const char *host, const char *more)
{
    char head[2048];
    struct http_request r;
    struct err err = ERR_INIT;
    const char *why;
    int n =
        snprintf(head, sizeof head, "GET %s HTTP/1.1\r\nHost: %s\r\n%s\r\n", target, host, more);
    cr_assert_eq(http_request_parse(head, (size_t)n, &r, &err), 0, "%s", err.message);
    int status = host_check(server, &r, local, &why);
    http_request_done(&r);
    return status;
}
static int host(const char *name)
{
    return check_on(false, "/", name, "");
}
static int origin(const char *name, const char *value)
{
    char more[512];
    snprintf(more, sizeof more, "Origin: %s\r\n", value);
    return check_on(false, "/", name, more);
}

Test(hosts, this_machine)
{
    cr_assert_eq(host("localhost"), 0);
    cr_assert_eq(host("LocalHost:8080"), 0);
    cr_assert_eq(host("127.0.0.1:1"), 0);
    cr_assert_eq(host("[::1]:80"), 0);
    cr_assert_eq(host("127.0.0.2"), 403);
    cr_assert_eq(host("[fe80::1]"), 403);
    cr_assert_eq(host("0.0.0.0"), 403);
    cr_assert_eq(host("3000-abc.localhost:8080"), 0);
    cr_assert_eq(host("notlocalhost"), 403);
    cr_assert_eq(host("localhost.evil.example"), 403);
    cr_assert_eq(host("evil.example"), 403);
}

Test(hosts, names_that_were_allowed)
{
    cr_assert_eq(host("api.brig.example:443"), 0);
    cr_assert_eq(host("192.0.2.7:99"), 0);
    cr_assert_eq(host("x.api.brig.example"), 403);
    cr_assert_eq(host("brig.example"), 403);
    cr_assert_eq(host("3000-abc.boxes.example"), 0);
    cr_assert_eq(host("a.b.boxes.example"), 0);
    cr_assert_eq(host("boxes.example"), 403);
    cr_assert_eq(host("evilboxes.example"), 403);
    cr_assert_eq(host("boxes.example.evil"), 403);
    cr_assert_eq(check_on(true, "/", "anything.example", ""), 0, "a UNIX socket has no name");
}

Test(hosts, no_host_at_all)
{
    struct http_request r;
    const char *why;
    const char head[] = "GET / HTTP/1.0\r\n\r\n";
    cr_assert_eq(http_request_parse(head, sizeof head - 1, &r, NULL), 0);
    cr_assert_eq(host_check(server, &r, false, &why), 403);
    cr_assert_eq(host_check(server, &r, true, &why), 0);
    http_request_done(&r);
}

Test(hosts, pages_are_not_served)
{
    cr_assert_eq(origin("localhost:8080", "http://evil.example"), 403);
    cr_assert_eq(origin("localhost:8080", "http://localhost:8080"), 403);
    cr_assert_eq(origin("localhost:8080", "null"), 403);
    cr_assert_eq(origin("api.brig.example", "http://api.brig.example"), 403);
    cr_assert_eq(check_on(true, "/", "localhost", "Origin: http://localhost\r\n"), 403);
    cr_assert_eq(check_on(false, "/", "localhost", "Sec-Fetch-Site: cross-site\r\n"), 403);
    cr_assert_eq(check_on(false, "/", "localhost", "Sec-Fetch-Site: same-site\r\n"), 403);
    cr_assert_eq(check_on(false, "/", "localhost", "Sec-Fetch-Site: none\r\n"), 0);
    cr_assert_eq(check_on(false, "/", "localhost", "Sec-Fetch-Mode: cors\r\n"), 0);
}

Test(hosts, the_server_itself_is_an_origin_for_mcp)
{
    cr_assert_eq(check_on(false, "/mcp", "localhost:80", "Origin: http://localhost:80\r\n"), 0);
    cr_assert_eq(check_on(false, "/mcp?x", "127.0.0.1:81", "Origin: http://127.0.0.1:81\r\n"), 0);
    cr_assert_eq(check_on(false, "/mcpx", "localhost:80", "Origin: http://localhost:80\r\n"), 403);
    cr_assert_eq(check_on(false, "/mcp/x", "localhost:80", "Origin: http://localhost\r\n"), 403);
    cr_assert_eq(check_on(false, "/mcp", "localhost:80", "Origin: http://127.0.0.1:80\r\n"), 403);
    cr_assert_eq(check_on(false, "/mcp", "localhost:80", "Origin: http://localhost:81\r\n"), 403);
    cr_assert_eq(check_on(false, "/mcp", "api.brig.example", "Origin: http://api.brig.example\r\n"),
                 403);
}

Test(hosts, a_sandbox_page_talks_to_itself)
{
    cr_assert_eq(origin("3000-a.boxes.example", "http://3000-a.boxes.example"), 0);
    cr_assert_eq(origin("3000-a.boxes.example", "https://3000-a.boxes.example"), 0);
    cr_assert_eq(origin("3000-a.boxes.example:81", "http://3000-a.boxes.example:81"), 0);
    cr_assert_eq(origin("3000-a.boxes.example:81", "http://3000-a.boxes.example"), 403);
    cr_assert_eq(origin("3000-b.boxes.example", "http://3000-a.boxes.example"), 403);
    cr_assert_eq(origin("localhost", "http://3000-a.boxes.example"), 403);
    cr_assert_eq(origin("3000-a.localhost:81", "http://3000-a.localhost:81"), 0);
    cr_assert_eq(origin("localhost:81", "http://3000-a.localhost:81"), 403);
    cr_assert_eq(origin("3000-a.boxes.example", "http://3000-a.boxes.example/x"), 403);
    cr_assert_eq(check_on(false, "/", "3000-a.boxes.example",
                          "Origin: http://3000-a.boxes.example\r\nOrigin: http://evil.example\r\n"),
                 403);
}

Test(hosts, no_proxy)
{
    cr_assert_eq(check_on(false, "http://localhost/x", "localhost", ""), 400);
    cr_assert_eq(check_on(false, "http://evil.example/x", "localhost", ""), 400);
}
