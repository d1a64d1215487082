/* Lists, pipelines, groups, functions. Words and redirections are in shell_word_parse.c. */
#include "policy/commands/shell_parse.h"

#include "policy/commands/shell_scan.h"

#include <stdlib.h>
#include <string.h>

const char *shell_text(const struct shell_script *s, uint32_t word)
{
    return word < s->word_count ? buf_text(&s->chars) + s->words[word].at : "";
}

void shell_done(struct shell_script *s)
{
    buf_done(&s->chars);
    free(s->words);
    free(s->commands);
    free(s->redirects);
    *s = (struct shell_script){0};
}

void scan_unknown(struct scan *s, const char *why)
{
    if (!s->script->unknown)
        s->script->unknown = why;
}

/* ---- the command that is being read ---- */

struct reading {
    struct shell_word *words;
    uint32_t count, room;
    uint32_t piped_from;
    uint32_t last;          /* the command that ended last, for a pipe after a group */
    uint32_t redirect_from; /* of the script's redirects: those without a command are ours */
    bool assigned;          /* assignments were left out */
};

static bool keep_word(struct reading *r, const struct shell_word *w)
{
    if (r->count == r->room) {
        uint32_t room = r->room ? r->room * 2 : 16;
        struct shell_word *more = realloc(r->words, room * sizeof *more);
        if (!more)
            return false;
        r->words = more;
        r->room = room;
    }
    r->words[r->count++] = *w;
    return true;
}

uint32_t scan_keep(struct scan *s, const struct shell_word *w)
{
    struct shell_script *x = s->script;
    if (x->word_count >= SHELL_WORDS_MAX) {
        scan_unknown(s, "it has too many words");
        return SHELL_NONE;
    }
    if (x->word_count == x->word_room) {
        uint32_t room = x->word_room ? x->word_room * 2 : 32;
        struct shell_word *more = realloc(x->words, room * sizeof *more);
        if (!more) {
            scan_unknown(s, "there is no memory");
            return SHELL_NONE;
        }
        x->words = more;
        x->word_room = room;
    }
    x->words[x->word_count] = *w;
    return x->word_count++;
}

static struct shell_command *new_command(struct scan *s)
{
    struct shell_script *x = s->script;
    if (x->command_count >= SHELL_COMMANDS_MAX) {
        scan_unknown(s, "it has too many commands");
        return NULL;
    }
    if (x->command_count == x->command_room) {
        uint32_t room = x->command_room ? x->command_room * 2 : 16;
        struct shell_command *more = realloc(x->commands, room * sizeof *more);
        if (!more) {
            scan_unknown(s, "there is no memory");
            return NULL;
        }
        x->commands = more;
        x->command_room = room;
    }
    return &x->commands[x->command_count++];
}

/* Redirections and here-documents that were read before the command had a number. */
static void adopt(struct scan *s, uint32_t from, uint32_t command)
{
    for (uint32_t i = from; i < s->script->redirect_count; i++)
        if (s->script->redirects[i].command == SHELL_NONE)
            s->script->redirects[i].command = command;
    for (size_t i = 0; i < s->here_count; i++)
        if (s->heres[i].command == SHELL_NONE)
            s->heres[i].command = command;
}

static void finish(struct scan *s, struct reading *r)
{
    uint32_t from = r->redirect_from;
    r->redirect_from = s->script->redirect_count;
    if (r->count == 0) {
        adopt(s, from, r->last);
        r->assigned = false;
        s->here_string = SHELL_NONE;
        return;
    }
    struct shell_command c = {.first = s->script->word_count,
                              .piped_from = r->piped_from,
                              .function = s->function,
                              .here = s->here_string};
    for (uint32_t i = 0; i < r->count; i++)
        c.count += scan_keep(s, &r->words[i]) != SHELL_NONE;
    struct shell_command *kept = c.count == r->count ? new_command(s) : NULL;
    r->count = 0;
    r->assigned = false;
    r->piped_from = SHELL_NONE;
    s->here_string = SHELL_NONE;
    if (!kept)
        return;
    *kept = c;
    r->last = s->script->command_count - 1;
    adopt(s, from, r->last);
}

/* ---- words that are no words ---- */

static bool is_assignment(const char *text)
{
    size_t n = strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789");
    if (n == 0 || (text[0] >= '0' && text[0] <= '9'))
        return false;
    if (text[n] == '[') {
        const char *close = strchr(text + n, ']');
        return close && (close[1] == '=' || (close[1] == '+' && close[2] == '='));
    }
    return text[n] == '=' || (text[n] == '+' && text[n + 1] == '=');
}

static bool is_one_of(const char *text, const char *const *words, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(text, words[i]) == 0)
            return true;
    return false;
}
#define IS_ONE_OF(text, ...)                                                                       \
    is_one_of(text, (const char *const[]){__VA_ARGS__},                                            \
              sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *))

static const char *text_of(const struct scan *s, const struct shell_word *w)
{
    return buf_text(&s->script->chars) + w->at;
}

static void skip_blank(struct scan *s)
{
    while (s->pos < s->len) {
        char c = s->text[s->pos];
        if (c == '\\' && s->pos + 1 < s->len && s->text[s->pos + 1] == '\n')
            s->pos += 2;
        else if (c == ' ' || c == '\t' || c == '\r')
            s->pos++;
        else
            return;
    }
}

static void skip_lines(struct scan *s)
{
    skip_blank(s);
    while (s->pos < s->len && (s->text[s->pos] == '\n' || s->text[s->pos] == ';')) {
        s->pos++;
        skip_blank(s);
    }
}

static bool next_is(const struct scan *s, const char *word)
{
    size_t n = strlen(word);
    return s->len - s->pos >= n && memcmp(s->text + s->pos, word, n) == 0;
}

/* Words up to the end of the line or to `stop`, looked at for substitutions only. */
static void pass_words(struct scan *s, const char *stop)
{
    struct shell_word w;
    for (;;) {
        skip_blank(s);
        if (s->pos >= s->len || strchr(";\n", s->text[s->pos]))
            return;
        if (strchr("&|<>()", s->text[s->pos])) {
            s->pos++;
            continue;
        }
        if (!scan_word(s, &w) || (stop && strcmp(text_of(s, &w), stop) == 0))
            return;
    }
}

/* [[ … ]] may go over several lines. */
static void pass_test(struct scan *s)
{
    while (s->pos < s->len) {
        struct shell_word w;
        skip_blank(s);
        if (s->pos >= s->len)
            break;
        if (strchr("&|<>();\n", s->text[s->pos])) {
            s->pos++;
        } else if (!scan_word(s, &w) || strcmp(text_of(s, &w), "]]") == 0) {
            return;
        }
    }
    scan_unknown(s, "a [[ has no end");
}

enum until {
    UNTIL_END,
    UNTIL_PAREN,
    UNTIL_BRACE,
    UNTIL_CASE,
};

static void parse_list(struct scan *s, enum until until);

static void parse_case(struct scan *s)
{
    struct shell_word w;
    skip_blank(s);
    scan_word(s, &w);
    skip_lines(s);
    if (!scan_word(s, &w) || strcmp(text_of(s, &w), "in") != 0) {
        scan_unknown(s, "a case has no in");
        return;
    }
    for (;;) {
        skip_lines(s);
        if (s->pos >= s->len) {
            scan_unknown(s, "a case has no end");
            return;
        }
        if (next_is(s, "esac")) {
            s->pos += 4;
            return;
        }
        const char *close = memchr(s->text + s->pos, ')', s->len - s->pos);
        if (!close) {
            scan_unknown(s, "a case has no pattern");
            return;
        }
        s->pos = (size_t)(close - s->text) + 1;
        parse_list(s, UNTIL_CASE);
    }
}

static void parse_function(struct scan *s, const struct shell_word *name)
{
    uint32_t before = s->function;
    s->function = scan_keep(s, name);
    skip_lines(s);
    if (s->pos < s->len && (s->text[s->pos] == '{' || s->text[s->pos] == '(')) {
        enum until until = s->text[s->pos] == '{' ? UNTIL_BRACE : UNTIL_PAREN;
        s->pos++;
        parse_list(s, until);
    } else {
        scan_unknown(s, "a function has no body in braces");
    }
    s->function = before;
}

static bool parse_keyword_function(struct scan *s)
{
    struct shell_word name;
    skip_blank(s);
    if (!scan_word(s, &name))
        return false;
    skip_blank(s);
    if (next_is(s, "()"))
        s->pos += 2;
    parse_function(s, &name);
    return true;
}

/* True: the word was part of the language and is dealt with. */
static bool take_keyword(struct scan *s, const char *text)
{
    if (IS_ONE_OF(text, "if", "then", "elif", "else", "while", "until", "do", "!", "time", "coproc",
                  "fi", "done"))
        return true;
    if (strcmp(text, "{") == 0)
        parse_list(s, UNTIL_BRACE);
    else if (strcmp(text, "[[") == 0)
        pass_test(s);
    else if (IS_ONE_OF(text, "for", "select"))
        pass_words(s, "do");
    else if (strcmp(text, "case") == 0)
        parse_case(s);
    else if (strcmp(text, "function") == 0)
        return parse_keyword_function(s);
    else
        return false;
    return true;
}

/* ---- lists ---- */

static void pass_arithmetic(struct scan *s)
{
    s->pos += 2;
    scan_arithmetic(s);
}

static void parse_open(struct scan *s, struct reading *r)
{
    struct shell_word name;
    if (r->count == 0 && next_is(s, "((")) {
        pass_arithmetic(s);
        return;
    }
    s->pos++;
    if (r->count == 0) {
        parse_list(s, UNTIL_PAREN);
        r->last = s->script->command_count ? s->script->command_count - 1 : SHELL_NONE;
        return;
    }
    skip_blank(s);
    if (r->count == 1 && s->pos < s->len && s->text[s->pos] == ')') {
        s->pos++;
        name = r->words[0];
        r->count = 0;
        parse_function(s, &name);
        return;
    }
    scan_unknown(s, "a ( stands where none can be");
}

/* One of ; & | and their doubles. */
static void parse_operator(struct scan *s, struct reading *r)
{
    char c = s->text[s->pos++];
    bool twice = s->pos < s->len && s->text[s->pos] == c;
    uint32_t made = s->script->command_count;
    bool had = r->count > 0;
    finish(s, r);
    if (c == '|' && !twice) {
        r->piped_from = had && s->script->command_count == made ? SHELL_NONE : r->last;
        if (s->pos < s->len && s->text[s->pos] == '&')
            s->pos++;
        return;
    }
    if (c == '&' && !twice) {
        /* What stands before one that is marked was marked with it. */
        for (uint32_t i = r->last; i != SHELL_NONE && !s->script->commands[i].background;
             i = s->script->commands[i].piped_from)
            s->script->commands[i].background = true;
    }
    s->pos += twice;
}

static void parse_newline(struct scan *s, struct reading *r)
{
    s->pos++;
    finish(s, r);
    scan_heres(s);
}

/* True: the list ends with this word. */
static bool parse_word(struct scan *s, struct reading *r, enum until until)
{
    struct shell_word w;
    size_t start = s->pos;
    bool bare = s->text[start] != '\'' && s->text[start] != '"' && s->text[start] != '\\';
    if (!scan_word(s, &w)) {
        s->pos += s->pos == start;
        return false;
    }
    const char *text = text_of(s, &w);
    if (r->count == 0 && bare && !w.dynamic) {
        if (until == UNTIL_BRACE && strcmp(text, "}") == 0)
            return true;
        if (until == UNTIL_CASE && strcmp(text, "esac") == 0) {
            s->pos = start;
            return true;
        }
        if (!r->assigned && take_keyword(s, text)) {
            uint32_t count = s->script->command_count;
            r->last = count ? count - 1 : SHELL_NONE;
            return false;
        }
    }
    if (r->count == 0 && bare && is_assignment(text_of(s, &w))) {
        r->assigned = true;
        return false;
    }
    if (!keep_word(r, &w))
        scan_unknown(s, "there is no memory");
    return false;
}

static bool at_redirect(const struct scan *s)
{
    size_t i = s->pos;
    if (next_is(s, "<(") || next_is(s, ">("))
        return false;
    while (i < s->len && s->text[i] >= '0' && s->text[i] <= '9')
        i++;
    return (i < s->len && (s->text[i] == '<' || s->text[i] == '>')) || next_is(s, "&>");
}

/* One step; true: the list is over. */
static bool parse_step(struct scan *s, struct reading *r, enum until until)
{
    char c = s->text[s->pos];
    if (c == '#') {
        while (s->pos < s->len && s->text[s->pos] != '\n')
            s->pos++;
    } else if (c == '\n') {
        parse_newline(s, r);
    } else if (at_redirect(s)) {
        scan_redirect(s);
    } else if (c == ';' && s->pos + 1 < s->len && strchr(";&", s->text[s->pos + 1])) {
        s->pos += next_is(s, ";;&") ? 3 : 2;
        if (until == UNTIL_CASE)
            return true;
        finish(s, r);
    } else if (strchr(";&|", c)) {
        parse_operator(s, r);
    } else if (c == '(') {
        parse_open(s, r);
    } else if (c == ')') {
        s->pos++;
        if (until == UNTIL_PAREN)
            return true;
        scan_unknown(s, "a ) has no (");
    } else {
        return parse_word(s, r, until);
    }
    return false;
}

static void parse_list(struct scan *s, enum until until)
{
    struct reading r = {
        .piped_from = SHELL_NONE, .last = SHELL_NONE, .redirect_from = s->script->redirect_count};
    uint32_t here_string = s->here_string;
    bool over = false;
    s->here_string = SHELL_NONE;
    if (++s->depth > SHELL_DEPTH_MAX) {
        scan_unknown(s, "it is nested too deeply");
        s->pos = s->len;
    }
    while (!over) {
        skip_blank(s);
        if (s->pos >= s->len)
            break;
        over = parse_step(s, &r, until);
    }
    finish(s, &r);
    if (!over && until != UNTIL_END)
        scan_unknown(s, "a group has no end");
    s->depth--;
    s->here_string = here_string;
    free(r.words);
}

void scan_substitution(struct scan *s)
{
    uint32_t function = s->function;
    parse_list(s, UNTIL_PAREN);
    s->function = function;
}

void scan_text(struct scan *outer, const char *text, size_t len)
{
    struct scan s = {.script = outer->script,
                     .text = text,
                     .len = len,
                     .depth = outer->depth,
                     .function = outer->function,
                     .here_string = SHELL_NONE};
    parse_list(&s, UNTIL_END);
    scan_heres(&s);
}

void shell_parse(const char *text, size_t len, struct shell_script *ret)
{
    *ret = (struct shell_script){0};
    buf_init(&ret->chars, 4 * SHELL_TEXT_MAX);
    struct scan s = {.script = ret, .function = SHELL_NONE, .here_string = SHELL_NONE};
    if (len > SHELL_TEXT_MAX || memchr(text, '\0', len))
        scan_unknown(&s, len > SHELL_TEXT_MAX ? "it is too long" : "it holds a NUL");
    else
        scan_text(&s, text, len);
    if (ret->chars.failed)
        scan_unknown(&s, "it is too long");
}
