/* The drivers that travel inside brig are there, whole, and are started by a name that PATH knows.
 */
#include "interpreters/interpreters.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static bool contains(const struct interpreter *i, const char *word)
{
    return memmem(i->data, i->len, word, strlen(word)) != NULL;
}

Test(interpreters, each_language_has_one)
{
    for (enum interp_language l = INTERP_PYTHON; l < INTERP_COUNT; l++) {
        const struct interpreter *i = interpreter_get(l);
        char path[64];
        size_t last = 0;
        cr_assert_not_null(i);
        cr_expect_str_eq(i->name, interp_language_name(l));
        cr_expect_null(strchr(i->argv[0], '/'));
        while (i->argv[last + 1])
            last++;
        snprintf(path, sizeof path, "%s/%s", INTERPRETER_DIR, i->file);
        cr_expect_str_eq(i->argv[last], path);
        cr_expect(contains(i, "wire/interp.h"));
        cr_expect_eq(i->data[i->len - 1], '\n');
        cr_expect_null(memchr(i->data, '\0', i->len));
    }
}

Test(interpreters, not_mixed_up)
{
    cr_expect(contains(interpreter_get(INTERP_PYTHON), "def serve("));
    cr_expect(contains(interpreter_get(INTERP_JAVASCRIPT), "'use strict'"));
    cr_expect(contains(interpreter_get(INTERP_BASH), "__brig_begin"));
    cr_expect_not(contains(interpreter_get(INTERP_BASH), "def serve("));
}

Test(interpreters, no_other)
{
    cr_expect_null(interpreter_get(INTERP_NONE));
    cr_expect_null(interpreter_get(INTERP_COUNT));
}
