/* Options and verbs of container engines that brig calls otherwise. Somebody who types one of them
 * has made no typing mistake: the option of brig's that does the same is named, not the one with
 * the nearest spelling. */
#include "cli/foreign.h"

#include "base/cleanup.h"

#include <stdbool.h>
#include <string.h>

#define ONE_USER                                                                                   \
    "who is inside is the template's to say: one user, or root too where its policy has kernel: "  \
    "{root: true}, or root alone with kernel: {uid: 0}; brig exec --user says which: "             \
    "docs/serve.md"

/* The first row counts whose option the verb has. */
static const struct {
    const char *words, *option, *hint;
} rows[] = {
    {" user u ", "uid", "a sandbox has one user: --uid N says which, --uid 0 is root in name"},
    {" user u ", "cwd", ONE_USER},
    {" user u ", "template", ONE_USER},
    {" volume mount bind ", "rw", "folders are granted by --ro DIR:PLACE or --rw DIR:PLACE"},
    {" network net share-net ", "allow",
     "nothing is open but what --allow HOST or --allow @PRESET names: brig policy presets"},
    {" interactive i it ", "tty", "its input is connected anyway; -t gives it a terminal"},
    {" workdir w chdir ", "cwd", "the folder to start in is --cwd DIR"},
    {" command c ", "lang", "code: brig run --lang python FILE, or from stdin; a shell: sh -c"},
    {" rm ", "uid", "leave it out: nothing of a sandbox stays behind"},
    {" publish p ", "uid", "ports inside are reached through brig serve: docs/serve.md"},
    {" privileged cap-add ", "uid", "no option gives more rights: brig policy explain says why"},
    {" detach d ", "uid", "what goes on without you is a sandbox of brig serve: brig create"},
};

static bool has(const struct opt_table *table, const char *name)
{
    const struct opt *o;
    for (size_t i = 0; (o = options_at(table, i)); i++)
        if (strcmp(o->name, name) == 0)
            return true;
    return false;
}

static bool is_one_of(const char *words, const char *word)
{
    size_t len = strlen(word);
    for (const char *at = words; (at = strchr(at, ' ')) && *++at;)
        if (strncmp(at, word, len) == 0 && at[len] == ' ')
            return true;
    return false;
}

const char *foreign_hint(const struct opt_table *table, const char *word)
{
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (is_one_of(rows[i].words, word) && has(table, rows[i].option))
            return rows[i].hint;
    return NULL;
}
