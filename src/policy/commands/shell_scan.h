/* What the two halves of the shell reader share. Private to shell_parse.c and shell_word_parse.c.
 */
#pragma once

#include "policy/commands/shell_parse.h"

#define HERES_MAX 8

struct scan {
    struct shell_script *script;
    const char *text;
    size_t len, pos;
    unsigned depth;
    uint32_t function;    /* of the commands that are read now */
    uint32_t here_string; /* <<< of the command that is read now */
    struct here {
        uint32_t command;
        uint32_t end; /* offset of its last line in script->chars */
        bool quoted, tabs;
    } heres[HERES_MAX]; /* whose text begins with the next line */
    size_t here_count;
};

void scan_unknown(struct scan *s, const char *why);
/* Keeps a word in the script; SHELL_NONE where there is no room. */
uint32_t scan_keep(struct scan *s, const struct shell_word *w);
/* One word, up to what ends it; false if there is none. */
bool scan_word(struct scan *s, struct shell_word *ret);
void scan_redirect(struct scan *s);
/* The texts of the here-documents that were announced on the line before. */
void scan_heres(struct scan *s);
/* After $(( or ((: up to and with the )). */
void scan_arithmetic(struct scan *s);
/* After $( or <(: up to and with the ). */
void scan_substitution(struct scan *s);
/* Commands that stand in a text of their own. */
void scan_text(struct scan *outer, const char *text, size_t len);
