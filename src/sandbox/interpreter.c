/* Shows the drivers of the interpreters inside a sandbox. */
#include "sandbox/interpreter.h"

#include "filesystem/filesystem.h"

#include <string.h>

_Static_assert(sizeof INTERPRETER_DIR == sizeof SHOWN_DIR, "drivers are looked for where they are");

const struct interpreter *interpreter_find(const char *language)
{
    for (int l = INTERP_NONE + 1; l < INTERP_COUNT; l++) {
        const struct interpreter *it = interpreter_get((enum interp_language)l);
        if (it && strcmp(it->name, language) == 0)
            return it;
    }
    return NULL;
}

int interpreters_show(struct filesystem *fs, struct err *err)
{
    for (size_t i = 0; i < INTERPRETER_FILES; i++) {
        struct interpreter_file f = interpreter_file(i);
        if (!filesystem_show(fs, f.name, f.data, f.len, err))
            return err_number(err);
    }
    return 0;
}
