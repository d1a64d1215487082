#include "../../lib/oracle/libyaml_oracle.h"
#include "../../lib/unit/part.h"
#include "policy/text/yaml_parse.h"

#include <criterion/criterion.h>

static struct json *parse(const char *text, size_t len, struct err *err)
{
    struct json *tree = NULL;
    int rc = yaml_parse(text, len, NULL, &tree, err);
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

/* The text and the tree it must give, as JSON. */
struct accepted {
    const char *text;
    const char *json;
};

static const struct accepted accepted[] = {
    {"", "null"},
    {"# only a comment", "null"},
    {"---", "null"},
    {"--- # start\na: 1\n", "{\"a\":1}"},
    {"# first\n\n---\n- x\n", "[\"x\"]"},
    {"a: 1\r\nb: x\r\n", "{\"a\":1,\"b\":\"x\"}"},
    /* types */
    {"[true, True, TRUE, false, False, FALSE]", "[true,true,true,false,false,false]"},
    {"[null, Null, NULL, ~]", "[null,null,null,null]"},
    {"[0, -0, +7, -12, 9223372036854775807, -9223372036854775808]",
     "[0,0,7,-12,9223372036854775807,-9223372036854775808]"},
    {"[0.5, .5, 1., -1.25, +2.5, 1.5e+3, 1.5E-1]", "[0.5,0.5,1.0,-1.25,2.5,1500.0,0.15]"},
    {"['true', \"null\", '1', \"yes\", 'no', '0644']",
     "[\"true\",\"null\",\"1\",\"yes\",\"no\",\"0644\"]"},
    {"[tRUE, nUll, yess, 1.2.3, 10.0.0.1, 512MiB, 30s, 1.5x, ., .., -x, --flag, 8080:80, "
     "2024-01-02]",
     "[\"tRUE\",\"nUll\",\"yess\",\"1.2.3\",\"10.0.0.1\",\"512MiB\",\"30s\",\"1.5x\",\".\",\"..\","
     "\"-x\","
     "\"--flag\",\"8080:80\",\"2024-01-02\"]"},
    /* plain scalars */
    {"a: b c  d  # comment", "{\"a\":\"b c  d\"}"},
    {"a: b#c", "{\"a\":\"b#c\"}"},
    {"a: https://example.com:443/x?y=1&z=*", "{\"a\":\"https://example.com:443/x?y=1&z=*\"}"},
    {"a: [https://example.com/, host:443]", "{\"a\":[\"https://example.com/\",\"host:443\"]}"},
    {"a: x, y [z] {w}", "{\"a\":\"x, y [z] {w}\"}"},
    {"a: it's \"so\"", "{\"a\":\"it's \\\"so\\\"\"}"},
    {"just text", "\"just text\""},
    {"---x: 1", "{\"---x\":1}"},
    /* quotes */
    {"'it''s': ''", "{\"it's\":\"\"}"},
    {"\"a\\\"\\\\\\/\\b\\f\\n\\r\\t\\x41\\u00e9\\U0001F600\": x",
     "{\"a\\\"\\\\/\\b\\f\\n\\r\\tA\xc3\xa9\xf0\x9f\x98\x80\":\"x\"}"},
    {"a: '# no comment'  # comment", "{\"a\":\"# no comment\"}"},
    {"a: \": \"", "{\"a\":\": \"}"},
    {"\xc3\xa9: \xe2\x82\xac", "{\"\xc3\xa9\":\"\xe2\x82\xac\"}"},
    /* block mappings and sequences */
    {"a:\nb:\n", "{\"a\":null,\"b\":null}"},
    {"a:\n  b: 1\n  c:\n    d: 2\ne: 3\n", "{\"a\":{\"b\":1,\"c\":{\"d\":2}},\"e\":3}"},
    {"  a: 1\n  b: 2\n", "{\"a\":1,\"b\":2}"},
    {"a : 1", "{\"a\":1}"},
    {"a:\n  text\nb:\n  'x'\n", "{\"a\":\"text\",\"b\":\"x\"}"},
    {"- 1\n-\n- - 2\n  - 3\n-\n  - 4\n", "[1,null,[2,3],[4]]"},
    {"a:\n- 1\n- 2\nb:\n  - 3\n", "{\"a\":[1,2],\"b\":[3]}"},
    {"- a: 1\n  b:\n  - 2\n  c: 3\n-   d: 4\n    e: 5\n",
     "[{\"a\":1,\"b\":[2],\"c\":3},{\"d\":4,\"e\":5}]"},
    {"- a:\n- b:\n    c\n", "[{\"a\":null},{\"b\":\"c\"}]"},
    {"# c\na: # c\n# c\n\n  # c\n  - x # c\n   # c\n  - z\n#c", "{\"a\":[\"x\",\"z\"]}"},
    /* flow */
    {"{}", "{}"},
    {"a: []\nb: {}\n", "{\"a\":[],\"b\":{}}"},
    {"{\"a\":1,\"b\":[true,{\"c\":null}]}", "{\"a\":1,\"b\":[true,{\"c\":null}]}"},
    {"a: [ 1, 'x' , [2,], ] # c", "{\"a\":[1,\"x\",[2]]}"},
    {"a: {b: 1, c: , d: {e: f}, \"g\" : h}",
     "{\"a\":{\"b\":1,\"c\":null,\"d\":{\"e\":\"f\"},\"g\":\"h\"}}"},
    {"a: [\n  x, # c\n\n  z\n]\nb: {\nc:\n d\n}\n", "{\"a\":[\"x\",\"z\"],\"b\":{\"c\":\"d\"}}"},
};

Test(yaml, accepts_the_subset_and_libyaml_agrees)
{
    for (size_t i = 0; i < sizeof accepted / sizeof accepted[0]; i++) {
        const struct accepted *c = &accepted[i];
        struct err err = ERR_INIT;
        struct json *tree = parse(c->text, strlen(c->text), &err);
        cr_expect(tree, "%s: %s", c->text, err.message);
        if (!tree)
            continue;
        struct buf out;
        struct json_writer w;
        buf_init(&out, 10000);
        jw_init(&w, &out, false);
        jw_json(&w, tree);
        cr_expect_str_eq(buf_text(&out), c->json, "%s\n got: %s\nwant: %s", c->text, buf_text(&out),
                         c->json);
        cr_expect(oracle_agrees(c->text, strlen(c->text), tree), "libyaml on %s", c->text);
        buf_done(&out);
        json_free(tree);
    }
}

struct rejected {
    const char *text;
    const char *message;
};

#define ALIKE  ", which not every YAML reads alike, expected "
#define NUMBER ALIKE "a plain decimal number or quotes"
#define WORD   ALIKE "true, false or quotes"
#define INDENT                                                                                     \
    ", expected what continues a block above (check the indentation; a value ends with its line)"
#define TABS "found a tab, expected spaces (tabs are not supported in policies)"

static const struct rejected rejected[] = {
    /* what the subset leaves out */
    {"a: &x 1", "1:4: anchors (&name) are not supported in policies"},
    {"&x a: 1", "1:1: anchors (&name) are not supported in policies"},
    {"a: [&x 1]", "1:5: anchors (&name) are not supported in policies"},
    {"a: *x", "1:4: aliases (*name) are not supported in policies"},
    {"allow: [*.example.com]", "1:9: aliases (*name) are not supported in policies"},
    {"a: !!str 1", "1:4: tags (!type) are not supported in policies"},
    {"- !x", "1:3: tags (!type) are not supported in policies"},
    {"%YAML 1.2\n---\na: 1", "1:1: directives (%NAME) are not supported in policies"},
    {"<<: 1", "1:1: merge keys (<<) are not supported in policies"},
    {"a: {<<: {}}", "1:5: merge keys (<<) are not supported in policies"},
    {"? a\n: b", "1:1: complex keys (? key) are not supported in policies"},
    {"[a]: b", "1:4: found ':', expected the end of the line (quote text that contains ': ')"},
    {"a: 1\n[b]: 2",
     "2:1: found '[', expected a key (lists and mappings as keys are not supported in policies)"},
    {"{[a]: b}",
     "1:2: found '[', expected a key (lists and mappings as keys are not supported in policies)"},
    {"a: |\n  x", "1:4: block scalars (| and >) are not supported in policies"},
    {"a: >-\n  x", "1:4: block scalars (| and >) are not supported in policies"},
    {"a: @x", "1:4: values that start with @ or ` are not supported in policies"},
    {"--- a", "1:5: found \"a\", expected the end of the line after ---"},
    {"a: 1\n---\nb: 2",
     "2:1: found \"---\", expected one document (several are not supported in policies)"},
    {"a: [\n---\n]",
     "2:1: found \"---\", expected one document (several are not supported in policies)"},
    {"a: 1\n...\n",
     "2:1: found \"...\", expected no document end marker (not supported in policies)"},
    /* lines */
    {"a: b\n  c", "2:3: found \"c\"" INDENT},
    {"a\nb", "2:1: found \"b\"" INDENT},
    {"a:\n  b\n  c", "3:3: found \"c\"" INDENT},
    {"a: 'x\n  y'", "1:6: found the end of the line, expected the closing ' on the same line"},
    {"a: \"x\n  y\"", "1:6: found the end of the line, expected the closing \" on the same line"},
    {"a: \"x\\\ny\"",
     "1:7: found the end of the line, expected one of \" \\ / b f n r t x u U after a backslash"},
    {"[a\n b]", "2:2: found \"b\", expected ',' or ']'"},
    {"a: 'x", "1:6: found the end of the text, expected the closing ' on the same line"},
    {"a: \"x", "1:6: found the end of the text, expected the closing \" on the same line"},
    /* indentation */
    {"\ta: 1", "1:1: " TABS},
    {"a:\n\tb: 1", "2:1: " TABS},
    {"a:\n  \tb: 1", "2:3: " TABS},
    {"a:\tb", "1:3: " TABS},
    {"-\ta", "1:2: " TABS},
    {"a: b\tc", "1:5: " TABS},
    {"a: [\n\tb]", "2:1: " TABS},
    {"a: 'b\tc'", "1:6: found a tab, expected no tab in a scalar (write \\t in double quotes)"},
    {"a:\n    b: 1\n  c: 2", "3:3: found \"c\"" INDENT},
    {"a:\n  - x\n - y", "3:2: found \"-\"" INDENT},
    {"a: 1\n  b: 2", "2:3: found \"b\"" INDENT},
    {" a: 1\nb: 2", "2:1: found \"b\"" INDENT},
    {"- a\nb: 1", "2:1: found \"b\"" INDENT},
    {"a: 1\n- b", "2:1: found \"-\"" INDENT},
    {"- a: 1\n   b: 2", "2:4: found \"b\"" INDENT},
    /* keys */
    {"memory: 1\ncpus: 2\nmemory: 3", "3:1: duplicate key \"memory\" (first at 1:1)"},
    {"a:\n  b: 1\n  'b': 2", "3:3: duplicate key \"b\" (first at 2:3)"},
    {"{a: 1, \"\\x61\": 2}", "1:8: duplicate key \"a\" (first at 1:2)"},
    {"1: x", "1:1: found \"1\" as a key, expected text: put it in quotes"},
    {"true: x", "1:1: found \"true\" as a key, expected text: put it in quotes"},
    {"~: x", "1:1: found \"~\" as a key, expected text: put it in quotes"},
    {"on: x", "1:1: found \"on\"" WORD},
    {": x", "1:1: found ':', expected a value"},
    {"a: 1\nb", "2:2: found the end of the text, expected ': ' after a key"},
    {"a: 1\nb:2", "2:4: found the end of the text, expected ': ' after a key"},
    {"a: b: c", "1:5: found ':', expected the end of the line (quote text that contains ': ')"},
    {"'a':b", "1:4: found ':', expected ': ' after a key"},
    {"a: 'b': c", "1:7: found ':', expected the end of the line (quote text that contains ': ')"},
    {"a: - b", "1:4: found \"-\", expected a value (a list in block style starts on its own line)"},
    {"a: 'b' c", "1:8: found \"c\", expected the end of the line"},
    {"a: 'b'#c", "1:7: found '#', expected the end of the line"},
    {"a: [b] c", "1:8: found \"c\", expected the end of the line"},
    /* flow */
    {"[a", "1:3: found the end of the text, expected ',' or ']'"},
    {"[", "1:2: found the end of the text, expected a value"},
    {"[a, , b]", "1:5: found ',', expected a value"},
    {"[,]", "1:2: found ',', expected a value"},
    {"[a}", "1:3: found '}', expected ',' or ']'"},
    {"[a: b]", "1:3: found ':', expected ',' or ']'"},
    {"[- a]", "1:2: found \"-\", expected a value (a list in block style starts on its own line)"},
    {"{a}", "1:3: found '}', expected ': ' after a key"},
    {"{a:1}", "1:5: found '}', expected ': ' after a key"},
    {"{a:}", "1:3: found ':', expected a space after it, or quotes around the text"},
    {"{a: 1", "1:6: found the end of the text, expected ',' or '}'"},
    {"{a\n: 1}", "1:3: found the end of the line, expected ': ' after a key"},
    {"[a,#c\n]", "1:4: found '#', expected a value"},
    {"]", "1:1: found ']', expected a value"},
    /* the two YAMLs disagree */
    {"a: yes", "1:4: found \"yes\"" WORD},
    {"a: No", "1:4: found \"No\"" WORD},
    {"a: ON", "1:4: found \"ON\"" WORD},
    {"a: oFf", "1:4: found \"oFf\"" WORD},
    {"- y", "1:3: found \"y\"" WORD},
    {"[N]", "1:2: found \"N\"" WORD},
    {"a: 0644", "1:4: found \"0644\"" NUMBER},
    {"a: -01", "1:4: found \"-01\"" NUMBER},
    {"a: 00.5", "1:4: found \"00.5\"" NUMBER},
    {"a: 0x1F", "1:4: found \"0x1F\"" NUMBER},
    {"a: 0o17", "1:4: found \"0o17\"" NUMBER},
    {"a: 0b11", "1:4: found \"0b11\"" NUMBER},
    {"a: 1_000", "1:4: found \"1_000\"" NUMBER},
    {"a: 1:30", "1:4: found \"1:30\"" NUMBER},
    {"a: 1_:0", "1:4: found \"1_:0\"" NUMBER},
    {"a: 12e4567", "1:4: found \"12e4567\"" NUMBER},
    {"a: 1.5e3", "1:4: found \"1.5e3\"" NUMBER},
    {"a: .inf", "1:4: found \".inf\", expected a finite number or quotes"},
    {"a: -.INF", "1:4: found \"-.INF\", expected a finite number or quotes"},
    {"a: .NaN", "1:4: found \".NaN\", expected a finite number or quotes"},
    {"a: 9223372036854775808", "1:4: found a whole number that does not fit in 64 bits, expected "
                               "at most 9223372036854775807"},
    {"a: 1.0e+999", "1:4: found a number that is too large for a double"},
    /* characters */
    {"a: \"\\0\"", "1:6: found \"0\", expected one of \" \\ / b f n r t x u U after a backslash"},
    {"a: \"\\x00\"", "1:7: found U+0000, expected a character other than NUL and surrogates"},
    {"a: \"\\ud800\"", "1:7: found U+D800, expected a character other than NUL and surrogates"},
    {"a: \"\\U00110000\"",
     "1:7: found U+110000, expected a character other than NUL and surrogates"},
    {"a: \"\\u12\"", "1:9: found '\"', expected a hexadecimal digit"},
    {"a: \xff", "1:4: found the byte 0xff, expected UTF-8"},
    {"a: \xc2\x85",
     "1:4: found the character U+0085, expected printable text (escape it in double quotes)"},
    {"# \xe2\x80\xa8",
     "1:3: found the character U+2028, expected printable text (escape it in double quotes)"},
    {"\xef\xbb\xbf"
     "a: 1",
     "1:1: found the character U+FEFF, expected printable text (escape it in double quotes)"},
    {"a: 1\rb: 2",
     "1:5: found the character U+000D, expected printable text (escape it in double quotes)"},
    {"a: \x1b[2J",
     "1:4: found the character U+001B, expected printable text (escape it in double quotes)"},
    {"a: \x7f",
     "1:4: found the character U+007F, expected printable text (escape it in double quotes)"},
};

Test(yaml, rejects_with_position_and_reason)
{
    for (size_t i = 0; i < sizeof rejected / sizeof rejected[0]; i++) {
        struct err err = ERR_INIT;
        struct json *tree = parse(rejected[i].text, strlen(rejected[i].text), &err);
        cr_expect_null(tree, "accepted: %s", rejected[i].text);
        cr_expect_eq(err.code, ERR_POLICY);
        cr_expect_str_eq(err.message, rejected[i].message, "%s\n got: %s\nwant: %s",
                         rejected[i].text, err.message, rejected[i].message);
        json_free(tree);
    }
}

Test(yaml, refuses_nul)
{
    struct err err = ERR_INIT;
    cr_assert_null(parse("a: x\0y", 6, &err));
    cr_assert(strstr(err.message, "1:5: found the character U+0000"), "%s", err.message);
}

/* Every short text over an alphabet that reaches every state of the reader. */
Test(yaml, agrees_with_libyaml_on_all_short_texts)
{
    static const char alphabet[] = "a: \n-[]{},\"'#?1";
    const size_t letters = sizeof alphabet - 1;
    size_t seen = 0;
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
            if ((len == 5 && !in_part(n)) || yaml_parse(text, len, NULL, &tree, NULL) < 0)
                continue;
            seen++;
            cr_assert(oracle_agrees(text, len, tree), "<%.*s>", (int)len, text);
            json_free(tree);
        }
    }
    cr_assert_gt(seen, part_of(10000), "%zu", seen);
}

/* Documents of short lines, each a known piece at some indentation. */
Test(yaml, agrees_with_libyaml_on_all_small_block_structures)
{
    static const char *const pieces[] = {"a:",    "b: 1", "- x", "-",     "- c: 1",
                                         "- - y", "[1]",  "z",   "{d: [", "]}"};
    const size_t kinds = sizeof pieces / sizeof pieces[0] * 3;
    size_t seen = 0;
    for (size_t n = 0; n < kinds * kinds * kinds * kinds; n++) {
        char text[100];
        size_t len = 0, rest = n;
        if (!in_part(n))
            continue;
        for (int line = 0; line < 4; line++, rest /= kinds) {
            unsigned indent = (unsigned)(rest % kinds) % 3 * (line % 2 ? 2 : 1);
            len += (size_t)snprintf(text + len, sizeof text - len, "%*s%s\n", (int)indent, "",
                                    pieces[rest % kinds / 3]);
        }
        struct json *tree = NULL;
        if (yaml_parse(text, len, NULL, &tree, NULL) < 0)
            continue;
        seen++;
        cr_assert(oracle_agrees(text, len, tree), "<%s>", text);
        json_free(tree);
    }
    cr_assert_gt(seen, part_of(1000), "%zu", seen);
}

Test(yaml, a_key_is_a_key_to_every_reader)
{
    for (size_t len = 990; len < 1040; len++) {
        struct buf text;
        buf_init(&text, 2000);
        for (size_t i = 0; i < len; i++)
            buf_chr(&text, 'k');
        buf_str(&text, ": 1");
        struct json *tree = NULL;
        int rc = yaml_parse(text.data, text.len, NULL, &tree, NULL);
        cr_expect_eq(rc == 0, len <= 1000);
        cr_expect(rc < 0 || oracle_agrees(text.data, text.len, tree));
        json_free(tree);
        buf_done(&text);
    }
}

Test(yaml, limits_hold)
{
    const struct json_limits limits = {.max_bytes = 100, .max_depth = 3, .max_nodes = 5};
    struct json *tree;
    struct err err = ERR_INIT;
    cr_expect_eq(yaml_parse("- - - a", 7, &limits, &tree, &err), 0);
    json_free(tree);
    cr_expect_lt(yaml_parse("- - - - a", 9, &limits, &tree, &err), 0);
    cr_expect_str_eq(err.message, "1:7: found more than 3 levels of nesting, the limit");
    cr_expect_lt(yaml_parse("[[[[]]]]", 8, &limits, &tree, &err), 0);
    cr_expect_lt(yaml_parse("[1, 2, 3, 4, 5]", 15, &limits, &tree, &err), 0);
    cr_expect_str_eq(err.message, "1:14: found more than 5 values, which is the limit");
    char long_text[101];
    memset(long_text, 'a', sizeof long_text);
    cr_expect_lt(yaml_parse(long_text, sizeof long_text, &limits, &tree, &err), 0);
    cr_expect_str_eq(err.message, "1:1: found 101 bytes of text, expected at most 100");
}

Test(yaml, remembers_where_values_stood)
{
    struct json *tree = parse_ok("# policy\na:\n  b: [1, x]\nc:\n");
    cr_expect_eq(json_line(tree), 2);
    const struct json *b = json_get(json_get(tree, "a"), "b");
    cr_expect_eq(json_line(b), 3);
    cr_expect_eq(json_column(b), 6);
    cr_expect_eq(json_column(json_at(b, 1)), 10);
    cr_expect_eq(json_key_line_at(tree, 1), 4);
    cr_expect_eq(json_line(json_get(tree, "c")), 4);
    cr_expect_eq(json_column(json_get(tree, "c")), 3);
    json_free(tree);
}
