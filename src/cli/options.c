/* The parser of command lines: long and short options against tables, with a suggestion for a
 * mistyped one. */
#include "cli/options.h"

#include "base/text.h"
#include "cli/foreign.h"
#include "cli/suggest.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

struct parse {
    const struct opt_table *table;
    int argc;
    char *const *argv;
    int at; /* the argument after the one being read */
    opt_fn fn;
    void *ctx;
    const char *seen[OPTIONS_MAX]; /* value of each OPT_VALUE so far */
    struct err *err;
};

const struct opt *options_at(const struct opt_table *table, size_t i)
{
    for (; table; table = table->next) {
        if (i < table->count)
            return &table->items[i];
        i -= table->count;
    }
    return NULL;
}

static const struct opt *find_long(const struct opt_table *table, const char *name, size_t len,
                                   size_t *ret_index)
{
    const struct opt *o;
    for (size_t i = 0; (o = options_at(table, i)); i++) {
        if (strlen(o->name) == len && memcmp(o->name, name, len) == 0) {
            *ret_index = i;
            return o;
        }
    }
    return NULL;
}

static const struct opt *find_brief(const struct opt_table *table, char brief, size_t *ret_index)
{
    const struct opt *o;
    for (size_t i = 0; (o = options_at(table, i)); i++) {
        if (o->brief == brief && brief != '\0') {
            *ret_index = i;
            return o;
        }
    }
    return NULL;
}

static int unknown_long(const struct parse *p, const char *name, size_t len)
{
    char word[64];
    snprintf(word, sizeof word, "%.*s", (int)(len < 60 ? len : 60), name);
    const char *known = foreign_hint(p->table, word);
    struct suggest s;
    suggest_init(&s, word);
    const struct opt *o;
    for (size_t i = 0; (o = options_at(p->table, i)); i++)
        suggest_offer(&s, o->name);
    int r = err_set(p->err, ERR_USAGE, "unknown option --%s", word);
    if (known)
        return err_hint(p->err, "%s", known);
    return s.best ? err_hint(p->err, "did you mean --%s?", s.best) : r;
}

static int unknown_brief(const struct parse *p, char brief)
{
    const char *known = foreign_hint(p->table, (char[]){brief, '\0'});
    int r = err_set(p->err, ERR_USAGE, "unknown option -%c", brief);
    return known ? err_hint(p->err, "%s", known) : r;
}

static bool is_word(const char *words, const char *value)
{
    size_t len = strlen(value);
    for (const char *w = words; *w;) {
        size_t n = strcspn(w, " ");
        if (n == len && memcmp(w, value, n) == 0)
            return true;
        w += n;
        w += strspn(w, " ");
    }
    return false;
}

static int wrong_word(const struct parse *p, const struct opt *o, const char *value)
{
    char best[40];
    char list[200];
    size_t used = 0;
    for (const char *w = o->words; *w && used + 40 < sizeof list;) {
        size_t n = strcspn(w, " ");
        const char *next = w + n + strspn(w + n, " ");
        const char *glue = used == 0 ? "" : *next ? ", " : " or ";
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%.*s", glue, (int)n, w);
        w = next;
    }
    int r = err_set(p->err, ERR_USAGE, "--%s: '%.60s' is not one of %s", o->name, value, list);
    if (suggest_from_words(value, o->words, best, sizeof best))
        return err_hint(p->err, "did you mean --%s %s?", o->name, best);
    return r;
}

static int deliver(struct parse *p, const struct opt *o, size_t index, const char *value)
{
    if (o->kind != OPT_FLAG && value[0] == '\0')
        return err_set(p->err, ERR_USAGE, "--%s needs a value: --%s %s", o->name, o->name,
                       o->value);
    if (o->kind != OPT_FLAG && o->words && !is_word(o->words, value))
        return wrong_word(p, o, value);
    if (o->kind == OPT_VALUE || o->kind == OPT_MAYBE) {
        const char *before = p->seen[index];
        if (before && strcmp(before, value) == 0)
            return 0;
        if (before)
            return err_set(p->err, ERR_USAGE,
                           "--%s is given twice and the values contradict: %.60s and %.60s",
                           o->name, before, value);
        p->seen[index] = value;
    }
    return p->fn(p->ctx, o, value, p->err);
}

/* The value that follows as an argument of its own. One that looks like a long option is far more
 * often a forgotten value than a value; the few others are written --name=--value. */
static const char *next_value(struct parse *p, const struct opt *o)
{
    if (p->at < p->argc && !text_begins(p->argv[p->at], "--"))
        return p->argv[p->at++];
    err_set(p->err, ERR_USAGE, "--%s needs a value: --%s %s", o->name, o->name, o->value);
    if (p->at < p->argc)
        err_hint(p->err, "if the value really is '%.60s', write --%s=%.60s", p->argv[p->at],
                 o->name, p->argv[p->at]);
    return NULL;
}

static int parse_long(struct parse *p, const char *text)
{
    size_t index = 0;
    size_t len = strcspn(text, "=");
    const struct opt *o = find_long(p->table, text, len, &index);
    if (!o)
        return unknown_long(p, text, len);
    const char *value = text[len] == '=' ? text + len + 1 : NULL;
    if (o->kind == OPT_FLAG) {
        if (value)
            return err_set(p->err, ERR_USAGE, "--%s takes no value", o->name);
        return deliver(p, o, index, o->means);
    }
    if (!value)
        value = o->kind == OPT_MAYBE ? o->means : next_value(p, o);
    return value ? deliver(p, o, index, value) : -(int)ERR_USAGE;
}

/* -qt, -m256M, -m 256M */
static int parse_brief(struct parse *p, const char *text)
{
    size_t index = 0;
    if (text[1] && find_long(p->table, text, strlen(text), &index)) {
        err_set(p->err, ERR_USAGE, "unknown option -%s", text);
        return err_hint(p->err, "long options have two dashes: --%s", text);
    }
    for (; *text; text++) {
        const struct opt *o = find_brief(p->table, *text, &index);
        if (!o)
            return unknown_brief(p, *text);
        if (o->kind != OPT_FLAG) {
            const char *value = text[1]                ? text + 1
                                : o->kind == OPT_MAYBE ? o->means
                                                       : next_value(p, o);
            return value ? deliver(p, o, index, value) : -(int)ERR_USAGE;
        }
        int r = deliver(p, o, index, o->means);
        if (r)
            return r;
    }
    return 0;
}

static int parse_argument(struct parse *p, const char *arg)
{
    if (arg[0] == '-' && arg[1] == '-')
        return parse_long(p, arg + 2);
    if (arg[0] == '-' && arg[1])
        return parse_brief(p, arg + 1);
    return p->fn(p->ctx, NULL, arg, p->err);
}

int options_parse(const struct opt_table *table, int argc, char *const argv[], opt_fn fn, void *ctx,
                  int *ret_rest, struct err *err)
{
    struct parse p = {.table = table, .argc = argc, .argv = argv, .fn = fn, .ctx = ctx, .err = err};
    if (options_at(table, OPTIONS_MAX))
        return err_set(err, ERR_INTERNAL, "option table too large");
    while (p.at < argc) {
        const char *arg = argv[p.at++];
        if (strcmp(arg, "--") == 0)
            break;
        int r = parse_argument(&p, arg);
        if (r < 0)
            return r;
        if (r == OPTIONS_STOP) {
            p.at--;
            break;
        }
    }
    *ret_rest = p.at;
    return 0;
}
