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
#define HELP_MAX    65536

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

static void entry(struct buf *out, const char *left, const char *right)
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
    entry(out, buf_text(&left), o->help);
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
    entry(out, left, verb->summary);
}

static void children(struct buf *out, const struct verb *verb, bool colour)
{
    if (verb != &verb_root) {
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

/* ---- by keyword ---- */

struct search {
    char *const *words;
    int count;
    struct buf out;
    const struct opt *seen[256]; /* verbs share options: each is shown once, where it comes first */
    size_t seen_count;
    unsigned hits;
};

static bool has_all(const struct search *s, const char *const *texts, size_t count)
{
    for (int i = 0; i < s->count; i++) {
        bool found = false;
        for (size_t k = 0; k < count && !found; k++)
            found = texts[k] && strcasestr(texts[k], s->words[i]);
        if (!found)
            return false;
    }
    return true;
}

static bool is_seen(struct search *s, const struct opt *o)
{
    for (size_t i = 0; i < s->seen_count; i++) {
        if (s->seen[i] == o)
            return true;
    }
    if (s->seen_count < ARRAY_LEN(s->seen))
        s->seen[s->seen_count++] = o;
    return false;
}

static void search_options(struct search *s, const struct verb *verb)
{
    const struct opt *o;
    for (size_t i = 0; (o = options_at(verb->options, i)); i++) {
        if (o->id == OPT_HELP || is_seen(s, o) ||
            !has_all(s, (const char *[]){o->name, o->value, o->help}, 3))
            continue;
        char left[128];
        snprintf(left, sizeof left, "  brig %s --%s", verb->name, o->name);
        entry(&s->out, left, o->help);
        s->hits++;
    }
}

static void search_verb(struct search *s, const struct verb *verb)
{
    const char *const texts[] = {verb->name, verb->summary, verb->about, verb->examples};
    if (verb->name[0] && has_all(s, texts, ARRAY_LEN(texts))) {
        char left[128];
        snprintf(left, sizeof left, "  brig %s", verb->name);
        entry(&s->out, left, verb->summary);
        s->hits++;
    }
    if (verb->options)
        search_options(s, verb);
    for (size_t i = 0; verb->children && verb->children[i]; i++)
        search_verb(s, verb->children[i]);
}

/* How many commands and options have all these words in what is said about them. */
static unsigned help_search(int count, char *const words[])
{
    struct search s = {.words = words, .count = count};
    buf_init(&s.out, HELP_MAX);
    search_verb(&s, &verb_root);
    if (s.hits)
        (void)term_write(STDOUT_FILENO, buf_text(&s.out), s.out.len);
    buf_done(&s.out);
    return s.hits;
}

static int help_operand(void *ctx, const struct opt *opt, const char *value, struct err *err)
{
    return opt ? err_set(err, ERR_INTERNAL, "option --%s is not handled", opt->name) : OPTIONS_STOP;
}

static int help_main(const struct verb *verb, int argc, char *const argv[])
{
    struct err err = ERR_INIT;
    int rest = 0;
    int r = verb_parse(verb, argc, argv, help_operand, NULL, &rest, &err);
    if (r < 0)
        return verb_fail(verb, &err, false);
    if (r > 0)
        return 0;
    const struct verb *about = &verb_root;
    for (int i = rest; i < argc; i++) {
        const struct verb *child = verb_child(about, argv[i]);
        if (!child && help_search(argc - rest, argv + rest))
            return 0;
        if (!child) {
            err_set(&err, ERR_USAGE, "no command or option has '%.60s' in its description",
                    argv[i]);
            err_hint(&err, "brig --help lists the commands; brig help run its options");
            return verb_fail(verb, &err, false);
        }
        about = child;
    }
    help_print(about, STDOUT_FILENO);
    return 0;
}

const struct verb verb_help = {
    .name = "help",
    .summary = "explain a command, or find one by a word",
    .usage = "help [COMMAND]\nhelp WORD…",
    .about = "What is no command is looked for in what is said about all commands and options.",
    .examples = "brig help run\n"
                "brig help memory\n"
                "brig help read folder",
    .options = &common_options,
    .main = help_main,
};
