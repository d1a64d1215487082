/* A piece of shell, taken apart into the commands that it would start: enough of the language of sh
 * and bash to look at what people and agents write. Nothing is expanded or run. What cannot be
 * understood is said (`unknown`), never guessed. Pure. */
#pragma once

#include "base/buf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SHELL_TEXT_MAX     (256u * 1024)
#define SHELL_COMMANDS_MAX 1024u
#define SHELL_WORDS_MAX    16384u
#define SHELL_DEPTH_MAX    24u

struct shell_word {
    uint32_t at;  /* into script.chars; quotes are gone, expansions stand as they were written */
    bool dynamic; /* holds an expansion: what it will be is not known */
    bool glob;    /* holds an unquoted *, ? or [ */
    uint32_t subs_from; /* the commands of the substitutions in it: [from, to) */
    uint32_t subs_to;
    uint32_t calls; /* script_look_through: as the name of a function, by itself */
};

#define SHELL_NONE UINT32_MAX

struct shell_command {
    uint32_t first, count; /* words; assignments in front are left out */
    uint32_t piped_from;   /* the command whose output it reads, or SHELL_NONE */
    uint32_t function;     /* the word that names the function it stands in, or SHELL_NONE */
    uint32_t here;         /* the word that is its input (<<, <<<), or SHELL_NONE */
    bool background;
    bool fetched; /* script_look_through: what it reads may come from elsewhere */
};

struct shell_redirect {
    uint32_t command; /* SHELL_NONE: of a group, or of nothing */
    uint32_t word;
    bool writes;
};

struct shell_script {
    struct buf chars;
    struct shell_word *words;
    uint32_t word_count, word_room;
    struct shell_command *commands; /* inner ones before the one that they stand in */
    uint32_t command_count, command_room;
    struct shell_redirect *redirects;
    uint32_t redirect_count, redirect_room;
    const char *unknown; /* why not all of it was understood, or NULL */
};

/* Always leaves a script that can be looked at; call shell_done. */
void shell_parse(const char *text, size_t len, struct shell_script *ret);
void shell_done(struct shell_script *s);
const char *shell_text(const struct shell_script *s, uint32_t word);
