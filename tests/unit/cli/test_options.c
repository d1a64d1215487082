#include "base/cleanup.h"
#include "cli/options.h"
#include "cli/suggest.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

enum { FLAG = 1, QUICK, SIZE, LIST, WORD, MEANS };

static const struct opt first_items[] = {
    {.id = FLAG, .brief = 'f', .name = "flag", .group = "g", .help = "h"},
    {.id = QUICK, .brief = 'q', .name = "quick", .group = "g", .help = "h"},
    {.id = SIZE, .brief = 'm', .name = "memory", .kind = OPT_VALUE, .value = "SIZE"},
};
static const struct opt second_items[] = {
    {.id = LIST, .brief = 'e', .name = "env", .kind = OPT_LIST, .value = "KEY=VALUE"},
    {.id = WORD, .name = "level", .kind = OPT_VALUE, .value = "LEVEL", .words = "low medium high"},
    {.id = MEANS, .name = "noexec", .means = "false"},
};
static const struct opt_table second = {second_items, ARRAY_LEN(second_items), NULL};
static const struct opt_table table = {first_items, ARRAY_LEN(first_items), &second};

/* What the callback heard, as text: "memory=1G flag @operand". */
struct heard {
    char text[512];
    bool stop_at_operand;
};

static int hear(void *ctx, const struct opt *opt, const char *value, struct err *err)
{
    struct heard *h = ctx;
    size_t n = strlen(h->text);
    if (opt)
        snprintf(h->text + n, sizeof h->text - n, "%s%s%s ", opt->name, value ? "=" : "",
                 value ? value : "");
    else if (h->stop_at_operand)
        return OPTIONS_STOP;
    else
        snprintf(h->text + n, sizeof h->text - n, "@%s ", value);
    return 0;
}

static struct heard heard;
static struct err err;
static int rest;

static int parse(int argc, char *const argv[])
{
    return options_parse(&table, argc, argv, hear, &heard, &rest, &err);
}

#define PARSE(...)                                                                                 \
    parse((int)(sizeof((char *[]){__VA_ARGS__}) / sizeof(char *)), (char *[]){__VA_ARGS__})

#define HEARD(expected) cr_assert_str_eq(heard.text, expected)
#define REFUSED(part)                                                                              \
    do {                                                                                           \
        cr_assert_eq(err.code, ERR_USAGE);                                                         \
        cr_assert(strstr(err.message, part), "%s", err.message);                                   \
    } while (0)

Test(options, reads_every_way_to_give_a_value)
{
    cr_assert_eq(PARSE("--memory", "1G"), 0);
    HEARD("memory=1G ");
    heard.text[0] = '\0';
    cr_assert_eq(PARSE("--memory=1G"), 0);
    HEARD("memory=1G ");
    heard.text[0] = '\0';
    cr_assert_eq(PARSE("-m", "1G"), 0);
    HEARD("memory=1G ");
    heard.text[0] = '\0';
    cr_assert_eq(PARSE("-m1G"), 0);
    HEARD("memory=1G ");
}

Test(options, reads_bundled_flags)
{
    cr_assert_eq(PARSE("-qfm1G"), 0);
    HEARD("quick flag memory=1G ");
}

Test(options, a_value_may_hold_an_equals_sign_or_begin_with_a_dash)
{
    cr_assert_eq(PARSE("--env=A=B=C", "-e", "-x", "--env=--flag"), 0);
    HEARD("env=A=B=C env=-x env=--flag ");
}

Test(options, a_flag_hands_on_what_it_means)
{
    cr_assert_eq(PARSE("--noexec"), 0);
    HEARD("noexec=false ");
}

Test(options, operands_may_stand_anywhere)
{
    cr_assert_eq(PARSE("a", "-f", "-", "--", "-f"), 0);
    HEARD("@a flag @- ");
    cr_assert_eq(rest, 4);
}

Test(options, the_caller_may_stop_at_an_operand)
{
    heard.stop_at_operand = true;
    cr_assert_eq(PARSE("-f", "ls", "-f", "--bogus"), 0);
    HEARD("flag ");
    cr_assert_eq(rest, 1);
}

Test(options, two_dashes_end_the_options)
{
    cr_assert_eq(PARSE("-f", "--", "--bogus"), 0);
    HEARD("flag ");
    cr_assert_eq(rest, 2);
}

Test(options, nothing_is_fine)
{
    char *none[] = {NULL};
    cr_assert_eq(parse(0, none), 0);
    cr_assert_eq(rest, 0);
    HEARD("");
}

Test(options, different_values_contradict_each_other)
{
    cr_assert_lt(PARSE("-m", "1G", "--memory=2G"), 0);
    REFUSED("contradict");
    REFUSED("1G");
    REFUSED("2G");
}

Test(options, the_same_value_twice_is_heard_once)
{
    cr_assert_eq(PARSE("-m", "1G", "--memory=1G", "-f", "-f", "-e", "A", "-e", "A"), 0);
    HEARD("memory=1G flag flag env=A env=A ");
}

Test(options, a_missing_value_is_refused)
{
    cr_assert_lt(PARSE("--memory"), 0);
    REFUSED("--memory SIZE");
    cr_assert_lt(PARSE("-m"), 0);
    REFUSED("--memory SIZE");
    cr_assert_lt(PARSE("--memory="), 0);
    REFUSED("needs a value");
    cr_assert_lt(PARSE("-m", ""), 0);
    REFUSED("needs a value");
    HEARD("");
}

Test(options, an_option_is_not_swallowed_as_a_value)
{
    cr_assert_lt(PARSE("-m", "--flag"), 0);
    REFUSED("needs a value");
    cr_assert(strstr(err.hint, "--memory=--flag"));
    cr_assert_lt(PARSE("--memory", "--", "true"), 0);
    REFUSED("needs a value");
}

Test(options, a_flag_takes_no_value)
{
    cr_assert_lt(PARSE("--flag=yes"), 0);
    REFUSED("takes no value");
}

Test(options, an_unknown_option_is_refused_with_the_nearest_name)
{
    cr_assert_lt(PARSE("--memroy", "1G"), 0);
    REFUSED("unknown option --memroy");
    cr_assert_str_eq(err.hint, "did you mean --memory?");
    cr_assert_lt(PARSE("--zzzzzz"), 0);
    cr_assert_str_eq(err.hint, "");
    cr_assert_lt(PARSE("-x"), 0);
    REFUSED("unknown option -x");
    cr_assert_lt(PARSE("---"), 0);
    REFUSED("unknown option");
    cr_assert_lt(PARSE("--=x"), 0);
    REFUSED("unknown option");
}

Test(options, abbreviations_are_suggested_not_accepted)
{
    cr_assert_lt(PARSE("--mem", "1G"), 0);
    cr_assert_str_eq(err.hint, "did you mean --memory?");
    HEARD("");
}

Test(options, a_long_name_with_one_dash_is_explained)
{
    cr_assert_lt(PARSE("-memory", "1G"), 0);
    cr_assert(strstr(err.hint, "--memory"));
    HEARD("");
}

Test(options, only_the_listed_words_are_values)
{
    cr_assert_eq(PARSE("--level", "high"), 0);
    cr_assert_lt(PARSE("--level=hihg"), 0);
    REFUSED("low, medium or high");
    cr_assert(strstr(err.hint, "high"));
    cr_assert_lt(PARSE("--level", "low medium"), 0);
    cr_assert_lt(PARSE("--level", "lo"), 0);
}

static int refuse(void *ctx, const struct opt *opt, const char *value, struct err *e)
{
    return err_set(e, ERR_POLICY, "no");
}

Test(options, the_callers_error_comes_back)
{
    char *argv[] = {"-f", "-q"};
    cr_assert_eq(options_parse(&table, 2, argv, refuse, NULL, &rest, &err), -ERR_POLICY);
}

Test(options, very_long_arguments_are_cut_in_messages)
{
    char word[5000];
    memset(word, 'x', sizeof word - 1);
    word[0] = word[1] = '-';
    word[sizeof word - 1] = '\0';
    cr_assert_lt(PARSE(word), 0);
    REFUSED("unknown option");
    cr_assert_lt(strlen(err.message), 100);
    word[0] = word[1] = 'y';
    cr_assert_lt(PARSE("--level", word), 0);
    REFUSED("is not one of");
}

Test(suggest, finds_typing_errors_only)
{
    char out[40];
    cr_assert_str_eq(suggest_from_words("exlpain", "show check explain", out, sizeof out),
                     "explain");
    cr_assert_str_eq(suggest_from_words("chek", "show check explain", out, sizeof out), "check");
    cr_assert_null(suggest_from_words("frobnicate", "show check explain", out, sizeof out));
    cr_assert_null(suggest_from_words("", "show check explain", out, sizeof out));
    cr_assert_null(suggest_from_words("x", "y z", out, sizeof out));
}
