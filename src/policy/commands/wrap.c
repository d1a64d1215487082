/* Programs that start other programs: where the other one's words begin. */
#include "base/cleanup.h"
#include "policy/commands/internal.h"

#include <string.h>

struct wrapper {
    const char *name;
    const char *valued;   /* letters of options that take the next word */
    unsigned operands;    /* words of its own before the command */
    const char *not_with; /* letters with which it starts nothing */
};

static const struct wrapper wrappers[] = {
    {"sudo", "ugpChTRDrt", 0, "lvVKk"},
    {"doas", "uC", 0, "L"},
    {"env", "uC", 0, "S"},
    {"nohup", "", 0, ""},
    {"setsid", "", 0, ""},
    {"command", "", 0, "vV"},
    {"builtin", "", 0, ""},
    {"exec", "a", 0, ""},
    {"nice", "n", 0, ""},
    {"ionice", "cn", 0, "p"},
    {"chrt", "TPD", 1, "pm"},
    {"taskset", "", 1, "p"},
    {"timeout", "ks", 1, ""},
    {"stdbuf", "ioe", 0, ""},
    {"time", "fo", 0, ""},
    {"strace", "eoapsSuEIP", 0, ""},
    {"xargs", "adEIiLlnPs", 0, ""},
    {"busybox", "", 0, ""},
    {"toybox", "", 0, ""},
    {"chroot", "", 1, ""},
    {"flock", "wE", 1, "u"},
    {"watch", "nq", 0, ""},
    {"unshare", "SGRw", 0, ""},
    {"gosu", "", 1, ""},
    {"setpriv", "", 0, ""},
    {"caffeinate", "tw", 0, ""},
    {"parallel", "jN", 0, ""},
};

static const struct wrapper *find_wrapper(const char *program)
{
    for (size_t i = 0; i < ARRAY_LEN(wrappers); i++)
        if (strcmp(wrappers[i].name, program) == 0)
            return &wrappers[i];
    return NULL;
}

static bool is_assignment(const char *word)
{
    const char *equals = strchr(word, '=');
    return equals && equals != word && !memchr(word, '/', (size_t)(equals - word));
}

/* Past one option; 0: with it nothing is started. */
static size_t pass_option(const struct wrapper *w, const char *word, size_t i)
{
    if (word[1] == '-')
        return i + 1;
    for (const char *c = word + 1; *c; c++) {
        if (strchr(w->not_with, *c))
            return 0;
        if (strchr(w->valued, *c))
            return c[1] ? i + 1 : i + 2;
    }
    return i + 1;
}

size_t command_wrapped(const struct command_line *l)
{
    const struct wrapper *w = l->argc ? find_wrapper(command_program(l->argv[0])) : NULL;
    unsigned operands = w ? w->operands : 0;
    size_t i = 1;
    while (w && i < l->argc) {
        const char *word = l->argv[i];
        if (strcmp(word, "--") == 0) {
            i++;
            break;
        }
        if (word[0] == '-' && word[1]) {
            i = pass_option(w, word, i);
            if (i == 0)
                return 0;
        } else if (is_assignment(word) && WORD_IS(w->name, "env", "sudo", "doas")) {
            i++;
        } else if (operands > 0) {
            operands--;
            i++;
        } else {
            break;
        }
    }
    return w && i < l->argc ? i : 0;
}

bool command_is_shell(const char *program)
{
    return WORD_IS(program, "sh", "bash", "dash", "zsh", "ksh", "ash", "mksh", "fish", "rbash");
}

/* Options of shells come before the text: -c, -lc, -xec, -o pipefail -c. */
static size_t shell_text_word(const struct command_line *l)
{
    bool wanted = false;
    for (size_t i = 1; i < l->argc; i++) {
        const char *w = l->argv[i];
        if (strcmp(w, "--") == 0)
            continue;
        if ((w[0] != '-' && w[0] != '+') || !w[1])
            return wanted ? i : 0;
        if (w[0] == '-' && w[1] != '-' && strchr(w + 1, 'c'))
            wanted = true;
        bool cluster = w[1] != '-' && strchr("oO", w[strlen(w) - 1]);
        if (cluster || WORD_IS(w, "--rcfile", "--init-file"))
            i++;
    }
    return 0;
}

size_t command_script_word(const struct command_line *l)
{
    const char *program = l->argc ? command_program(l->argv[0]) : "";
    if (command_is_shell(program))
        return shell_text_word(l);
    if (WORD_IS(program, "su", "script", "runuser"))
        for (size_t i = 1; i + 1 < l->argc; i++)
            if (WORD_IS(l->argv[i], "-c", "--command", "-lc"))
                return i + 1;
    return 0;
}
