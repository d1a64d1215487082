#include "../../lib/oracle/jansson_oracle.h"
#include "../../lib/unit/part.h"
#include "base/cleanup.h"
#include "base/json.h"

#include <criterion/criterion.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <time.h>

static struct json *parse(const char *text, size_t len, struct err *err)
{
    struct json *tree = NULL;
    int rc = json_parse(text, len, NULL, &tree, err);
    cr_assert_eq(rc == 0, tree != NULL);
    return tree;
}

static struct json *parse_ok(const char *text)
{
    struct err err = ERR_INIT;
    struct json *tree = parse(text, strlen(text), &err);
    cr_assert(tree, "%s: %s", text, err.message);
    return tree;
}

/* Text with its length, so that it may contain NUL. */
#define T(literal) literal, sizeof(literal) - 1

struct accepted {
    const char *text;
    size_t len;
};

static const struct accepted accepted[] = {
    {T("null")},
    {T("true")},
    {T("false")},
    {T(" \t\r\n 1 \n")},
    {T("0")},
    {T("-0")},
    {T("9223372036854775807")},
    {T("-9223372036854775808")},
    {T("0.5")},
    {T("-1.25e-3")},
    {T("1E+2")},
    {T("1e308")},
    {T("1e-400")},
    {T("\"\"")},
    {T("\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"")},
    {T("\"\\u0041\\u00e9\\u20ac\\ud83d\\ude00\"")},
    {T("\"\\uD83D\\uDE00 \\uFFFF\\u0001\"")},
    {T("\"\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80\xEF\xBF\xBF\x7F\"")},
    {T("[]")},
    {T("{}")},
    {T("[ ]")},
    {T("[1,[2,[3]],{}]")},
    {T("{\"\":0,\"a\":{\"a\":[{}]},\"b\" : null}")},
    {T("[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]")}, /* 32 */
    {T("{\"z\":1,\"y\":2,\"x\":3,\"w\":4,\"v\":5,\"u\":6,\"t\":7,\"s\":8,\"r\":9}")},
};

Test(json, accepts_what_it_should_and_jansson_agrees)
{
    for (size_t i = 0; i < sizeof accepted / sizeof accepted[0]; i++) {
        struct err err = ERR_INIT;
        struct json *tree = parse(accepted[i].text, accepted[i].len, &err);
        cr_expect(tree, "%s: %s", accepted[i].text, err.message);
        cr_expect(oracle_agrees(accepted[i].text, accepted[i].len, tree), "jansson on %s",
                  accepted[i].text);
        json_free(tree);
    }
}

struct rejected {
    const char *text;
    size_t len;
    const char *message;
};

static const struct rejected rejected[] = {
    {T(""), "1:1: found the end of the text, expected a value"},
    {T("\n  "), "2:3: found the end of the text, expected a value"},
    {T("nul"), "1:1: found \"nul\", expected a value"},
    {T("True"), "1:1: found \"True\", expected a value"},
    {T("truely"), "1:5: found \"ly\", expected nothing after the value"},
    {T("NaN"), "1:1: found \"NaN\", expected a value"},
    {T("Infinity"), "1:1: found \"Infinity\", expected a value"},
    {T("'a'"), "1:1: found ''', expected a value"},
    {T("\xEF\xBB\xBF{}"), "1:1: found the byte 0xef, expected a value"},
    {T("{} {}"), "1:4: found '{', expected nothing after the value"},
    {T("1\0"), "1:2: found the byte 0x00, expected nothing after the value"},
    {T("// x\n1"), "1:1: found '/', expected a value"},
    {T("\f1"), "1:1: found the byte 0x0c, expected a value"},
    {T("\xC2\xA0"
       "1"),
     "1:1: found the byte 0xc2, expected a value"},
    /* numbers */
    {T("01"), "1:2: found \"1\", expected no digit after a leading zero"},
    {T("-"), "1:2: found the end of the text, expected a digit"},
    {T("+1"), "1:1: found '+', expected a value"},
    {T("1."), "1:3: found the end of the text, expected a digit"},
    {T(".5"), "1:1: found \".5\", expected a value"},
    {T("1e"), "1:3: found the end of the text, expected a digit"},
    {T("1e+]"), "1:4: found ']', expected a digit"},
    {T("0x10"), "1:2: found \"x10\", expected nothing after the value"},
    {T("9223372036854775808"), "1:1: found a whole number that does not fit in 64 bits, expected "
                               "at most 9223372036854775807"},
    {T("[1,-9223372036854775809]"), "1:4: found a whole number that does not fit in 64 bits, "
                                    "expected at most 9223372036854775807"},
    {T("1e309"), "1:1: found a number that is too large for a double"},
    {T("-1e309"), "1:1: found a number that is too large for a double"},
    /* strings */
    {T("\"abc"), "1:5: found the end of the text, expected the closing '\"' of a string"},
    {T("\"\\"), "1:3: found the end of the text, expected the closing '\"' of a string"},
    {T("\"a\nb\""),
     "1:3: found the end of the line, expected no control character in a string (use \\u)"},
    {T("\"a\tb\""), "1:3: found a tab, expected no control character in a string (use \\u)"},
    {T("\"a\0b\""),
     "1:3: found the byte 0x00, expected no control character in a string (use \\u)"},
    {T("\"a\\u0000\""), "1:3: found \\u0000, expected no NUL in a string"},
    {T("{\"a\\u0000\":1}"), "1:4: found \\u0000, expected no NUL in a string"},
    {T("\"\\x41\""), "1:3: found \"x41\", expected one of \" \\ / b f n r t u after a backslash"},
    {T("\"\\u12\""), "1:6: found '\"', expected four hexadecimal digits after \\u"},
    {T("\"\\ud800\""), "1:2: found half of a surrogate pair, expected both"},
    {T("\"\\ud800\\u0041\""), "1:2: found half of a surrogate pair, expected both"},
    {T("\"\\ud800\\ud800\""), "1:2: found half of a surrogate pair, expected both"},
    {T("\"\\udc00\\ud800\""), "1:2: found half of a surrogate pair, expected both"},
    /* UTF-8 */
    {T("\"\xFF\""), "1:2: found the byte 0xff, expected UTF-8"},
    {T("\"\x80\""), "1:2: found the byte 0x80, expected UTF-8"},
    {T("\"\xC3\""), "1:2: found the byte 0xc3, expected UTF-8"},
    {T("\"\xC0\xAF\""), "1:2: found the byte 0xc0, expected UTF-8"},
    {T("\"\xE0\x80\xAF\""), "1:2: found the byte 0xe0, expected UTF-8"},
    {T("\"\xED\xA0\x80\""), "1:2: found the byte 0xed, expected UTF-8"},
    {T("\"\xF4\x90\x80\x80\""), "1:2: found the byte 0xf4, expected UTF-8"},
    {T("\"\xF0\x80\x80\x80\""), "1:2: found the byte 0xf0, expected UTF-8"},
    /* containers */
    {T("["), "1:2: found the end of the text, expected a value"},
    {T("[1"), "1:3: found the end of the text, expected ',' or ']'"},
    {T("[1,]"), "1:4: found ']', expected a value"},
    {T("[,1]"), "1:2: found ',', expected a value"},
    {T("[1 2]"), "1:4: found \"2\", expected ',' or ']'"},
    {T("[1}"), "1:3: found '}', expected ',' or ']'"},
    {T("{"), "1:2: found the end of the text, expected a key in double quotes"},
    {T("{a:1}"), "1:2: found \"a\", expected a key in double quotes"},
    {T("{1:1}"), "1:2: found \"1\", expected a key in double quotes"},
    {T("{\"a\"}"), "1:5: found '}', expected ':' after a key"},
    {T("{\"a\":}"), "1:6: found '}', expected a value"},
    {T("{\"a\":1,}"), "1:8: found '}', expected a key in double quotes"},
    {T("{\"a\":1 \"b\":2}"), "1:8: found '\"', expected ',' or '}'"},
    {T("{\"a\":1]"), "1:7: found ']', expected ',' or '}'"},
    {T("]"), "1:1: found ']', expected a value"},
    /* duplicate keys, also when spelled differently */
    {T("{\"memory\": 1,\n  \"memory\": 2}"), "2:3: duplicate key \"memory\" (first at 1:2)"},
    {T("{\"a\":1,\"b\":2,\"\\u0061\":3}"), "1:14: duplicate key \"a\" (first at 1:2)"},
    {T("{\"b\":1,\"a\":1,\"b\":1,\"a\":1}"), "1:14: duplicate key \"b\" (first at 1:2)"},
    {T("[{\"\":1,\"\":1}]"), "1:8: duplicate key \"\" (first at 1:3)"},
    {T("{\"\\u001b[2J\":1,\"\\u001b[2J\":1}"), "1:16: duplicate key \"\\x1b[2J\" (first at 1:2)"},
    /* one level too many */
    {T("[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]"),
     "1:33: found more than 32 levels of nesting, the limit"},
};

Test(json, rejects_with_position_and_reason)
{
    for (size_t i = 0; i < sizeof rejected / sizeof rejected[0]; i++) {
        struct err err = ERR_INIT;
        struct json *tree = parse(rejected[i].text, rejected[i].len, &err);
        cr_expect_null(tree, "accepted: %s", rejected[i].text);
        cr_expect_eq(err.code, ERR_POLICY);
        cr_expect_str_eq(err.message, rejected[i].message, "%s\n got: %s\nwant: %s",
                         rejected[i].text, err.message, rejected[i].message);
        json_free(tree);
    }
}

/* Every text of up to a few bytes over an alphabet that reaches every state of the parser. */
Test(json, agrees_with_jansson_on_all_short_texts)
{
    static const char alphabet[] = "[]{},:\"\\1-0.eua d";
    const size_t letters = sizeof alphabet - 1;
    size_t total = 0, seen = 0;
    for (size_t len = 1; len <= 5; len++) {
        size_t combinations = 1;
        for (size_t i = 0; i < len; i++)
            combinations *= letters;
        for (size_t n = 0; n < combinations; n++) {
            char text[8];
            size_t rest = n;
            for (size_t i = 0; i < len; i++, rest /= letters)
                text[i] = alphabet[rest % letters];
            struct json *tree = NULL;
            total++;
            if ((len == 5 && !in_part(n)) || json_parse(text, len, NULL, &tree, NULL) < 0)
                continue;
            seen++;
            cr_assert(oracle_agrees(text, len, tree), "%.*s", (int)len, text);
            json_free(tree);
        }
    }
    cr_assert_gt(seen, 1000, "%zu of %zu", seen, total);
}

Test(json, limits_are_the_callers)
{
    struct json *tree;
    struct err err = ERR_INIT;
    const struct json_limits bytes = {.max_bytes = 4, .max_depth = 9, .max_nodes = 9};
    cr_expect_eq(json_parse("[12]", 4, &bytes, &tree, &err), 0);
    json_free(tree);
    cr_expect_lt(json_parse("[123]", 5, &bytes, &tree, &err), 0);
    cr_expect_str_eq(err.message, "1:1: found 5 bytes of text, expected at most 4");
    const struct json_limits nodes = {.max_bytes = 99, .max_depth = 9, .max_nodes = 3};
    cr_expect_eq(json_parse("[1,2]", 5, &nodes, &tree, &err), 0);
    json_free(tree);
    cr_expect_lt(json_parse("[1,2,3]", 7, &nodes, &tree, &err), 0);
    cr_expect_str_eq(err.message, "1:6: found more than 3 values, which is the limit");
    const struct json_limits depth = {.max_bytes = 99, .max_depth = 0, .max_nodes = 9};
    cr_expect_eq(json_parse("1", 1, &depth, &tree, &err), 0);
    json_free(tree);
    cr_expect_lt(json_parse("[]", 2, &depth, &tree, &err), 0);
}

Test(json, no_limit_is_deep_enough_to_exhaust_the_stack)
{
    const struct json_limits wide = {
        .max_bytes = SIZE_MAX, .max_depth = UINT32_MAX, .max_nodes = SIZE_MAX};
    size_t len = 1000000;
    char *text = malloc(len);
    memset(text, '[', len);
    struct json *tree;
    struct err err = ERR_INIT;
    cr_assert_lt(json_parse(text, len, &wide, &tree, &err), 0);
    cr_assert_str_eq(err.message, "1:257: found more than 256 levels of nesting, the limit");
    free(text);
}

Test(json, a_large_object_is_checked_and_found_quickly)
{
    struct buf text;
    buf_init(&text, 1 << 20);
    buf_chr(&text, '{');
    for (unsigned i = 0; i < 60000; i++)
        buf_fmt(&text, "%s\"k%u\":%u", i ? "," : "", i * 7919u % 60000u, i);
    size_t open = text.len;
    buf_chr(&text, '}');
    struct json *tree = parse_ok(buf_text(&text));
    cr_assert_eq(json_count(tree), 60000);
    cr_assert_eq(json_int(json_get(tree, "k7919")), 1);
    cr_assert_null(json_get(tree, "k60000"));
    json_free(tree);

    struct err err = ERR_INIT;
    text.len = open;
    buf_str(&text, ",\"k0\":1}");
    cr_assert_null(parse(buf_text(&text), text.len, &err));
    cr_assert(strstr(err.message, "duplicate key \"k0\" (first at 1:2)"), "%s", err.message);
    buf_done(&text);
}

Test(json, remembers_where_values_stood)
{
    struct json *tree = parse_ok("{\n  \"a\": 1,\n  \"b\":\n    [true, \"x\"]\n}");
    cr_expect_eq(json_line(tree), 1);
    cr_expect_eq(json_column(tree), 1);
    cr_expect_eq(json_key_line_at(tree, 1), 3);
    cr_expect_eq(json_key_column_at(tree, 1), 3);
    const struct json *b = json_get(tree, "b");
    cr_expect_eq(json_line(b), 4);
    cr_expect_eq(json_column(b), 5);
    cr_expect_eq(json_column(json_at(b, 1)), 12);
    cr_expect_str_eq(json_key_at(tree, 0), "a");
    cr_expect_eq(json_value_at(tree, 1), b);
    json_free(tree);
}

Test(json, a_wrong_question_has_an_empty_answer)
{
    struct json *tree = parse_ok("[1, \"x\", {\"a\": 2.5}]");
    cr_expect_null(json_get(tree, "a"));
    cr_expect_null(json_at(tree, 3));
    cr_expect_null(json_string(json_at(tree, 0)));
    cr_expect_eq(json_int(json_at(tree, 1)), 0);
    cr_expect_not(json_bool(json_at(tree, 0)));
    cr_expect_eq(json_real(json_at(tree, 0)), 1.0);
    cr_expect_eq(json_real(json_get(json_at(tree, 2), "a")), 2.5);
    cr_expect_null(json_key_at(tree, 0));
    cr_expect_null(json_value_at(json_at(tree, 2), 1));
    cr_expect_eq(json_count(NULL), 0);
    cr_expect_eq(json_type(NULL), JSON_NULL);
    cr_expect_str_eq(json_type_name(JSON_INT), "a whole number");
    json_free(tree);
    json_free(NULL);
}

/* ---- the writer ---- */

Test(json, members_are_read_by_name)
{
    struct json *tree =
        parse_ok("{\"t\":\"text\",\"n\":-7,\"p\":8,\"b\":true,\"r\":2.5,\"z\":null}");
    cr_expect_str_eq(json_text(tree, "t"), "text");
    cr_expect_str_eq(json_shown(tree, "t"), "text");
    cr_expect_eq(json_number(tree, "n"), -7);
    cr_expect_eq(json_uint(tree, "n"), 0);
    cr_expect_eq(json_uint(tree, "p"), 8);
    cr_expect(json_flag(tree, "b"));
    static const char *const others[] = {"b", "r", "z", "missing"};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        cr_expect_null(json_text(tree, others[i]));
        cr_expect_str_eq(json_shown(tree, others[i]), "");
        cr_expect_eq(json_number(tree, others[i]), 0);
        cr_expect_eq(json_flag(tree, others[i]), i == 0);
    }
    cr_expect_null(json_text(NULL, "t"));
    cr_expect_not(json_flag(json_get(tree, "t"), "b"));
    json_free(tree);
}

Test(json, writes_compact_and_pretty)
{
    static const char *const want[] = {
        "{\"a\":[1,true,null,\"x\"],\"e\":{},\"n\":[],\"m\":18446744073709551615}",
        "{\n  \"a\": [\n    1,\n    true,\n    null,\n    \"x\"\n  ],\n  \"e\": {},\n  \"n\": [],\n"
        "  \"m\": 18446744073709551615\n}",
    };
    for (int pretty = 0; pretty < 2; pretty++) {
        struct buf out;
        struct json_writer w;
        buf_init(&out, 1000);
        jw_init(&w, &out, pretty);
        jw_object_begin(&w);
        jw_key(&w, "a");
        jw_array_begin(&w);
        jw_int(&w, 1);
        jw_bool(&w, true);
        jw_string(&w, NULL);
        jw_string(&w, "x");
        jw_array_end(&w);
        jw_key(&w, "e");
        jw_object_begin(&w);
        jw_object_end(&w);
        jw_key(&w, "n");
        jw_array_begin(&w);
        jw_array_end(&w);
        jw_kv_uint(&w, "m", UINT64_MAX);
        jw_object_end(&w);
        cr_expect_str_eq(buf_text(&out), want[pretty], "%s", buf_text(&out));
        buf_done(&out);
    }
}

Test(json, writes_members_with_their_keys)
{
    struct buf out;
    struct json_writer w;
    struct json *tree = NULL;
    cr_assert_eq(json_parse("[1]", 3, NULL, &tree, NULL), 0);
    jw_begin(&w, &out, 1000);
    jw_kv_bytes(&w, "b", "x\0y", 3);
    jw_kv_json(&w, "j", tree);
    jw_kv_object(&w, "o");
    jw_kv_bool(&w, "t", true);
    jw_object_end(&w);
    jw_kv_array(&w, "a");
    jw_int(&w, 2);
    jw_array_end(&w);
    jw_object_end(&w);
    cr_expect_str_eq(buf_text(&out),
                     "{\"b\":\"x\\u0000y\",\"j\":[1],\"o\":{\"t\":true},\"a\":[2]}");
    buf_done(&out);
    jw_begin(&w, &out, 3);
    jw_kv_bool(&w, "long", true);
    cr_expect(out.failed, "no more than it may hold");
    buf_done(&out);
    json_free(tree);
}

Test(json, writes_any_bytes_as_well_formed_text)
{
    struct buf out;
    struct json_writer w;
    buf_init(&out, 1000);
    jw_init(&w, &out, false);
    jw_bytes(&w,
             T("a\0\x1b[2J\n\"\\\x7f\xff\xc3\xa9\xe2\x80\xae\xc2\x9b/\xf0\x9f\x98\x80\xe2\x82"));
    cr_expect_str_eq(buf_text(&out),
                     "\"a\\u0000\\u001b[2J\\n\\\"\\\\\\u007f\xEF\xBF\xBD\xc3\xa9\\u202e\\u009b/"
                     "\xf0\x9f\x98\x80\xEF\xBF\xBD\xEF\xBF\xBD\"",
                     "%s", buf_text(&out));
    buf_done(&out);
}

Test(json, marks_that_change_the_direction_are_escaped)
{
    struct buf out;
    struct json_writer w;
    buf_init(&out, 1000);
    jw_init(&w, &out, false);
    jw_bytes(&w, T("\xd8\x9b\xd8\x9c\xd8\x9d\xe2\x80\x8e\xe2\x81\xa6"));
    cr_expect_str_eq(buf_text(&out), "\"\xd8\x9b\\u061c\xd8\x9d\\u200e\\u2066\"", "%s",
                     buf_text(&out));
    buf_done(&out);
}

/* Long ones are written in batches: none of their borders may show. */
Test(json, long_texts_read_back_the_same)
{
    static const char *const parts[] = {"\"",       "\n",
                                        "a",        "\x01",
                                        "\xc3\xa9", "\xe2\x80\xae",
                                        "/",        "plain text, more of it",
                                        "\\",       "\xf0\x9f\x98\x80",
                                        "\x7f"};
    for (unsigned seed = 1; seed <= 50; seed++) {
        struct buf text, out;
        struct json_writer w;
        uint32_t random = seed;
        buf_init(&text, 1u << 20);
        buf_init(&out, 1u << 20);
        while (text.len < 5000) {
            random = random * 1664525 + 1013904223;
            buf_str(&text,
                    parts[random >> 16 & (seed % 3 ? 7 : 15) ? (random >> 20) % ARRAY_LEN(parts)
                                                             : seed % ARRAY_LEN(parts)]);
        }
        jw_init(&w, &out, false);
        jw_bytes(&w, text.data, text.len);
        struct json *tree = parse_ok(buf_text(&out));
        cr_assert_str_eq(json_string(tree), text.data);
        json_free(tree);
        buf_done(&text);
        buf_done(&out);
    }
}

static double seconds_since(const struct timespec *from)
{
    struct timespec to;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &to);
    return (double)(to.tv_sec - from->tv_sec) + (double)(to.tv_nsec - from->tv_nsec) / 1e9;
}

/* Who writes serves others, and a tenant chooses what is written. */
Test(json, nothing_is_written_where_there_is_no_room)
{
    struct buf out, text;
    struct json_writer w;
    struct timespec from;
    buf_init(&text, 128u << 20);
    for (unsigned i = 0; i < 32u << 20; i++)
        buf_chr(&text, i % 2 ? '"' : '\n');
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from);
    for (unsigned i = 0; i < 16; i++) {
        buf_init(&out, 1000);
        jw_init(&w, &out, false);
        jw_bytes(&w, text.data, text.len);
        cr_assert(out.failed);
        buf_done(&out);
    }
    cr_expect(seconds_since(&from) < 0.2, "%.3f s", seconds_since(&from));
    buf_done(&text);
}

Test(json, writes_reals_that_read_back_the_same)
{
    static const double values[] = {0.0,
                                    -0.0,
                                    0.1,
                                    1.0,
                                    3.0,
                                    1.0 / 3,
                                    1e21,
                                    1e22,
                                    1e15,
                                    1e17,
                                    123456789012345680.0,
                                    DBL_MAX,
                                    DBL_MIN,
                                    4.9406564584124654e-324,
                                    0.30000000000000004};
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        struct buf out;
        struct json_writer w;
        buf_init(&out, 1000);
        jw_init(&w, &out, false);
        jw_real(&w, values[i]);
        struct json *tree = parse_ok(buf_text(&out));
        cr_expect_eq(json_type(tree), JSON_REAL, "%s", buf_text(&out));
        cr_expect_eq(json_real(tree), values[i], "%s", buf_text(&out));
        json_free(tree);
        buf_reset(&out);
        jw_init(&w, &out, false);
        jw_real(&w, INFINITY);
        cr_expect_str_eq(buf_text(&out), "null");
        buf_done(&out);
    }
}

Test(json, a_written_tree_reads_back_the_same)
{
    for (size_t i = 0; i < 2 * (sizeof accepted / sizeof accepted[0]); i++) {
        struct err err = ERR_INIT;
        struct json *tree = parse(accepted[i / 2].text, accepted[i / 2].len, &err);
        struct buf out;
        struct json_writer w;
        buf_init(&out, 10000);
        jw_init(&w, &out, i % 2);
        jw_json(&w, tree);
        cr_expect_not(out.failed);
        cr_expect(oracle_agrees(out.data, out.len, tree), "%s", buf_text(&out));
        buf_done(&out);
        json_free(tree);
    }
}

static char *written(const struct json *tree)
{
    struct buf out;
    struct json_writer w;
    buf_init(&out, 1u << 20);
    jw_init(&w, &out, false);
    jw_json(&w, tree);
    cr_assert_not(out.failed);
    return out.data;
}

/* Exactly as large as the text: what is written past its end is noticed. */
static char *copy_of(const char *text, size_t len)
{
    char *copy = malloc(len ? len : 1);
    memcpy(copy, text, len);
    return copy;
}

static void expect_same_in_place(const char *text, size_t len)
{
    struct err err = ERR_INIT, other = ERR_INIT;
    struct json *tree = NULL, *again = NULL;
    char *place = copy_of(text, len);
    int r = json_parse(text, len, NULL, &tree, &err);
    cr_expect_eq(json_parse_in_place(place, len, NULL, &again, &other), r, "%.*s", (int)len, text);
    cr_expect_str_eq(other.message, err.message);
    if (tree && again) {
        char *a = written(tree), *b = written(again);
        cr_expect_str_eq(a, b);
        free(a);
        free(b);
    }
    json_free(tree);
    json_free(again);
    free(place);
}

Test(json, in_place_it_reads_the_same)
{
    for (size_t i = 0; i < sizeof accepted / sizeof accepted[0]; i++)
        expect_same_in_place(accepted[i].text, accepted[i].len);
    for (size_t i = 0; i < sizeof rejected / sizeof rejected[0]; i++)
        expect_same_in_place(rejected[i].text, rejected[i].len);
    /* Every byte at every place of a word and beyond it: runs are read eight bytes at a time. */
    for (unsigned byte = 0; byte < 256; byte++)
        for (size_t at = 0; at < 19; at++) {
            char text[24] = "{\"0123456789abcdefg\":\"";
            text[1 + at] = (char)byte;
            expect_same_in_place(text, 22);
            memcpy(text, "[\"0123456789abcdefghi\"]", 24);
            text[1 + at] = (char)byte;
            expect_same_in_place(text, 23);
        }
}

Test(json, memory_is_counted_and_bounded)
{
    static const char text[] =
        "{\"a\":[1,2,3,4,5,6,7,8,9],\"b\":\"some text of forty letters and then some\"}";
    struct json_limits limits = json_default_limits;
    struct json *tree = NULL;
    struct err err = ERR_INIT;
    char *place = copy_of(text, sizeof text - 1);
    cr_assert_eq(json_parse(text, sizeof text - 1, NULL, &tree, NULL), 0);
    size_t copied = json_memory(tree);
    json_free(tree);
    cr_assert_eq(json_parse_in_place(place, sizeof text - 1, NULL, &tree, NULL), 0);
    size_t in_place = json_memory(tree);
    json_free(tree);
    free(place);
    cr_expect_geq(copied, in_place + 40, "strings are in the text: %zu, %zu", copied, in_place);
    limits.max_memory = copied;
    cr_expect_eq(json_parse(text, sizeof text - 1, &limits, &tree, &err), 0, "%s", err.message);
    json_free(tree);
    limits.max_memory = copied - 1;
    cr_expect_lt(json_parse(text, sizeof text - 1, &limits, &tree, &err), 0);
    cr_expect_eq(err.code, ERR_LIMIT);
    cr_expect_null(tree);
    cr_expect_eq(json_memory(NULL), 0);
}

Test(json, pieces_are_the_whole)
{
    for (size_t i = 0; i < sizeof accepted / sizeof accepted[0]; i++) {
        struct json *tree = parse_ok(accepted[i].text);
        char *whole = written(tree);
        for (size_t most = 1; most < 40; most += 3) {
            struct json_pieces *p = json_pieces_new(tree);
            struct buf out;
            size_t calls = 0, before = 0;
            bool last = false;
            buf_init(&out, 1u << 20);
            while (!last) {
                last = json_pieces_next(p, &out, most);
                cr_assert_lt(calls++, 10000);
                cr_expect_leq(out.len - before, most + 24, "a piece is no longer than was asked");
                before = out.len;
            }
            cr_expect_str_eq(buf_text(&out), whole);
            buf_done(&out);
            json_pieces_free(p);
        }
        free(whole);
        json_free(tree);
    }
}

/* Some `most` bytes at a time; *ret is NULL, and the message kept, if it is refused. */
static unsigned parse_slowly(char *text, size_t len, size_t most, struct json **ret,
                             struct err *err)
{
    unsigned calls = 1;
    int rc = 0;
    struct json_parser *p = json_parser_new(text, len, NULL, err);
    *ret = NULL;
    while (p && (rc = json_parser_next(p, most, ret, err)) == 0) {
        cr_assert_null(*ret);
        cr_assert_lt(calls++, 1000000u);
    }
    cr_assert_eq(rc > 0, *ret != NULL);
    json_parser_free(p);
    return calls;
}

static void check_slowly(const char *text, size_t len)
{
    struct err whole = ERR_INIT;
    struct json *tree = NULL;
    json_parse(text, len, NULL, &tree, &whole);
    char *expected = tree ? written(tree) : NULL;
    for (size_t most = 1; most < 300; most += 1 + most / 4) {
        struct err err = ERR_INIT;
        struct json *again;
        char *place = copy_of(text, len);
        parse_slowly(place, len, most, &again, &err);
        cr_expect_eq(again != NULL, tree != NULL, "%s, %zu bytes at a time", text, most);
        cr_expect_str_eq(err.message, whole.message);
        char *got = again ? written(again) : NULL;
        if (got && expected)
            cr_expect_str_eq(got, expected);
        if (tree)
            cr_expect_eq(json_column(again), json_column(tree));
        free(got);
        json_free(again);
        free(place);
    }
    free(expected);
    json_free(tree);
}

Test(json, read_in_pieces_it_is_the_same)
{
    for (size_t i = 0; i < sizeof accepted / sizeof accepted[0]; i++)
        check_slowly(accepted[i].text, accepted[i].len);
    for (size_t i = 0; i < sizeof rejected / sizeof rejected[0]; i++)
        check_slowly(rejected[i].text, rejected[i].len);
}

/* What takes long takes many calls, whatever it consists of. */
Test(json, no_call_reads_more_than_was_asked)
{
    static const char *const kinds[][3] = {
        {"\"", "x", "\""}, {"\"", "\\n", "\""}, {"\"", "\\u00e9", "\""}, {"\"", "\xc3\xa9", "\""},
        {"[", "1,", "1]"}, {" ", " \n", "1"},   {"[", "[],", "1]"}};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        struct buf text;
        struct json *tree;
        struct err err = ERR_INIT;
        buf_init(&text, 1u << 20);
        buf_str(&text, kinds[i][0]);
        while (text.len < 100000)
            buf_str(&text, kinds[i][1]);
        buf_str(&text, kinds[i][2]);
        unsigned calls = parse_slowly(text.data, text.len, 1000, &tree, &err);
        cr_expect(tree, "%s", err.message);
        cr_expect_geq(calls, 90u, "%s: %u calls", kinds[i][1], calls);
        json_free(tree);
        buf_done(&text);
    }
}

/* Numbers in a mixed order. */
static void write_members(struct buf *text, unsigned count, unsigned last)
{
    buf_chr(text, '{');
    for (unsigned i = 0; i < count; i++)
        buf_fmt(text, "\"%s%u\":%u,", "a prefix of all keys ", i * 7919 % 10007, i);
    buf_fmt(text, "\"a prefix of all keys %u\":0}", last);
}

Test(json, members_are_ordered_in_pieces)
{
    struct buf text;
    struct json *tree;
    struct err err = ERR_INIT;
    buf_init(&text, 1u << 20);
    write_members(&text, 5000, 20000);
    unsigned calls = parse_slowly(text.data, text.len, 4096, &tree, &err);
    cr_assert(tree, "%s", err.message);
    cr_expect_gt(calls, text.len / 4096 + 5000 * 12 * 16 / 4096, "ordering is counted: %u", calls);
    for (unsigned i = 0; i < 5000; i++) {
        char key[64];
        snprintf(key, sizeof key, "a prefix of all keys %u", i * 7919 % 10007);
        cr_assert_eq(json_number(tree, key), i);
    }
    json_free(tree);
    buf_reset(&text);
    write_members(&text, 5000, 7919);
    parse_slowly(text.data, text.len, 4096, &tree, &err);
    cr_expect_null(tree);
    cr_expect(strstr(err.message, "duplicate key \"a prefix of all keys 7919\" (first at 1:"));
    buf_done(&text);
}

Test(json, a_key_has_a_limit_where_one_is_set)
{
    struct json_limits limits = json_default_limits;
    struct json *tree = NULL;
    struct err err = ERR_INIT;
    limits.max_key = 4;
    cr_assert_eq(json_parse("{\"abcd\":1}", 10, &limits, &tree, &err), 0, "%s", err.message);
    json_free(tree);
    cr_expect_lt(json_parse("{\"abcde\":1}", 11, &limits, &tree, &err), 0);
    cr_expect_str_eq(err.message, "1:2: found a key of more than 4 bytes, the limit");
}

Test(json, a_small_object_in_one_expression)
{
    char long_text[2 * JSON_SMALL_MAX];
    memset(long_text, 'x', sizeof long_text - 1);
    long_text[sizeof long_text - 1] = '\0';
    cr_assert_str_eq(JSON_SMALL(JSON_TEXT("a\"", "b\n"), JSON_TEXT("none", NULL),
                                JSON_NUMBER("n", -7), JSON_FLAG("yes", true)),
                     "{\"a\\\"\":\"b\\n\",\"none\":null,\"n\":-7,\"yes\":true}");
    cr_assert_str_eq(JSON_SMALL(JSON_TEXT("long", long_text)), "{\"cut\":true}");
}
