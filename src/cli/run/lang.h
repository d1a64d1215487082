/* Languages whose interpreters read code from stdin: no temporary file, nothing to clean up. */
#pragma once

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>

#define LANG_CANDIDATES 4
#define LANG_ARGS       3

struct lang {
    const char *name;
    const char *aliases[3];                /* NULL-terminated */
    const char *programs[LANG_CANDIDATES]; /* the first that is installed is taken */
    const char *args[LANG_ARGS];           /* after the program, before the user's own */
    const char *package;                   /* in Debian */
};

/* Every name and alias, separated by spaces: the words of --lang. */
extern const char lang_words[];

const struct lang *lang_find(const char *name);
/* How the module of a language is started; the name is also its argv[0]. */
const struct lang *lang_of_module(const char *name);
/* The i-th language, NULL past the end. */
const struct lang *lang_at(size_t i);
/* The program to start: looked for in the folders of the sandbox's PATH, on the host or below
 * `root` (NULL: the host). Below a root that has none of them it is the first, and the sandbox will
 * say that it is missing. */
int lang_program(const struct lang *lang, const char *root, const char **ret, struct err *err);
/* argv for it, with `extra` (NULL-terminated) at the end; the array is the caller's, the strings
 * are not. */
char **lang_argv(const struct lang *lang, const char *program, char *const *extra);
