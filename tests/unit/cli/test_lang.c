#include "base/cleanup.h"
#include "cli/run/lang.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static void is_a_word(const char *name)
{
    char all[512];
    char word[64];
    snprintf(all, sizeof all, " %s ", lang_words);
    snprintf(word, sizeof word, " %s ", name);
    cr_assert(strstr(all, word), "%s is missing in lang_words", name);
    cr_assert_not_null(lang_find(name), "%s", name);
}

Test(lang, the_words_of_the_option_are_the_names_of_the_table)
{
    size_t names = 0;
    const struct lang *l;
    for (size_t i = 0; (l = lang_at(i)); i++) {
        is_a_word(l->name);
        names++;
        for (size_t a = 0; a < ARRAY_LEN(l->aliases) && l->aliases[a]; a++, names++)
            is_a_word(l->aliases[a]);
    }
    size_t words = 1;
    for (const char *p = lang_words; *p; p++)
        words += *p == ' ';
    cr_assert_eq(words, names);
}

Test(lang, aliases_lead_to_the_same_language)
{
    cr_assert_eq(lang_find("py"), lang_find("python"));
    cr_assert_eq(lang_find("javascript"), lang_find("node"));
    cr_assert_null(lang_find("cobol"));
    cr_assert_null(lang_find(""));
}

Test(lang, arguments_follow_those_of_the_interpreter)
{
    char *extra[] = {"-x", "y", NULL};
    cleanup_free char **argv = lang_argv(lang_find("bash"), "bash", extra);
    static const char *const expected[] = {"bash", "-s", "--", "-x", "y"};
    for (size_t i = 0; i < ARRAY_LEN(expected); i++)
        cr_assert_str_eq(argv[i], expected[i]);
    cr_assert_null(argv[5]);
}

Test(lang, arguments_are_optional)
{
    cleanup_free char **argv = lang_argv(lang_find("python"), "python3", NULL);
    cr_assert_str_eq(argv[1], "-");
    cr_assert_null(argv[2]);
}

Test(lang, a_missing_interpreter_is_not_found_and_says_how_to_get_it)
{
    struct lang missing = {.name = "x", .programs = {"brig-no-such-program"}, .package = "x-pkg"};
    struct err err = ERR_INIT;
    const char *program;
    cr_assert_lt(lang_program(&missing, NULL, &program, &err), 0);
    cr_assert_eq(err_exit_status(&err), 127);
    cr_assert(strstr(err.hint, "x-pkg"));
}

Test(lang, the_first_installed_candidate_is_taken)
{
    struct lang two = {.name = "x", .programs = {"brig-no-such-program", "sh"}};
    struct err err = ERR_INIT;
    const char *program;
    cr_assert_eq(lang_program(&two, NULL, &program, &err), 0);
    cr_assert_str_eq(program, "sh");
}

static void make_root(char *root)
{
    char path[128];
    cr_assert_not_null(mkdtemp(root));
    static const char *const folders[] = {"usr", "usr/bin"};
    for (size_t i = 0; i < ARRAY_LEN(folders); i++) {
        snprintf(path, sizeof path, "%s/%s", root, folders[i]);
        mkdir(path, 0755);
    }
    snprintf(path, sizeof path, "%s/usr/bin/lua5.3", root);
    /* A dangling link, as absolute links below a foreign root are. */
    cr_assert_eq(symlink("/no/such/place", path), 0);
}

static void remove_root(const char *root)
{
    static const char *const parts[] = {"usr/bin/lua5.3", "usr/bin", "usr", ""};
    char path[128];
    for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
        snprintf(path, sizeof path, "%s/%s", root, parts[i]);
        remove(path);
    }
}

Test(lang, a_foreign_root_is_searched_without_following_links)
{
    char root[] = "/tmp/brig-lang-XXXXXX";
    struct err err = ERR_INIT;
    const char *program;
    make_root(root);
    cr_assert_eq(lang_program(lang_find("lua"), root, &program, &err), 0);
    cr_expect_str_eq(program, "lua5.3");
    cr_assert_eq(lang_program(lang_find("python"), root, &program, &err), 0);
    cr_expect_str_eq(program, "python3");
    remove_root(root);
}
