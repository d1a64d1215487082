/* The drivers that travel inside brig are there, whole, and are started by a name that PATH knows.
 */
#include "interpreters/interpreters.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static bool contains(const struct interpreter_file *f, const char *word)
{
    return memmem(f->data, f->len, word, strlen(word)) != NULL;
}

/* The file that an argument names; one without a name: none. */
static struct interpreter_file file_of(const struct interpreter *i)
{
    char path[64];
    for (size_t at = 0; at < INTERPRETER_FILES; at++) {
        struct interpreter_file f = interpreter_file(at);
        snprintf(path, sizeof path, "%s/%s", INTERPRETER_DIR, f.name);
        for (size_t a = 1; i->argv[a]; a++)
            if (strcmp(i->argv[a], path) == 0)
                return f;
    }
    return (struct interpreter_file){0};
}

Test(interpreters, each_language_has_one)
{
    for (enum interp_language l = INTERP_PYTHON; l < INTERP_COUNT; l++) {
        const struct interpreter *i = interpreter_get(l);
        cr_assert_not_null(i);
        cr_expect_str_eq(i->name, interp_language_name(l));
        cr_expect_null(strchr(i->argv[0], '/'));
        struct interpreter_file f = file_of(i);
        cr_assert_not_null(f.name, "%s", i->name);
        cr_expect(contains(&f, "wire/interp.h"), "%s", i->name);
    }
}

Test(interpreters, all_files_are_whole)
{
    for (size_t i = 0; i < INTERPRETER_FILES; i++) {
        struct interpreter_file f = interpreter_file(i);
        cr_assert_gt(f.len, 0);
        cr_expect_eq(f.data[f.len - 1], '\n');
        cr_expect_null(memchr(f.data, '\0', f.len));
    }
}

Test(interpreters, not_mixed_up)
{
    static const struct {
        enum interp_language language;
        const char *word;
    } words[] = {
        {INTERP_PYTHON, "def serve("}, {INTERP_JAVASCRIPT, "'use strict'"},
        {INTERP_BASH, "__brig_begin"}, {INTERP_TYPESCRIPT, "'use strict'"},
        {INTERP_R, "withVisible"},     {INTERP_JAVA, "jdk.jshell"},
    };
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        struct interpreter_file f = file_of(interpreter_get(words[i].language));
        cr_expect(contains(&f, words[i].word), "%s", words[i].word);
    }
    struct interpreter_file bash = file_of(interpreter_get(INTERP_BASH));
    cr_expect_not(contains(&bash, "def serve("));
}

Test(interpreters, no_other)
{
    cr_expect_null(interpreter_get(INTERP_NONE));
    cr_expect_null(interpreter_get(INTERP_COUNT));
}
