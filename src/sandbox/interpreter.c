#include "sandbox/interpreter.h"

#include "filesystem/filesystem.h"

#include <string.h>

/* Laid into this program by tools/embed-files. */
extern const char driver_python_start[], driver_python_end[];

static const struct interpreter interpreters[] = {
    {"python",
     {"python3", "-I", "-u", SHOWN_DIR "/python.py", NULL},
     "python.py",
     driver_python_start,
     driver_python_end},
};

const struct interpreter *interpreter_at(unsigned i)
{
    return i < sizeof interpreters / sizeof interpreters[0] ? &interpreters[i] : NULL;
}

const struct interpreter *interpreter_find(const char *language)
{
    const struct interpreter *it;
    for (unsigned i = 0; (it = interpreter_at(i)); i++)
        if (strcmp(it->language, language) == 0)
            return it;
    return NULL;
}

int interpreters_show(struct filesystem *fs, struct err *err)
{
    const struct interpreter *it;
    for (unsigned i = 0; (it = interpreter_at(i)); i++)
        if (!filesystem_show(fs, it->file, it->start, (size_t)(it->end - it->start), err))
            return -err->code;
    return 0;
}
