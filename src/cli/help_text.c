/* Help texts, from the same tables that the parser reads: what is not in the table does not exist,
 * and what is in it is explained. */
#include "base/buf.h"
#include "base/cleanup.h"
#include "cli/term.h"
#include "cli/verb.h"

#include <stdio.h>
#include <string.h>

#define HELP_WIDTH  80
#define HELP_COLUMN 26

static void heading(struct buf *out, const char *text, bool colour)
{
    buf_fmt(out, colour ? "\n\033[1m%s:\033[0m\n" : "\n%s:\n", text);
}

/* Columns, not bytes. */
static size_t width(const char *text, size_t len)
{
    size_t n = 0;
    for (size_t i = 0; i < len; i++)
        n += ((unsigned char)text[i] & 0xc0) != 0x80;
    return n;
}

static void spaces(struct buf *out, size_t n)
{
    while (n-- > 0)
        buf_chr(out, ' ');
}

/* Words filled into the right-hand column, whose first line has begun at column `at`. */
static void wrap(struct buf *out, const char *text, size_t at)
{
    if (at + 2 > HELP_COLUMN) {
        buf_chr(out, '\n');
        at = 0;
    }
    spaces(out, HELP_COLUMN - at);
    at = HELP_COLUMN;
    while (*text) {
        size_t len = strcspn(text, " ");
        size_t columns = width(text, len);
        if (at > HELP_COLUMN && at + 1 + columns > HELP_WIDTH - 1) {
            buf_chr(out, '\n');
            spaces(out, HELP_COLUMN);
            at = HELP_COLUMN;
        }
        if (at > HELP_COLUMN) {
            buf_chr(out, ' ');
            at++;
        }
        buf_add(out, text, len);
        at += columns;
        text += len;
        text += strspn(text, " ");
    }
    buf_chr(out, '\n');
}

void help_entry(struct buf *out, const char *left, const char *right)
{
    buf_str(out, left);
    wrap(out, right, width(left, strlen(left)));
}

static void option_entry(struct buf *out, const struct opt *o)
{
    cleanup_buf struct buf left;
    buf_init(&left, 200);
    if (o->brief)
        buf_fmt(&left, "  -%c, --%s", o->brief, o->name);
    else
        buf_fmt(&left, "      --%s", o->name);
    if (o->kind == OPT_MAYBE)
        buf_fmt(&left, "[=%s]", o->value);
    else if (o->value)
        buf_fmt(&left, " %s", o->value);
    help_entry(out, buf_text(&left), o->help);
}

/* Tables keep the options of one group together. */
static void options(struct buf *out, const struct opt_table *table, bool colour)
{
    const char *group = "";
    const struct opt *o;
    for (size_t i = 0; (o = options_at(table, i)); i++) {
        if (strcmp(o->group, group) != 0)
            heading(out, o->group, colour);
        group = o->group;
        option_entry(out, o);
    }
}

static void indented(struct buf *out, const char *lines, const char *prefix)
{
    while (*lines) {
        size_t len = strcspn(lines, "\n");
        buf_fmt(out, "  %s%.*s\n", prefix, (int)len, lines);
        lines += len;
        lines += *lines == '\n';
    }
}

/* What belongs together for somebody who looks for a command. One that is in no group comes last.
 */
static const struct {
    const char *heading;
    const char *words;
} groups[] = {
    {"Run code", " run init diff apply discard approvals approve deny receipt "},
    {"For agents and models", " serve mcp "},
    {"Sandboxes of `brig serve`",
     " ps create exec cp logs kill rm pause resume stats pool audit keys "},
    {"Rules, network, secrets", " policy net proxy secrets "},
    {"This machine", " doctor verify "},
    {"More", NULL},
};

static bool in_group(size_t group, const char *word)
{
    char spaced[40];
    snprintf(spaced, sizeof spaced, " %s ", word);
    if (groups[group].words)
        return strstr(groups[group].words, spaced);
    for (size_t i = 0; i < group; i++) {
        if (in_group(i, word))
            return false;
    }
    return true;
}

static void child(struct buf *out, const struct verb *verb)
{
    char left[64] = "  ";
    strncat(left, verb_word(verb), sizeof left - 3);
    help_entry(out, left, verb->summary);
}

static void children(struct buf *out, const struct verb *verb, bool colour)
{
    if (verb->name[0]) {
        heading(out, "Commands", colour);
        for (size_t i = 0; verb->children[i]; i++)
            child(out, verb->children[i]);
        return;
    }
    for (size_t g = 0; g < ARRAY_LEN(groups); g++) {
        heading(out, groups[g].heading, colour);
        for (size_t i = 0; verb->children[i]; i++) {
            if (in_group(g, verb_word(verb->children[i])))
                child(out, verb->children[i]);
        }
    }
}

static void help_text(struct buf *out, const struct verb *verb, bool colour)
{
    buf_fmt(out, "brig%s%s: %s\n", verb->name[0] ? " " : "", verb->name, verb->summary);
    heading(out, "Usage", colour);
    indented(out, verb->usage, "brig ");
    if (verb->about)
        buf_fmt(out, "\n%s\n", verb->about);
    if (verb->examples) {
        heading(out, "Examples", colour);
        indented(out, verb->examples, "");
    }
    if (verb->children)
        children(out, verb, colour);
    if (verb->options)
        options(out, verb->options, colour);
    if (verb->statuses) {
        heading(out, "Exit status", colour);
        indented(out, verb->statuses, "");
    }
}

void help_print(const struct verb *verb, int fd)
{
    cleanup_buf struct buf out;
    buf_init(&out, HELP_MAX);
    help_text(&out, verb, term_colour(fd));
    (void)term_write(fd, buf_text(&out), out.len);
}
