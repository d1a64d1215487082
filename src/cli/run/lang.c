/* The table behind `brig run --lang`: which program runs a language, and how it reads code from
 * stdin. */
#include "cli/run/lang.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "sandbox/module.h"

#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

/* clang-format off */
static const struct lang langs[] = {
    {"python", {"py", "python3"},    {"python3"},                  {"-"},             "python3"},
    {"bash",   {0},                  {"bash"},                     {"-s", "--"},      "bash"},
    {"sh",     {0},                  {"sh"},                       {"-s", "--"},      "dash"},
    {"node",   {"js", "javascript"}, {"node", "nodejs"},           {"-"},             "nodejs"},
    {"perl",   {"pl"},               {"perl"},                     {"-"},             "perl"},
    {"ruby",   {"rb"},               {"ruby"},                     {"-"},             "ruby"},
    {"lua",    {0},                  {"lua", "lua5.4", "lua5.3"},  {"-"},             "lua5.4"},
    {"php",    {0},                  {"php"},                      {"--"},            "php-cli"},
    /* tclsh has no name for stdin, but never takes an argument that begins with a dash for a
     * file. */
    {"tcl",    {0},                  {"tclsh", "tclsh8.6"},        {"-"},             "tcl"},
    {"r",      {"R"},                {"Rscript"},                  {"-"},             "r-base-core"},
    {"julia",  {"jl"},               {"julia"},                    {"-"},             "julia"},
    {"deno",   {"ts", "typescript"}, {"deno"},                     {"run", "-"},      NULL},
};
/* clang-format on */

/* As modules are started, on a tier that runs them: "-" is stdin for all of them. */
static const struct lang modules[] = {
    {.name = "javascript", .args = {"-"}},
    {.name = "python", .args = {"-"}},
};

const char lang_words[] =
    "python py python3 bash sh node js javascript perl pl ruby rb lua php tcl "
    "r R julia jl deno ts typescript";

static const char *const path_folders[] = {"/usr/local/bin", "/usr/bin", "/bin"};

const struct lang *lang_at(size_t i)
{
    return i < ARRAY_LEN(langs) ? &langs[i] : NULL;
}

const struct lang *lang_find(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(langs); i++) {
        if (strcmp(langs[i].name, name) == 0)
            return &langs[i];
        for (size_t a = 0; a < ARRAY_LEN(langs[i].aliases) && langs[i].aliases[a]; a++) {
            if (strcmp(langs[i].aliases[a], name) == 0)
                return &langs[i];
        }
    }
    return NULL;
}

const struct lang *lang_of_module(const char *name)
{
    const char *language = module_language(name);
    for (size_t i = 0; language && i < ARRAY_LEN(modules); i++)
        if (strcmp(modules[i].name, language) == 0)
            return &modules[i];
    return NULL;
}

/* Links are not followed: below a foreign root they mean something else than here. */
static bool installed(const char *root, const char *program)
{
    cleanup_buf struct buf path;
    struct stat st;
    buf_init(&path, PATH_MAX);
    for (size_t i = 0; i < ARRAY_LEN(path_folders); i++) {
        buf_reset(&path);
        buf_fmt(&path, "%s%s/%s", root ? root : "", path_folders[i], program);
        if (!path.failed && lstat(buf_text(&path), &st) == 0 && !S_ISDIR(st.st_mode))
            return true;
    }
    return false;
}

int lang_program(const struct lang *lang, const char *root, const char **ret, struct err *err)
{
    for (size_t i = 0; i < LANG_CANDIDATES && lang->programs[i]; i++) {
        if (installed(root, lang->programs[i])) {
            *ret = lang->programs[i];
            return 0;
        }
    }
    *ret = lang->programs[0];
    if (root)
        return 0;
    int r = err_set(err, ERR_NOT_FOUND,
                    "no interpreter for %s: %s is not in /usr/local/bin, /usr/bin or /bin",
                    lang->name, lang->programs[0]);
    return lang->package ? err_hint(err, "sudo apt-get install %s", lang->package) : r;
}

char **lang_argv(const struct lang *lang, const char *program, char *const *extra)
{
    size_t extras = 0;
    while (extra && extra[extras])
        extras++;
    char **argv = calloc(1 + LANG_ARGS + extras + 1, sizeof *argv);
    if (!argv)
        return NULL;
    size_t n = 0;
    argv[n++] = (char *)program;
    for (size_t i = 0; i < LANG_ARGS && lang->args[i]; i++)
        argv[n++] = (char *)lang->args[i];
    for (size_t i = 0; i < extras; i++)
        argv[n++] = extra[i];
    return argv;
}
