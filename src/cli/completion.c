/* brig completion: completion scripts for shells, from the tables that the parser reads. */
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/text.h"
#include "cli/term.h"
#include "cli/verb.h"

#include <string.h>

#define SCRIPT_MAX 262144

typedef void (*verb_fn)(struct buf *out, const struct verb *verb);

/* Calls fn for every verb that takes options. */
static void each_leaf(struct buf *out, const struct verb *verb, verb_fn fn)
{
    if (!verb->children)
        fn(out, verb);
    for (size_t i = 0; verb->children && verb->children[i]; i++)
        each_leaf(out, verb->children[i], fn);
}

static void each_parent(struct buf *out, const struct verb *verb, verb_fn fn)
{
    if (!verb->children)
        return;
    fn(out, verb);
    for (size_t i = 0; verb->children[i]; i++)
        each_parent(out, verb->children[i], fn);
}

/* Summaries go between single quotes. */
static void quoted(struct buf *out, const char *text)
{
    buf_chr(out, '\'');
    for (; *text; text++) {
        if (*text == '\'')
            buf_str(out, "'\\''");
        else
            buf_chr(out, *text);
    }
    buf_chr(out, '\'');
}

static void child_words(struct buf *out, const struct verb *verb)
{
    for (size_t i = 0; verb->children[i]; i++)
        buf_fmt(out, "%s%s", i ? " " : "", verb_word(verb->children[i]));
}

/* The i-th option of a verb and of its other form, each once; NULL past the last. */
static const struct opt *option_at(const struct verb *verb, size_t i)
{
    const struct opt *o;
    size_t own = 0;
    while (options_at(verb->options, own))
        own++;
    if (i < own || !verb->form)
        return options_at(verb->options, i);
    for (size_t k = 0; (o = options_at(verb->form->options, k)); k++) {
        bool twice = false;
        for (size_t n = 0; n < own; n++)
            twice |= strcmp(options_at(verb->options, n)->name, o->name) == 0;
        if (!twice && i-- == own)
            return o;
    }
    return NULL;
}

/* What may stand as an operand: help explains every verb. */
static void operand_words(struct buf *out, const struct verb *verb)
{
    if (verb == &verb_help)
        child_words(out, &verb_root);
    else if (verb->operands)
        buf_str(out, verb->operands);
}

/* The verbs right below the root that have verbs below them. */
static void parent_words(struct buf *out, const char *separator)
{
    bool any = false;
    for (size_t i = 0; verb_root.children[i]; i++) {
        const struct verb *v = verb_root.children[i];
        if (!v->children)
            continue;
        buf_fmt(out, "%s%s", any ? separator : "", v->name);
        any = true;
    }
}

static void running_words(struct buf *out)
{
    for (size_t i = 0; verb_root.children[i]; i++) {
        if (verb_root.children[i]->runs)
            buf_fmt(out, " %s", verb_root.children[i]->name);
    }
}

static bool takes_folder(const struct opt *o)
{
    return o->value && text_begins(o->value, "DIR");
}

static bool takes_file(const struct opt *o)
{
    return o->value && strcmp(o->value, "FILE") == 0;
}

/* ---- bash ---- */

static void bash_parent(struct buf *out, const struct verb *verb)
{
    buf_fmt(out, "    '%s') words='", verb->name);
    child_words(out, verb);
    buf_fmt(out, "%s' ;;\n", verb->name[0] ? "" : " --help --version");
}

static void bash_leaf(struct buf *out, const struct verb *verb)
{
    const struct opt *o;
    buf_fmt(out, "    '%s') words='", verb->name);
    operand_words(out, verb);
    for (size_t i = 0; (o = option_at(verb, i)); i++) {
        if (o->brief)
            buf_fmt(out, " -%c", o->brief);
        buf_fmt(out, " --%s", o->name);
    }
    buf_str(out, "' ;;\n");
}

static void bash_values(struct buf *out, const struct verb *verb)
{
    const struct opt *o;
    for (size_t i = 0; (o = option_at(verb, i)); i++) {
        if (o->kind == OPT_FLAG || o->kind == OPT_MAYBE)
            continue;
        buf_fmt(out, "    '%s --%s'", verb->name, o->name);
        if (o->brief)
            buf_fmt(out, "|'%s -%c'", verb->name, o->brief);
        if (o->words)
            buf_fmt(out, ") kind=words words='%s' ;;\n", o->words);
        else
            buf_fmt(out, ") kind=%s ;;\n",
                    takes_folder(o) ? "folder"
                    : takes_file(o) ? "file"
                                    : "none");
    }
}

static const char bash_head[] = "_brig_words() {\n"
                                "    case \"$1\" in\n";

static const char bash_middle[] = "    esac\n"
                                  "}\n"
                                  "# Sets kind and words if $1, \"verb option\", takes a value.\n"
                                  "_brig_value() {\n"
                                  "    kind=\n"
                                  "    case \"$1\" in\n";

static const char bash_tail[] =
    "    esac\n"
    "}\n"
    "# One reply per line: names may hold spaces.\n"
    "_brig_reply() {\n"
    "    mapfile -t COMPREPLY < <(compgen \"$@\")\n"
    "}\n"
    "_brig() {\n"
    "    local cur=${COMP_WORDS[COMP_CWORD]} verb= words= kind= operand= skip= i w\n"
    "    # Bash splits --name=value into three words.\n"
    "    local prev=${COMP_WORDS[COMP_CWORD-1]}\n"
    "    if [[ $cur == = ]]; then cur=; elif [[ $prev == = ]]; then "
    "prev=${COMP_WORDS[COMP_CWORD-2]}; fi\n"
    "    for ((i = 1; i < COMP_CWORD; i++)); do\n"
    "        w=${COMP_WORDS[i]}\n"
    "        if [[ -n $skip ]]; then skip=; [[ $w == = ]] && skip=1; continue; fi\n"
    "        if [[ $w == -- ]]; then operand=1; break; fi\n"
    "        if [[ $w == -* ]]; then\n"
    "            _brig_value \"$verb $w\"; [[ -n $kind ]] && skip=1; words=; continue\n"
    "        fi\n"
    "        words=; _brig_words \"$verb\"\n"
    "        if [[ \" $words \" == *\" $w \"* && -z $operand ]]; then\n"
    "            verb=${verb:+$verb }$w\n"
    "        else\n"
    "            operand=1; [[ $_brig_runs == *\" $verb \"* ]] && break\n"
    "        fi\n"
    "    done\n"
    "    COMPREPLY=()\n"
    "    if [[ $_brig_runs == *\" $verb \"* && -n $operand ]]; then\n"
    "        if [[ $prev == -- ]]; then _brig_reply -c -- \"$cur\"; else _brig_reply -f -- "
    "\"$cur\"; fi\n"
    "        return\n"
    "    fi\n"
    "    words=; _brig_value \"$verb $prev\"\n"
    "    case $kind in\n"
    "    words) _brig_reply -W \"$words\" -- \"$cur\"; return ;;\n"
    "    folder) _brig_reply -d -- \"$cur\"; return ;;\n"
    "    file) _brig_reply -f -- \"$cur\"; return ;;\n"
    "    none) return ;;\n"
    "    esac\n"
    "    words=; _brig_words \"$verb\"\n"
    "    _brig_reply -W \"$words\" -- \"$cur\"\n"
    "    if [[ $cur != -* && $_brig_runs == *\" $verb \"* ]]; then _brig_reply -c -- \"$cur\"; fi\n"
    "    if [[ $cur != -* && $verb == 'policy check' ]]; then _brig_reply -f -- "
    "\"$cur\"; fi\n"
    "}\n"
    "complete -o filenames -F _brig brig\n";

static void bash_script(struct buf *out)
{
    buf_str(out, "# bash completion for brig: source <(brig completion bash)\n_brig_runs='");
    running_words(out);
    buf_str(out, " '\n");
    buf_str(out, bash_head);
    each_parent(out, &verb_root, bash_parent);
    each_leaf(out, &verb_root, bash_leaf);
    buf_str(out, bash_middle);
    each_leaf(out, &verb_root, bash_values);
    buf_str(out, bash_tail);
}

/* ---- zsh ---- */

/* Inside '…' of _arguments a description also ends at ']' and a message at ':'. */
static void zsh_text(struct buf *out, const char *text)
{
    for (; *text; text++) {
        if (*text == '\'')
            buf_str(out, "'\\''");
        else if (strchr("[]:\\", *text))
            buf_fmt(out, "\\%c", *text);
        else
            buf_chr(out, *text);
    }
}

static void zsh_option(struct buf *out, const struct opt *o, const char *dashes, const char *name)
{
    buf_fmt(out, "        '%s%s%s%s[", o->kind == OPT_LIST ? "*" : "", dashes, name,
            o->kind == OPT_FLAG    ? ""
            : o->kind == OPT_MAYBE ? "=-"
            : dashes[1]            ? "="
                                   : "+");
    zsh_text(out, o->help);
    buf_chr(out, ']');
    if (o->value) {
        buf_str(out, o->kind == OPT_MAYBE ? "::" : ":");
        zsh_text(out, o->value);
    }
    if (o->words)
        buf_fmt(out, ":(%s)", o->words);
    else if (o->value)
        buf_str(out, takes_folder(o) ? ":_files -/" : takes_file(o) ? ":_files" : ":");
    buf_str(out, "' \\\n");
}

static void zsh_leaf(struct buf *out, const struct verb *verb)
{
    const struct opt *o;
    buf_fmt(out, "    '%s') _arguments -S \\\n", verb->name);
    for (size_t i = 0; (o = option_at(verb, i)); i++) {
        char brief[2] = {o->brief, '\0'};
        zsh_option(out, o, "--", o->name);
        if (o->brief)
            zsh_option(out, o, "-", brief);
    }
    if (verb->runs)
        buf_str(out, "        '1:command:_command_names -e' '*::argument:_normal' ;;\n");
    else if (verb->operands || verb == &verb_help) {
        buf_str(out, "        '*:word:(");
        operand_words(out, verb);
        buf_str(out, ")' ;;\n");
    } else
        buf_str(out, "        '*:file:_files' ;;\n");
}

static void zsh_parent(struct buf *out, const struct verb *verb)
{
    buf_fmt(out, "    '%s') _values command", verb->name);
    for (size_t i = 0; verb->children[i]; i++) {
        buf_fmt(out, " '%s[", verb_word(verb->children[i]));
        zsh_text(out, verb->children[i]->summary);
        buf_str(out, "]'");
    }
    buf_str(out, " ;;\n");
}

static void zsh_script(struct buf *out)
{
    buf_str(out, "#compdef brig\n"
                 "# zsh completion for brig: brig completion zsh > \"${fpath[1]}/_brig\"\n"
                 "_brig() {\n"
                 "    local verb=\n"
                 "    if (( CURRENT > 2 )); then\n"
                 "        verb=$words[2]; shift words; (( CURRENT-- ))\n"
                 "        if [[ $verb == (");
    parent_words(out, "|");
    buf_str(out, ") ]] && (( CURRENT > 2 )); then\n"
                 "            verb=\"$verb $words[2]\"; shift words; (( CURRENT-- ))\n"
                 "        fi\n"
                 "    fi\n"
                 "    case $verb in\n");
    each_parent(out, &verb_root, zsh_parent);
    each_leaf(out, &verb_root, zsh_leaf);
    buf_str(out,
            "    esac\n"
            "}\n"
            "if [[ $funcstack[1] == _brig ]]; then _brig \"$@\"; else compdef _brig brig; fi\n");
}

/* ---- fish ---- */

static void fish_parent(struct buf *out, const struct verb *verb)
{
    for (size_t i = 0; verb->children[i]; i++) {
        buf_fmt(out, "complete -c brig -f -n '__brig_at \"%s\"' -a %s -d ", verb->name,
                verb_word(verb->children[i]));
        quoted(out, verb->children[i]->summary);
        buf_chr(out, '\n');
    }
}

static void fish_leaf(struct buf *out, const struct verb *verb)
{
    const struct opt *o;
    for (size_t i = 0; (o = option_at(verb, i)); i++) {
        buf_fmt(out, "complete -c brig -n '__brig_at \"%s\"' -l %s", verb->name, o->name);
        if (o->brief)
            buf_fmt(out, " -s %c", o->brief);
        if (o->words)
            buf_fmt(out, " -x -a '%s'", o->words);
        else if (o->value && o->kind != OPT_MAYBE)
            buf_str(out, takes_file(o)     ? " -r -F"
                         : takes_folder(o) ? " -x -a '(__fish_complete_directories)'"
                                           : " -x");
        buf_str(out, " -d ");
        quoted(out, o->help);
        buf_chr(out, '\n');
    }
    if (verb->operands || verb == &verb_help) {
        buf_fmt(out, "complete -c brig -f -n '__brig_at \"%s\"' -a '", verb->name);
        operand_words(out, verb);
        buf_str(out, "'\n");
    }
}

static void fish_script(struct buf *out)
{
    buf_str(out, "# fish completion for brig: brig completion fish | source\n"
                 "function __brig_at\n"
                 "    set -l words (commandline -opc)[2..-1]\n"
                 "    set -l n (count $words)\n"
                 "    if test \"$argv[1]\" = ''\n"
                 "        test $n -eq 0\n"
                 "        return\n"
                 "    end\n"
                 "    if contains -- \"$argv[1]\" ");
    parent_words(out, " ");
    buf_str(out, "\n"
                 "        test \"$words\" = \"$argv[1]\"\n"
                 "        return\n"
                 "    end\n"
                 "    set -l k (count (string split ' ' -- $argv[1]))\n"
                 "    test $n -ge $k; and test \"$words[1..$k]\" = \"$argv[1]\"\n"
                 "end\n");
    each_parent(out, &verb_root, fish_parent);
    each_leaf(out, &verb_root, fish_leaf);
}

/* ---- the verb ---- */

static const struct {
    const char *name;
    void (*script)(struct buf *out);
} shells[] = {{"bash", bash_script}, {"zsh", zsh_script}, {"fish", fish_script}};

static int take(void *ctx, const struct opt *opt, const char *value, struct err *err)
{
    const char **shell = ctx;
    if (*shell)
        return err_set(err, ERR_USAGE, "one shell at a time: '%.60s' is one too many", value);
    *shell = value;
    return 0;
}

static int print_script(const char *shell, struct err *err)
{
    cleanup_buf struct buf out;
    buf_init(&out, SCRIPT_MAX);
    for (size_t i = 0; i < ARRAY_LEN(shells); i++) {
        if (strcmp(shells[i].name, shell) == 0)
            shells[i].script(&out);
    }
    if (out.len == 0)
        return err_set(err, ERR_USAGE, "no completion for '%.60s': expected bash, zsh or fish",
                       shell);
    if (out.failed)
        return err_set(err, ERR_INTERNAL, "completion script too long");
    if (term_write(STDOUT_FILENO, buf_text(&out), out.len) < 0)
        return err_sys(err, "write the script");
    return 0;
}

static int completion_main(const struct verb *verb, int argc, char *const argv[])
{
    struct err err = ERR_INIT;
    const char *shell = NULL;
    int r = verb_parse_all(verb, argc, argv, take, &shell, &err);
    if (r > 0)
        return 0;
    if (r >= 0 && !shell)
        r = err_set(&err, ERR_USAGE, "which shell? expected bash, zsh or fish");
    if (r >= 0)
        r = print_script(shell, &err);
    return r < 0 ? verb_fail(verb, &err, false) : 0;
}

const struct verb verb_completion = {
    .name = "completion",
    .summary = "print a completion script for a shell",
    .usage = "completion bash | zsh | fish",
    .examples = "# for this shell only\n"
                "source <(brig completion bash)\n"
                "# for good\n"
                "brig completion bash > ~/.local/share/bash-completion/completions/brig\n"
                "brig completion fish > ~/.config/fish/completions/brig.fish",
    .options = &common_options,
    .operands = "bash zsh fish",
    .main = completion_main,
};
