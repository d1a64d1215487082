#include "http/query.h"

#include <criterion/criterion.h>
#include <string.h>

static struct query parse(const char *text)
{
    struct query q;
    struct err err = ERR_INIT;
    cr_assert_eq(query_parse(text, strlen(text), &q, &err), 0, "%s: %s", text, err.message);
    return q;
}

static int refused(const char *text)
{
    struct query q;
    struct err err = ERR_INIT;
    int r = query_parse(text, strlen(text), &q, &err);
    cr_assert(r == 0 || err.message[0]);
    query_done(&q);
    return r < 0;
}

Test(query, pairs_are_decoded)
{
    struct query q = parse("path=%2Fhome%2Fa+b&x=&y&path=2&%C3%A9=%25");
    cr_assert_eq(q.count, 5);
    cr_assert_str_eq(query_get(&q, "path"), "/home/a b");
    cr_assert_str_eq(query_get(&q, "x"), "");
    cr_assert_str_eq(query_get(&q, "y"), "");
    cr_assert_str_eq(query_get(&q, "\xc3\xa9"), "%");
    cr_assert_null(query_get(&q, "z"));
    query_done(&q);
}

Test(query, nothing_is_no_pair)
{
    struct query q = parse("");
    cr_assert_eq(q.count, 0);
    query_done(&q);
    q = parse("&&a=1&&");
    cr_assert_eq(q.count, 1);
    query_done(&q);
    q = parse("=v");
    cr_assert_eq(q.count, 1);
    cr_assert_str_eq(query_get(&q, ""), "v");
    query_done(&q);
}

Test(query, only_the_first_equals_sign_divides)
{
    struct query q = parse("metadata=a%3Db=c");
    cr_assert_str_eq(query_get(&q, "metadata"), "a=b=c");
    query_done(&q);
}

Test(query, nonsense_is_refused)
{
    cr_assert(refused("a=%"));
    cr_assert(refused("a=%4"));
    cr_assert(refused("a=%zz"));
    cr_assert(refused("a=%00"));
    cr_assert(refused("%00=a"));
    cr_assert(refused("a=\x01"));
    cr_assert(refused("a= b"));
    cr_assert(!refused("a=%41"));
}

Test(query, pairs_are_counted)
{
    char text[3 * QUERY_PAIRS_MAX + 8] = "";
    for (size_t i = 0; i < QUERY_PAIRS_MAX; i++)
        memcpy(text + 2 * i, "a&", 3);
    cr_assert(!refused(text));
    memcpy(text + 2 * QUERY_PAIRS_MAX, "a", 2);
    cr_assert(refused(text));
}

static int path(const char *text, char *out)
{
    return path_decode(text, strlen(text), out, NULL);
}

Test(query, paths)
{
    char out[128];
    cr_assert_eq(path("/sandboxes/abc/timeout", out), 0);
    cr_assert_str_eq(out, "/sandboxes/abc/timeout");
    cr_assert_eq(path("/a%20b+c/%C3%A9", out), 0);
    cr_assert_str_eq(out, "/a b+c/\xc3\xa9");
    cr_assert_eq(path("/a/...", out), 0);
    cr_assert_eq(path("/a%25", out), 0, "a percent sign at the end of a path");
    cr_assert_lt(path("/a%2fb", out), 0);
    cr_assert_lt(path("/a%2Fb", out), 0);
    cr_assert_lt(path("/a%5cb", out), 0);
    cr_assert_lt(path("/a%00b", out), 0);
    cr_assert_lt(path("/a/../b", out), 0);
    cr_assert_lt(path("/a/%2e%2e/b", out), 0);
    cr_assert_lt(path("/a/.", out), 0);
    cr_assert_lt(path("/..", out), 0);
    cr_assert_lt(path("/%2", out), 0);
}
