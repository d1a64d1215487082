#include "http/form.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#define PARTS "multipart/form-data; boundary=b"

static bool wanted(const char *name, size_t len)
{
    return len == 7 && memcmp(name, "_method", 7) == 0;
}

/* In pieces of `step` bytes. 1, 0 or negative. */
static int feed(enum form_kind kind, const char *type, const char *text, size_t step)
{
    struct form_reader *f = NULL;
    struct err err = ERR_INIT;
    int r = form_open(kind, type, wanted, &f, &err);
    cr_assert_eq(r, 0, "%s", err.message);
    size_t len = strlen(text);
    for (size_t at = 0; r == 0 && at < len; at += step)
        r = form_feed(f, text + at, len - at < step ? len - at : step, &err);
    form_close(f);
    return r;
}

static void expect(enum form_kind kind, const char *text, int result)
{
    for (size_t step = 1; step <= strlen(text); step++)
        cr_assert_eq(feed(kind, PARTS, text, step), result, "%s, by %zu", text, step);
}

Test(form, kinds)
{
    cr_assert_eq(form_kind_of(NULL), FORM_URLENCODED);
    cr_assert_eq(form_kind_of("application/x-www-form-urlencoded"), FORM_URLENCODED);
    cr_assert_eq(form_kind_of("Application/X-WWW-Form-UrlEncoded; charset=x"), FORM_URLENCODED);
    cr_assert_eq(form_kind_of("text/plain, application/x-www-form-urlencoded"), FORM_URLENCODED);
    cr_assert_eq(form_kind_of(PARTS), FORM_MULTIPART);
    cr_assert_eq(form_kind_of("multipart/mixed; boundary=b"), FORM_WORDS);
    cr_assert_eq(form_kind_of("multipart/related; boundary=b; type=\"application/json\""),
                 FORM_WORDS);
    cr_assert_eq(form_kind_of(PARTS "; a=urlencoded"), FORM_UNCLEAR);
    cr_assert_eq(form_kind_of("application/json; a=urlencoded"), FORM_UNCLEAR);
    cr_assert_eq(form_kind_of("text/plain, " PARTS), FORM_UNCLEAR);
    cr_assert_eq(form_kind_of("multipart/form-databases; boundary=b"), FORM_UNCLEAR);
    cr_assert_eq(form_kind_of(""), FORM_URLENCODED);
    cr_assert_eq(form_kind_of(" "), FORM_URLENCODED);
    cr_assert_eq(form_kind_of("application/json"), FORM_JSON);
    cr_assert_eq(form_kind_of("application/vnd.api+json"), FORM_JSON);
    cr_assert_eq(form_kind_of("text/plain"), FORM_NONE);
}

Test(form, names_of_a_form)
{
    expect(FORM_URLENCODED, "_method=x", 1);
    expect(FORM_URLENCODED, "a=1&_method=x", 1);
    expect(FORM_URLENCODED, "a=1;_method=", 1);
    expect(FORM_URLENCODED, "a&+%20_method=x", 1);
    expect(FORM_URLENCODED, "a=_method=x", 0);
    expect(FORM_URLENCODED, "x_method=1&_methods=2&_method", 0);
    expect(FORM_URLENCODED, "=_method&&", 0);
}

Test(form, every_word_of_other_parts)
{
    expect(FORM_WORDS, "--b\r\nContent-Disposition: attachment; name=_method\r\n\r\nDELETE", 1);
    expect(FORM_WORDS, "--b\r\ncontent-id:_method\r\n\r\nDELETE", 1);
    expect(FORM_WORDS, "X: y;\r\n name*=utf-8''_method\r\n", 1);
    expect(FORM_WORDS, "Content-ID: <_method>", 1);
    expect(FORM_WORDS, "--b\r\nContent-ID: a_method\r\n\r\n_methods x_method", 0);
}

Test(form, parts_that_have_a_second_name)
{
    cr_assert_lt(feed(FORM_MULTIPART, PARTS,
                      "--b\r\nContent-Disposition: form-data; name=a; name*=utf-8''_method\r\n\r\n",
                      9),
                 0);
    cr_assert_lt(feed(FORM_MULTIPART, PARTS,
                      "--b\r\nX: Content-Disposition: form-data; "
                      "name=_method\r\nContent-Disposition: form-data; name=a\r\n\r\n",
                      9),
                 0);
    cr_assert_eq(feed(FORM_MULTIPART, PARTS,
                      "--b\r\nContent-Disposition: form-data; name=a; "
                      "filename*=utf-8''x\r\nContent-Type: a/b; name=x\r\n\r\n",
                      9),
                 0);
    struct form_reader *f = NULL;
    struct err err = ERR_INIT;
    cr_assert_lt(form_open(FORM_MULTIPART, PARTS "; boundary=c", wanted, &f, &err), 0);
}

Test(form, a_long_name_is_not_its_beginning)
{
    char text[600];
    memset(text, 'a', sizeof text);
    snprintf(text + 300, 300, "&_method=x");
    expect(FORM_URLENCODED, text, 1);
    memcpy(text, "_method", 7);
    snprintf(text + 300, 300, "=x");
    expect(FORM_URLENCODED, text, 0);
}

static bool begins(const char *name, size_t len)
{
    return len >= 10 && memcmp(name, "_method%00", 10) == 0;
}

/* PHP reads a name up to a NUL: however much stands behind it, it is the name. */
Test(form, the_beginning_of_a_long_name_is_looked_at)
{
    char text[600];
    struct form_reader *f = NULL;
    struct err err = ERR_INIT;
    memset(text, 'a', sizeof text);
    memcpy(text, "_method%00", 10);
    snprintf(text + 500, 100, "=DELETE");
    cr_assert_eq(form_open(FORM_URLENCODED, NULL, begins, &f, &err), 0);
    cr_assert_eq(form_feed(f, text, strlen(text), &err), 1);
    form_close(f);
}

/* What only some readers take for JSON they read in ways of their own. */
Test(form, json_that_is_none)
{
    static const char utf16[] = "{\0\"\0_\0m\0e\0t\0h\0o\0d\0\"\0:\0"
                                "1\0}\0";
    struct form_reader *f = NULL;
    struct err err = ERR_INIT;
    cr_assert_eq(form_open(FORM_JSON, NULL, wanted, &f, &err), 0);
    cr_assert_lt(form_feed(f, utf16, sizeof utf16 - 1, &err), 0);
    form_close(f);
    cr_assert_lt(feed(FORM_JSON, PARTS, "{/*\"*/\"_method\":\"x\"/*\"*/}", 100), 0);
    cr_assert_lt(feed(FORM_JSON, PARTS, "{'_method':'x'}", 3), 0);
    cr_assert_lt(feed(FORM_JSON, PARTS, "{_method:1}", 3), 0);
    expect(FORM_JSON, "\xef\xbb\xbf{\"a\":[true,null,-1.5E+3]}\n\x1e{\"b\":{}}", 0);
    expect(FORM_JSON, "\xef\xbb\xbf{\"_method\":1}", 1);
}

Test(form, outermost_names_of_json)
{
    expect(FORM_JSON, "{\"_method\":1}", 1);
    expect(FORM_JSON, " { \"a\" : [1,{\"x\":\"}\"}] , \"\\u005fm\\u0065thod\" : 1}", 1);
    expect(FORM_JSON, "{\"a\":\"\\\\\",\"_method\":1}", 1);
    expect(FORM_JSON, "{\"a\":\"_method\",\"b\":[\"_method\"],\"c\":{\"_method\":1}}", 0);
    expect(FORM_JSON, "[\"_method\",{\"_method\":1}]", 0);
    expect(FORM_JSON, "\"_method\"", 0);
    expect(FORM_JSON, "{\"a\":\"\\\"_method\\\":\"}", 0);
    expect(FORM_JSON, "}}}]]],,,\"_method\":", 0);
}

Test(form, names_of_parts)
{
    static const char one[] =
        "--b\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n_method=x\r\n";
    static const char two[] =
        "--b\r\nContent-Disposition: form-data; name=\"_method\"\r\n\r\nDELETE\r\n--b--\r\n";
    char text[512];
    snprintf(text, sizeof text, "%s%s", one, two);
    expect(FORM_MULTIPART, text, 1);
    snprintf(text, sizeof text, "%s--b--\r\n", one);
    expect(FORM_MULTIPART, text, 0);
    cr_assert_lt(feed(FORM_MULTIPART, PARTS, "preamble\r\n--b\r\n", 100), 0);
    snprintf(text, sizeof text, "%s--b--\r\n%s", one, two);
    cr_assert_lt(feed(FORM_MULTIPART, PARTS, text, 1000), 0, "behind its end");
}

/* One reader takes the backslash for an escape, another one does not: to the second one the name
 * that counts is the last. */
Test(form, a_quote_within_the_name_of_a_part)
{
    cr_assert_lt(feed(FORM_MULTIPART, PARTS,
                      "--b\r\nContent-Disposition: form-data; name=\"a\\\\\"; x=\"; "
                      "name=_method; y=\"\r\n\r\n",
                      9),
                 0);
}

Test(form, multipart_without_a_boundary)
{
    struct form_reader *f = NULL;
    struct err err = ERR_INIT;
    cr_assert_lt(form_open(FORM_MULTIPART, "multipart/form-data", wanted, &f, &err), 0);
}
