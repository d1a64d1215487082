/* Patterns: reading them, keeping them in order, matching. */
#include "policy/commands/commands.h"

#include "base/cleanup.h"
#include "base/quote.h"
#include "policy/commands/internal.h"

#include <stdlib.h>
#include <string.h>

static const char *const rule_names[] = {"allow", "ask", "deny"};

const char *command_rule_name(enum command_rule rule)
{
    return (size_t)rule < ARRAY_LEN(rule_names) ? rule_names[rule] : "deny";
}

int command_rule_parse(const char *text, enum command_rule *ret)
{
    for (size_t i = 0; i < ARRAY_LEN(rule_names); i++) {
        if (strcmp(text, rule_names[i]) == 0) {
            *ret = (enum command_rule)i;
            return 0;
        }
    }
    return -(int)ERR_USAGE;
}

static void pattern_done(struct command_pattern *p)
{
    list_done(&p->words);
    free(p->text);
    *p = (struct command_pattern){0};
}

void commands_done(struct commands *c)
{
    for (size_t i = 0; i < c->count; i++)
        pattern_done(&c->patterns[i]);
    free(c->patterns);
    *c = (struct commands){0};
}

/* ---- reading ---- */

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

/* One word; quotes keep blanks together, a backslash keeps the next character as it is. Escapes
 * of * and ? stay for the matcher. Returns how many bytes it took, 0 where a quote has no end. */
static size_t read_word(const char *text, struct buf *out)
{
    size_t i = 0;
    char quote = 0;
    for (; text[i] && (quote || !is_blank(text[i])); i++) {
        char c = text[i];
        if (quote && c == quote) {
            quote = 0;
        } else if (!quote && (c == '\'' || c == '"')) {
            quote = c;
        } else if (c == '\\' && text[i + 1]) {
            if (strchr("*?\\", text[i + 1]))
                buf_chr(out, c);
            buf_chr(out, text[++i]);
        } else {
            buf_chr(out, c);
        }
    }
    return quote ? 0 : i;
}

static int read_words(const char *text, struct text_list *ret, struct err *err)
{
    while (*text) {
        cleanup_buf struct buf word;
        buf_init(&word, COMMANDS_TEXT_MAX);
        if (is_blank(*text)) {
            text++;
            continue;
        }
        size_t took = read_word(text, &word);
        if (took == 0)
            return err_set(err, ERR_USAGE, "a quote has no end");
        if (ret->count == COMMANDS_WORDS_MAX)
            return err_set(err, ERR_LIMIT, "too many words, expected at most %d",
                           COMMANDS_WORDS_MAX);
        char **items = realloc(ret->items, (ret->count + 1) * sizeof *items);
        if (!items)
            return err_memory(err);
        ret->items = items;
        if (!(items[ret->count] = strdup(buf_text(&word))))
            return err_memory(err);
        ret->count++;
        text += took;
    }
    if (ret->count == 0)
        return err_set(err, ERR_USAGE, "a command has at least one word");
    return 0;
}

static bool has_star(const char *word)
{
    for (; *word; word++) {
        if (*word == '\\' && word[1])
            word++;
        else if (*word == '*' || *word == '?')
            return true;
    }
    return false;
}

static int check_text(const char *text, struct err *err)
{
    if (strlen(text) > COMMANDS_TEXT_MAX)
        return err_set(err, ERR_USAGE, "the pattern is too long, expected at most %d bytes",
                       COMMANDS_TEXT_MAX);
    if (!text_is_utf8(text) || text_has_control(text))
        return err_set(err, ERR_USAGE, "the pattern holds control characters or is not UTF-8");
    return 0;
}

static int pattern_read(struct command_pattern *p, const char *text, struct err *err)
{
    int r = check_text(text, err);
    if (r == 0)
        r = read_words(text, &p->words, err);
    p->text = r == 0 ? strdup(text) : NULL;
    if (r == 0 && !p->text)
        r = err_memory(err);
    p->exact = true;
    for (size_t i = 0; r == 0 && i < p->words.count; i++)
        p->exact &= !has_star(p->words.items[i]);
    return r;
}

static int compare(const struct command_pattern *a, const struct command_pattern *b)
{
    return a->rule != b->rule ? (int)a->rule - (int)b->rule : strcmp(a->text, b->text);
}

/* Takes what is in p. */
static int insert(struct commands *c, struct command_pattern *p, struct err *err)
{
    size_t at = 0;
    while (at < c->count && compare(&c->patterns[at], p) < 0)
        at++;
    if (at < c->count && compare(&c->patterns[at], p) == 0) {
        pattern_done(p);
        return 0;
    }
    struct command_pattern *more = c->count < COMMANDS_PATTERNS_MAX
                                       ? realloc(c->patterns, (c->count + 1) * sizeof *more)
                                       : NULL;
    if (!more) {
        pattern_done(p);
        return err_set(err, ERR_LIMIT, "too many patterns, expected at most %d",
                       COMMANDS_PATTERNS_MAX);
    }
    c->patterns = more;
    memmove(more + at + 1, more + at, (c->count - at) * sizeof *more);
    more[at] = *p;
    c->count++;
    c->given = true;
    return 0;
}

int commands_add(struct commands *c, enum command_rule rule, const char *text,
                 const struct origin *origin, struct err *err)
{
    struct command_pattern p = {.rule = rule, .origin = *origin};
    struct quoted q;
    int r = pattern_read(&p, text, err);
    if (r < 0) {
        pattern_done(&p);
        return err_wrap(err, "%s", quote(&q, text));
    }
    return insert(c, &p, err);
}

/* ---- matching ---- */

/* One word: * any characters, ? one; a backslash in front of either, or of itself, takes that away.
 * The last star is gone back to, which is enough: what it leaves to the rest only grows. */
static bool match_word(const char *pattern, const char *word, struct command_work *work)
{
    const char *star = NULL, *resume = NULL;
    while (*word && work_take(work, WORK_COMPARE)) {
        bool escaped = *pattern == '\\' && pattern[1] && strchr("*?\\", pattern[1]);
        char want = escaped ? pattern[1] : *pattern;
        if (!escaped && want == '*') {
            star = ++pattern;
            resume = word;
        } else if (want && ((!escaped && want == '?') || want == *word)) {
            pattern += escaped ? 2 : 1;
            word++;
        } else if (star) {
            pattern = star;
            word = ++resume;
        } else {
            return false;
        }
    }
    if (work->spent)
        return false;
    while (*pattern == '*')
        pattern++;
    return *pattern == '\0';
}

const char *command_program(const char *word)
{
    const char *slash = strrchr(word, '/');
    return slash ? slash + 1 : word;
}

static bool match_program(const char *pattern, const char *word, struct command_work *work)
{
    return match_word(pattern, strchr(pattern, '/') ? word : command_program(word), work);
}

static bool is_any_words(const struct text_list *words, size_t i)
{
    return strcmp(words->items[i], "**") == 0 ||
           (i > 0 && i + 1 == words->count && strcmp(words->items[i], "*") == 0);
}

bool command_pattern_work(const struct command_pattern *p, const char *const *argv, size_t argc,
                          struct command_work *work)
{
    const struct text_list *words = &p->words;
    size_t i = 0, w = 0, star = SIZE_MAX, resume = 0;
    while (i < argc && work_take(work, WORK_COMPARE)) {
        if (w < words->count && is_any_words(words, w)) {
            star = ++w;
            resume = i;
        } else if (w < words->count && (i == 0 ? match_program(words->items[w], argv[i], work)
                                               : match_word(words->items[w], argv[i], work))) {
            w++;
            i++;
        } else if (star != SIZE_MAX) {
            w = star;
            i = ++resume;
        } else {
            return false;
        }
    }
    if (work->spent)
        return false;
    while (w < words->count && is_any_words(words, w))
        w++;
    return w == words->count;
}

bool command_pattern_match(const struct command_pattern *p, const char *const *argv, size_t argc)
{
    return command_pattern_work(p, argv, argc, &(struct command_work){.left = SIZE_MAX});
}
