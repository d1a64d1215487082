/* Finds the module that runs a language: the one that a variable of the caller's names, the one
 * that was built with brig, or the one that the operator put where all of them lie. It is code for
 * the inside of a sandbox, so that nothing depends on who could have written it. */
#include "sandbox/module.h"

#include "base/cleanup.h"
#include "os/beside.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const struct {
    const char *names[4]; /* the first is the language */
    const char *file;
    const char *variable;
    bool library; /* it may have a folder of one beside it */
    const char *how;
} modules[] = {
    {{"javascript", "js"},
     "javascript.wasm",
     "BRIG_WASM_JAVASCRIPT",
     false,
     "`make` builds QuickJS where Debian's mirror, clang and wasi-libc are available "
     "(tools/quickjs)"},
    {{"python", "py", "python3"},
     "python.wasm",
     "BRIG_WASM_PYTHON",
     true,
     "unpack a build of CPython for WASI there, python.wasm and its folder lib: "
     "github.com/brettcannon/cpython-wasi-build has some, CPython's developer guide says how to "
     "make one"},
};
static const char *const places[] = {"/usr/local/lib/brig", "/usr/lib/brig"};

static int entry_of(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(modules); i++)
        for (size_t n = 0; n < ARRAY_LEN(modules[i].names) && modules[i].names[n]; n++)
            if (strcmp(modules[i].names[n], name) == 0)
                return (int)i;
    return -1;
}

const char *module_language(const char *name)
{
    int i = entry_of(name);
    return i < 0 ? NULL : modules[i].names[0];
}

const char *module_language_at(size_t i)
{
    return i < ARRAY_LEN(modules) ? modules[i].names[0] : NULL;
}

static bool is_file(const char *path)
{
    struct stat sb;
    return stat(path, &sb) == 0 && S_ISREG(sb.st_mode);
}

/* A build of CPython has its library as a folder beside it, or all of it inside. */
static void find_home(bool library, struct module *m)
{
    char folder[PATH_MAX];
    struct stat sb;
    char *slash = strrchr(m->path, '/');
    m->home[0] = '\0';
    if (!library || !slash)
        return;
    int n = snprintf(folder, sizeof folder, "%.*s/lib", (int)(slash - m->path), m->path);
    if (n > 0 && (size_t)n < sizeof folder && stat(folder, &sb) == 0 && S_ISDIR(sb.st_mode))
        snprintf(m->home, sizeof m->home, "%.*s", (int)(slash - m->path), m->path);
}

static bool look(size_t which, struct module *m, char *where, size_t size)
{
    struct err err = ERR_INIT;
    if (file_beside(modules[which].file, m->path, sizeof m->path, &err) == 0)
        return true;
    for (size_t i = 0; i < ARRAY_LEN(places); i++) {
        snprintf(m->path, sizeof m->path, "%s/%s", places[i], modules[which].file);
        if (is_file(m->path))
            return true;
    }
    snprintf(where, size, "%s beside brig, or in %s or %s", modules[which].file, places[0],
             places[1]);
    return false;
}

int module_find(const char *language, struct module *ret, struct err *err)
{
    int which = entry_of(language);
    if (which < 0)
        return err_set(err, ERR_USAGE, "no module runs %.60s", language);
    const char *named = getenv(modules[which].variable);
    char where[160] = "";
    *ret = (struct module){.language = modules[which].names[0]};
    if (named && named[0]) {
        if (named[0] != '/' || strlen(named) >= sizeof ret->path || !is_file(named)) {
            err_set(err, ERR_NOT_FOUND, "%s=%.200s names no file by its absolute path",
                    modules[which].variable, named);
            return err_hint(err, "unset it, or name the module that runs %s", ret->language);
        }
        snprintf(ret->path, sizeof ret->path, "%s", named);
    } else if (!look((size_t)which, ret, where, sizeof where)) {
        err_set(err, ERR_NOT_FOUND, "no module for %s: there is no %s", ret->language, where);
        return err_hint(err, "%s; or name one: %s=/path/to/%s", modules[which].how,
                        modules[which].variable, modules[which].file);
    }
    find_home(modules[which].library, ret);
    return 0;
}
