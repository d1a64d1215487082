/* IM-13: a Dockerfile means what is in the table, and what else it says is refused by its line. */
#include "images/build/dockerfile.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <string.h>
#include <time.h>

static struct dockerfile parsed(const char *text)
{
    struct dockerfile d;
    struct err err = ERR_INIT;
    cr_assert(dockerfile_parse(text, strlen(text), &d, &err) >= 0, "%s: %s", text, err.message);
    return d;
}

Test(dockerfile, lines_that_go_on)
{
    struct dockerfile d =
        parsed("# a comment\n\nFROM a\nRUN b && \\\n  # between\n\n  c\n  cmd [\"x\", \"y z\"]\n");
    cr_assert(d.count == 3);
    cr_assert_str_eq(d.items[1].text, "RUN b &&   c");
    cr_assert(d.items[1].line == 4 && !d.items[1].exec);
    cr_assert(d.items[2].op == DOCKER_CMD && d.items[2].exec && d.items[2].line == 8);
    cr_assert_str_eq(d.items[2].args.items[1], "y z");
    dockerfile_done(&d);
}

Test(dockerfile, another_escape)
{
    struct dockerfile d = parsed("# escape=`\nFROM a\nRUN b `\n c\\\nRUN d\n");
    cr_assert(d.count == 3 && d.escape == '`');
    cr_assert_str_eq(d.items[1].text, "RUN b  c\\");
    dockerfile_done(&d);
}

Test(dockerfile, pairs)
{
    struct dockerfile d = parsed("ENV A=b C=\"d e\" F='g h'\nENV OLD the rest of it\nARG X=1 Y\n");
    cr_assert(d.items[0].args.count == 6);
    cr_assert_str_eq(d.items[0].args.items[3], "\"d e\"");
    cr_assert_str_eq(d.items[1].args.items[1], "the rest of it");
    cr_assert_str_eq(d.items[2].args.items[1], "=1");
    cr_assert_str_eq(d.items[2].args.items[3], "!");
    dockerfile_done(&d);
}

Test(dockerfile, what_is_refused)
{
    static const struct {
        const char *text, *says;
    } rows[] = {
        {"FROM a\nONBUILD RUN x\n", "line 2"},
        {"FROM a\n\nFETCH x\n", "line 3"},
        {"FROM a\nRUN <<EOF\nrm -rf /\nEOF\n", "line 2"},
        {"FROM a\nCOPY <<-\"X\" /a\nX\n", "line 2"},
        {"FROM a\nRUN\n", "nothing follows"},
        {"SHELL /bin/sh\n", "expected a list"},
        {"CMD [\"a\", 1]\n", "no text"},
        {"ENV =a\n", "NAME=VALUE"},
        {"ENV A\n", "NAME=VALUE"},
        {"ARG 1A=b\n", "expected NAME"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct dockerfile d;
        struct err err = ERR_INIT;
        cr_assert(dockerfile_parse(rows[i].text, strlen(rows[i].text), &d, &err) < 0, "%s",
                  rows[i].text);
        cr_assert(strstr(err.message, rows[i].says) != NULL, "%s: %s", rows[i].text, err.message);
    }
}

static const char *find(void *ctx, const char *name)
{
    (void)ctx;
    return strcmp(name, "A") == 0 ? "x y" : strcmp(name, "E") == 0 ? "" : NULL;
}

Test(dockerfile, variables)
{
    static const struct {
        const char *word, *is;
    } rows[] = {{"$A", "x y"},          {"${A}z", "x yz"}, {"\"$A\"'$A'", "x y$A"},
                {"\\$A", "$A"},         {"${N:-d}", "d"},  {"${E:-d}", "d"},
                {"${A:+d}", "d"},       {"${N:+d}", ""},   {"${N:-${A}}", "x y"},
                {"a$", "a$"},           {"$N", ""},        {"\"a\\\"b\"", "a\"b"},
                {"\"a\\nb\"", "a\\nb"}, {"$1", "$1"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct err err = ERR_INIT;
        struct buf out;
        buf_init(&out, 1000);
        cr_assert(docker_expand(rows[i].word, '\\', find, NULL, &out, &err) >= 0, "%s: %s",
                  rows[i].word, err.message);
        cr_assert_str_eq(buf_text(&out), rows[i].is, "%s", rows[i].word);
        buf_done(&out);
    }
    static const char *const bad[] = {"${A", "${}", "${A:?x}", "'a", "\"$A", "${1}"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct err err = ERR_INIT;
        struct buf out;
        buf_init(&out, 1000);
        cr_assert(docker_expand(bad[i], '\\', find, NULL, &out, &err) < 0, "%s", bad[i]);
        buf_done(&out);
    }
}

Test(dockerfile, what_is_ignored)
{
    static const char text[] = "# c\n*.log\n/node_modules/\n**/cache\n!keep.log\ndocs/*/x\n";
    static const struct {
        const char *path;
        bool is;
    } rows[] = {{"a.log", true},        {"keep.log", false},      {"d/a.log", false},
                {"node_modules", true}, {"node_modules/a", true}, {"a/node_modules", false},
                {"cache", true},        {"a/b/cache/c", true},    {"docs/a/x", true},
                {"docs/a/b/x", false},  {"main.c", false}};
    struct ignore ignore;
    struct err err = ERR_INIT;
    cr_assert(ignore_parse(text, strlen(text), &ignore, &err) >= 0);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        cr_assert(ignore_has(&ignore, rows[i].path) == rows[i].is, "%s", rows[i].path);
    ignore_done(&ignore);
}

/* Both are the context's. */
Test(dockerfile, a_pattern_takes_no_time_by_its_stars)
{
    struct err err = ERR_INIT;
    struct ignore ignore;
    char text[20 * 32] = "", path[2 * 180 + 1] = "";
    for (int i = 0; i < 20; i++)
        strcat(text, "**/a/**/a/**/a/**/b\n");
    for (int i = 0; i < 180; i++)
        strcat(path, i ? "/a" : "a");
    cr_assert(ignore_parse(text, strlen(text), &ignore, &err) >= 0);
    clock_t before = clock();
    cr_assert_not(ignore_has(&ignore, path));
    cr_assert_lt(clock() - before, 2 * CLOCKS_PER_SEC);
    ignore_done(&ignore);
}
