#include "http/target.h"

#include "base/cleanup.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

Test(target, scheme_names)
{
    cr_assert_str_eq(scheme_name(SCHEME_ANY), "any");
    cr_assert_str_eq(scheme_name(SCHEME_HTTP), "http");
    cr_assert_str_eq(scheme_name(SCHEME_HTTPS), "https");
    cr_assert_str_eq(scheme_name(SCHEME_TCP), "tcp");
}

Test(target, plain_paths)
{
    static const char *const plain[] = {
        "/",
        "/a",
        "/a/",
        "/a/b.c",
        "/.a",
        "/..a",
        "/a..",
        "/a%20b",
        "/a%20",
        "/%c3%bc",
        "/a;b=c",
        "/a..;b",
        "/@x",
        "/a:b",
        "/~x/",
        "/{a}|b",
        "/a...b",
        "/a%3fb",
        "/a%3bb",
        "/a%23",
        "/%E4%B8%AD%E6%96%87",
        "/%F0%9F%98%80.png",
    };
    static const char *const other[] = {
        "",
        "a",
        "a/b",
        "//",
        "/a//b",
        "//a",
        "/.",
        "/..",
        "/./a",
        "/a/..",
        "/a/../b",
        "/a/.",
        "/%2e",
        "/%2E%2e/x",
        "/a%2fb",
        "/a%2Fb",
        "/a%5cb",
        "/a\\b",
        "/%00",
        "/a%0d%0ab",
        "/%7f",
        "/%",
        "/%2",
        "/%zz",
        "/%252e",
        "/ ",
        "/a b",
        "/a\tb",
        "/a\x7f",
        "/\xc3\xbc",
        "/..;/x",
        "/.;a/x",
        "/;x/a",
        "/a?b",
        "/a#b",
        "*",
        /* nothing but dots and blanks, for who cuts off parameters, queries, dots or blanks */
        "/...",
        "/%20",
        "/...;x",
        "/..%20/x",
        "/.%20./x",
        "/%20../x",
        "/..%3bx",
        "/..%3f/x",
        "/%3f/x",
        "/..%23",
        "/%3b",
        /* not the shortest form, cut off, surrogates, beyond Unicode, another character set */
        "/%c0%ae%c0%ae/x",
        "/%C0%AE",
        "/%c1%9c",
        "/%e0%80%ae",
        "/%f0%80%80%ae",
        "/%c0%af",
        "/%c3",
        "/%c3/%bc",
        "/%c3a",
        "/%bc",
        "/%e4%b8",
        "/%ed%a0%80",
        "/%f4%90%80%80",
        "/%ff",
        "/%e9",
        "/%80",
        "/%u002e",
        /* a dot, a slash, a backslash, a percent sign to somebody, or nothing */
        "/%ef%bc%8e",
        "/%ef%bc%8f",
        "/%ef%bc%bc",
        "/%ef%bc%85",
        "/%ef%b9%92",
        "/%ef%b9%a8",
        "/%e2%80%a4",
        "/%e2%80%a5",
        "/%e2%80%a6",
        "/%e2%81%84",
        "/%e2%88%95",
        "/%e2%88%96",
        "/%e2%a7%b8",
        "/%e3%80%82",
        "/%c2%a5",
        "/%e2%82%a9",
        "/%e2%84%80",
        "/.%e2%80%8b.",
        "/a%c2%ad",
        "/%ef%bb%bf",
        "/%c2%a0",
        "/%c2%85",
        "/%e3%80%80",
        "/%ef%80%ae",
        "/%f3%a0%80%ae",
    };
    for (size_t i = 0; i < ARRAY_LEN(plain); i++)
        cr_assert(path_is_plain(plain[i]), "%s", plain[i]);
    for (size_t i = 0; i < ARRAY_LEN(other); i++) {
        cr_assert_not(path_is_plain(other[i]), "%s", other[i]);
        cr_assert_not(path_pattern_match("/**", other[i]), "%s", other[i]);
    }
    cr_assert_not(path_is_plain(NULL));
}

struct match {
    const char *pattern;
    const char *path;
    bool matches;
};

static const struct match matches[] = {
    /* every reading counts */
    {"/a/*.json", "/a/b.json", true},
    {"/a/*.json", "/a/b;.json", false},
    {"/a/*.json", "/a/b%3b.json", false},
    {"/a/*.json", "/a/b%3f.json", false},
    {"/a/*.json", "/a/b%23.json", false},
    {"/a/*.json", "/a/b.json;v=.json", true},
    {"/a/*.json", "/a/b.php;x%3f.json", false},
    {"/a/**/x", "/a/b%3f/x", false},
    {"/a/*b", "/a/x;b", false},
    {"/a/x*b", "/a/x;b", false},
    {"/a/**", "/a/b;c/d;e", true},
    {"/a/**", "/a/Inc.", true},
    {"/a/*", "/a/Inc.%20", true},
    {"/a/Inc.", "/a/Inc.", true},
    {"/a/Inc.", "/a/Inc", false},
    {"/a/Inc", "/a/Inc.", false},
    {"/a;v=1/**", "/a;v=1/b", true},
    {"/a/b%20", "/a/b%20", true},
    {"/a/what%3f", "/a/what%3f", true},
    {"/a/%C3%A9*", "/a/%C3%A9t%C3%A9", true},
    {"/", "/", true},
    {"/", "/a", false},
    {"/a/b", "/a/b", true},
    {"/a/b", "/a/b/", false},
    {"/a/b", "/a/B", false},
    {"/a/*", "/a/b", true},
    {"/a/*", "/a/", true},
    {"/a/*", "/a", false},
    {"/a/*", "/a/b/c", false},
    {"/a/*/c", "/a/b/c", true},
    {"/a/*/c", "/a/b/b/c", false},
    {"/a/**", "/a/b/c", true},
    {"/a/**", "/a/", true},
    {"/a/**", "/a", false},
    {"/a/**", "/ab/c", false},
    {"/a**", "/a", true},
    {"/**", "/", true},
    {"/**", "/x/y/z", true},
    {"/**/c", "/a/b/c", true},
    {"/**/c", "/c", false},
    {"/**c", "/c", true},
    {"/**/x/*.json", "/a/b/x/y.json", true},
    {"/**/x/*.json", "/a/x/b/y.json", false},
    {"/**/x/*.json", "/a/x/b/x/y.json", true},
    {"/*a*b", "/xaxbxb", true},
    {"/*a*b", "/xaxbxbc", false},
    {"/*.git/info", "/r.git/info", true},
    {"/repos/*/issues/**", "/repos/me/issues/1/comments", true},
    {"/repos/*/issues/**", "/repos/me/you/issues/1", false},
    {"/%61", "/a", false},
    {"/a", "/%61", false},
};

Test(target, path_patterns)
{
    for (size_t i = 0; i < ARRAY_LEN(matches); i++) {
        const struct match *m = &matches[i];
        struct err err = ERR_INIT;
        cr_assert_eq(path_pattern_check(m->pattern, &err), 0, "%s: %s", m->pattern, err.message);
        cr_assert_eq(path_pattern_match(m->pattern, m->path), m->matches, "%s on %s", m->pattern,
                     m->path);
    }
}

Test(target, bad_patterns)
{
    static const char *const texts[] = {"",     "a",     "*",         "**",   "a/*",
                                        "/***", "/a//b", "/../*",     "/a?b", "/a#b",
                                        "/a b", "/%2e",  "/\xc3\xbc", "/a\\b"};
    for (size_t i = 0; i < ARRAY_LEN(texts); i++)
        cr_assert_lt(path_pattern_check(texts[i], NULL), 0, "%s", texts[i]);
    char longest[400];
    memset(longest, 'a', sizeof(longest) - 1);
    longest[0] = '/';
    longest[sizeof(longest) - 1] = '\0';
    cr_assert_lt(path_pattern_check(longest, NULL), 0);
    cr_assert_not(path_pattern_match(longest, longest));
    longest[255] = '\0';
    cr_assert_eq(path_pattern_check(longest, NULL), 0);
    cr_assert(path_pattern_match(longest, longest));
}

/* A pattern that sends a backtracking matcher away for years. */
Test(target, hostile_paths_end_soon, .timeout = 20)
{
    size_t len = 16 * 1024;
    char *path = malloc(len + 1);
    cr_assert(path);
    memset(path, 'a', len);
    path[0] = '/';
    path[len] = '\0';
    cr_assert_not(path_pattern_match("/**a*a*a**a*a**a*a*a*a**b", path));
    cr_assert(path_pattern_match("/**a*a*a**a*a**a*a*a*a**a", path));
    free(path);
}
