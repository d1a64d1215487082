/* Modules that run a language on the wasm tiers, and where they are. */
#pragma once

#include "base/err.h"

#include <limits.h>
#include <stddef.h>

struct module {
    const char *language;
    char path[PATH_MAX];
    char home[PATH_MAX]; /* the folder of its library, `lib`, which a run has to show; or "" */
};

/* Of which language there can be one, by any of its names; NULL: of none of that name. */
const char *module_language(const char *name);
#define MODULE_LANGUAGES "javascript or python"
/* The i-th, NULL past the end. */
const char *module_language_at(size_t i);
/* Where the module is; if there is none: where it was looked for, and how to get it. */
int module_find(const char *language, struct module *ret, struct err *err);
