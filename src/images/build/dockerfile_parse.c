/* From the text of a Dockerfile to its instructions: lines that go on, comments, words, quotes. */
#include "images/build/dockerfile.h"

#include "base/cleanup.h"
#include "base/json.h"
#include "base/quote.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define EXPAND_DEPTH 8
#define EXPAND_MAX   (256u << 10)

static const char blanks[] = " \t\r\f\v";

/* IM-18: `gone` bytes give way to `more`. */
static int count_bytes(struct words *w, size_t gone, size_t more, struct err *err)
{
    if (!w->most && more > WORDS_BYTES - (w->bytes - gone))
        return err_set(err, ERR_LIMIT, "words, names or values of more than %u bytes in all",
                       WORDS_BYTES);
    w->bytes = w->bytes - gone + more;
    return 0;
}

int words_replace(struct words *w, char **item, char *text, struct err *err)
{
    if (count_bytes(w, strlen(*item), strlen(text), err) < 0) {
        free(text);
        return err_number(err);
    }
    free(*item);
    *item = text;
    return 0;
}

int words_add(struct words *w, const char *text, size_t len, struct err *err)
{
    size_t most = w->most ? w->most : WORDS_MAX;
    if (w->count == most)
        return err_set(err, ERR_LIMIT, "more than %zu words or names", most);
    if (count_bytes(w, 0, len, err) < 0)
        return err_number(err);
    if (w->count + 1 >= w->room) {
        size_t room = w->room ? 2 * w->room : 8;
        char **wide = realloc(w->items, room * sizeof *wide);
        if (!wide)
            return err_memory(err);
        w->items = wide;
        w->room = room;
    }
    if (!(w->items[w->count] = strndup(text, len)))
        return err_memory(err);
    w->items[++w->count] = NULL;
    return 0;
}

void words_done(struct words *w)
{
    while (w->count)
        free(w->items[--w->count]);
    free(w->items);
    *w = (struct words){.most = w->most};
}

static int bad_line(unsigned line, const char *what, const char *text, struct err *err)
{
    struct quoted q;
    return err_set(err, ERR_USAGE, "line %u: %s%s%s", line, what, text ? " " : "",
                   text ? quote(&q, text) : "");
}

/* ---- lines ---- */

struct lines {
    const char *at, *end;
    unsigned number; /* of the line at `at` */
    char escape;
};

static size_t line_length(const struct lines *l)
{
    const char *feed = memchr(l->at, '\n', (size_t)(l->end - l->at));
    return (size_t)((feed ? feed : l->end) - l->at);
}

static void line_step(struct lines *l, size_t len)
{
    l->at += len + (l->at + len < l->end);
    l->number++;
}

static size_t skip_blanks(const char *text, size_t len)
{
    size_t at = 0;
    while (at < len && strchr(blanks, text[at]) && text[at])
        at++;
    return at;
}

static size_t trim(const char *text, size_t len)
{
    while (len && strchr(blanks, text[len - 1]) && text[len - 1])
        len--;
    return len;
}

/* "# escape=`", before anything else. Other such lines name another reader for the file, or how it
 * shall check itself: comments here (IM-13). */
static void read_directives(struct lines *l)
{
    while (l->at < l->end) {
        size_t len = line_length(l), at = skip_blanks(l->at, len);
        const char *text = l->at + at;
        if (at == len || *text != '#' || !memchr(text, '=', len - at))
            return;
        text += 1 + skip_blanks(text + 1, len - at - 1);
        size_t left = trim(text, (size_t)(l->at + len - text));
        if (left == 8 && strncasecmp(text, "escape=", 7) == 0 && strchr("\\`", text[7]))
            l->escape = text[7];
        line_step(l, len);
    }
}

/* One instruction, however many lines it has. 0: that was the last. */
static int next_instruction(struct lines *l, struct buf *out, unsigned *line, struct err *err)
{
    bool open = false;
    buf_reset(out);
    while (l->at < l->end) {
        size_t len = line_length(l), at = skip_blanks(l->at, len), end = trim(l->at, len);
        const char *text = l->at;
        unsigned number = l->number;
        line_step(l, len);
        if (memchr(text, '\0', len))
            return bad_line(number, "a zero byte", NULL, err);
        if (at >= end || text[at] == '#')
            continue; /* also between lines that belong together */
        if (!open)
            *line = number;
        bool goes_on = text[end - 1] == l->escape;
        size_t from = open ? 0 : at;
        if (from < end - goes_on)
            buf_add(out, text + from, end - goes_on - from);
        open = true;
        if (!goes_on)
            return 1;
    }
    return open;
}

/* ---- words ---- */

/* Up to the next blank that no quote holds. */
static size_t word_length(const char *text, char escape)
{
    char quoted = '\0';
    size_t at = 0;
    for (; text[at] && (quoted || !strchr(blanks, text[at])); at++) {
        if (text[at] == escape && quoted != '\'' && text[at + 1])
            at++;
        else if (quoted)
            quoted = text[at] == quoted ? '\0' : quoted;
        else if (text[at] == '"' || text[at] == '\'')
            quoted = text[at];
    }
    return at;
}

static const char *skip(const char *text)
{
    return text + strspn(text, blanks);
}

static int take_words(struct instruction *i, const char *text, struct err *err)
{
    for (text = skip(text); *text; text = skip(text)) {
        size_t len = strcspn(text, blanks);
        if (words_add(&i->args, text, len, err) < 0)
            return err_number(err);
        text += len;
    }
    return 0;
}

/* 1: it was one, and its texts are the arguments. */
static int take_array(struct instruction *i, const char *text, struct err *err)
{
    struct json *doc = NULL;
    struct err ignored = ERR_INIT;
    if (*text != '[' || json_parse(text, strlen(text), &json_default_limits, &doc, &ignored) < 0)
        return 0;
    int r = json_type(doc) == JSON_ARRAY;
    for (size_t n = 0; r > 0 && n < json_count(doc); n++) {
        const char *word = json_string(json_at(doc, n));
        if (!word)
            r = bad_line(i->line, "a list with something that is no text", NULL, err);
        else if (words_add(&i->args, word, strlen(word), err) < 0)
            r = err_number(err);
    }
    json_free(doc);
    i->exec = r > 0;
    return r;
}

/* "NAME=VALUE NAME=VALUE", or "NAME the rest". */
static int take_pairs(struct instruction *i, const char *text, char escape, struct err *err)
{
    size_t first = word_length(text, escape);
    if (!memchr(text, '=', first)) {
        const char *value = skip(text + first);
        if (!first || !*value)
            return bad_line(i->line, "expected NAME=VALUE, found", text, err);
        if (words_add(&i->args, text, first, err) < 0)
            return err_number(err);
        return words_add(&i->args, value, strlen(value), err);
    }
    for (; *text; text = skip(text)) {
        size_t len = word_length(text, escape);
        const char *equals = memchr(text, '=', len);
        if (!equals || equals == text)
            return bad_line(i->line, "expected NAME=VALUE, found", text, err);
        if (words_add(&i->args, text, (size_t)(equals - text), err) < 0 ||
            words_add(&i->args, equals + 1, len - (size_t)(equals + 1 - text), err) < 0)
            return err_number(err);
        text += len;
    }
    return 0;
}

static bool is_name(const char *text, size_t len)
{
    static const char first[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_";
    for (size_t i = 0; i < len; i++)
        if (!strchr(first, text[i]) && (i == 0 || text[i] < '0' || text[i] > '9'))
            return false;
    return len > 0;
}

/* "NAME" or "NAME=DEFAULT"; the value is marked by '=' or '!' in front of it. */
static int take_args(struct instruction *i, const char *text, char escape, struct err *err)
{
    for (; *text; text = skip(text)) {
        size_t len = word_length(text, escape);
        const char *equals = memchr(text, '=', len);
        size_t name = equals ? (size_t)(equals - text) : len;
        if (!is_name(text, name))
            return bad_line(i->line, "expected NAME or NAME=DEFAULT, found", text, err);
        if (words_add(&i->args, text, name, err) < 0 ||
            words_add(&i->args, equals ? equals : "!", equals ? len - name : 1, err) < 0)
            return err_number(err);
        text += len;
    }
    return 0;
}

/* ---- instructions ---- */

enum shape {
    SHAPE_WORDS,
    SHAPE_LINE,
    SHAPE_COMMAND,
    SHAPE_LIST,
    SHAPE_EITHER,
    SHAPE_PAIRS,
    SHAPE_ARGS
};

static const struct known {
    const char *name;
    enum docker_op op;
    enum shape shape;
    bool flags;
} known[] = {{"FROM", DOCKER_FROM, SHAPE_WORDS, true},
             {"RUN", DOCKER_RUN, SHAPE_COMMAND, true},
             {"COPY", DOCKER_COPY, SHAPE_EITHER, true},
             {"ADD", DOCKER_ADD, SHAPE_EITHER, true},
             {"ENV", DOCKER_ENV, SHAPE_PAIRS, false},
             {"ARG", DOCKER_ARG, SHAPE_ARGS, false},
             {"WORKDIR", DOCKER_WORKDIR, SHAPE_LINE, false},
             {"USER", DOCKER_USER, SHAPE_LINE, false},
             {"ENTRYPOINT", DOCKER_ENTRYPOINT, SHAPE_COMMAND, false},
             {"CMD", DOCKER_CMD, SHAPE_COMMAND, false},
             {"LABEL", DOCKER_LABEL, SHAPE_PAIRS, false},
             {"EXPOSE", DOCKER_EXPOSE, SHAPE_WORDS, false},
             {"VOLUME", DOCKER_VOLUME, SHAPE_EITHER, false},
             {"STOPSIGNAL", DOCKER_STOPSIGNAL, SHAPE_LINE, false},
             {"SHELL", DOCKER_SHELL, SHAPE_LIST, false},
             {"HEALTHCHECK", DOCKER_HEALTHCHECK, SHAPE_LINE, false},
             {"MAINTAINER", DOCKER_MAINTAINER, SHAPE_LINE, false}};

static const struct known *find_known(const char *text, size_t len)
{
    for (size_t i = 0; i < ARRAY_LEN(known); i++)
        if (strlen(known[i].name) == len && strncasecmp(known[i].name, text, len) == 0)
            return &known[i];
    return NULL;
}

static int take_flags(struct instruction *i, const char **text, struct err *err)
{
    while ((*text)[0] == '-' && (*text)[1] == '-') {
        size_t len = strcspn(*text, blanks);
        if (words_add(&i->flags, *text, len, err) < 0)
            return err_number(err);
        *text = skip(*text + len);
    }
    return 0;
}

static int take_arguments(struct instruction *i, const struct known *k, const char *text,
                          char escape, struct err *err)
{
    int r = 0;
    if (k->shape == SHAPE_PAIRS)
        return take_pairs(i, text, escape, err);
    if (k->shape == SHAPE_ARGS)
        return take_args(i, text, escape, err);
    if (k->shape == SHAPE_COMMAND || k->shape == SHAPE_LIST || k->shape == SHAPE_EITHER)
        r = take_array(i, text, err);
    if (r != 0)
        return r < 0 ? r : 0;
    if (k->shape == SHAPE_LIST)
        return bad_line(i->line, "expected a list such as [\"/bin/sh\", \"-c\"], found", text, err);
    return k->shape == SHAPE_WORDS || k->shape == SHAPE_EITHER
               ? take_words(i, text, err)
               : words_add(&i->args, text, strlen(text), err);
}

/* Text that stands in the lines that follow is not read, and must not be taken for instructions. */
static bool has_heredoc(enum docker_op op, const char *text)
{
    const char *at = strstr(text, "<<");
    if (!at || (op != DOCKER_RUN && op != DOCKER_COPY && op != DOCKER_ADD))
        return false;
    at += 2 + (at[2] == '-');
    at += *at == '"' || *at == '\'';
    return is_name(at, 1);
}

static int take_instruction(struct dockerfile *d, unsigned line, const char *text, struct err *err)
{
    if (d->count == INSTRUCTIONS_MAX)
        return err_set(err, ERR_LIMIT, "more than %d instructions", INSTRUCTIONS_MAX);
    struct instruction *i = &d->items[d->count];
    size_t len = strcspn(text, blanks);
    const struct known *k = find_known(text, len);
    *i = (struct instruction){.line = line};
    if (!k) {
        char word[48];
        size_t cut = len < sizeof word ? len : sizeof word - 1;
        memcpy(word, text, cut);
        word[cut] = '\0';
        bad_line(line, "this instruction is not known here:", word, err);
        return err_hint(err, "`brig image build --help` lists those that are");
    }
    d->count++;
    i->op = k->op;
    if (!(i->text = strdup(text)))
        return err_memory(err);
    const char *rest = skip(text + len);
    if (k->flags && take_flags(i, &rest, err) < 0)
        return err_number(err);
    if (has_heredoc(k->op, rest)) {
        bad_line(line, "text between here and a word (<<) is not read", NULL, err);
        return err_hint(err, "write the commands with && and \\, or COPY a file");
    }
    if (!*rest)
        return bad_line(line, "nothing follows", k->name, err);
    return take_arguments(i, k, rest, d->escape, err);
}

int dockerfile_parse(const char *text, size_t len, struct dockerfile *ret, struct err *err)
{
    struct lines l = {.at = text, .end = text + len, .number = 1, .escape = '\\'};
    unsigned line = 0;
    cleanup_buf struct buf one;
    *ret = (struct dockerfile){.items = calloc(INSTRUCTIONS_MAX, sizeof *ret->items)};
    buf_init(&one, DOCKERFILE_MAX);
    if (!ret->items)
        return err_memory(err);
    int r = len > DOCKERFILE_MAX ? err_set(err, ERR_LIMIT, "it is larger than 1 MiB") : 0;
    if (r == 0)
        read_directives(&l);
    ret->escape = l.escape;
    while (r >= 0 && (r = next_instruction(&l, &one, &line, err)) > 0)
        r = one.failed ? err_memory(err) : take_instruction(ret, line, buf_text(&one), err);
    if (r < 0)
        dockerfile_done(ret);
    return r;
}

void dockerfile_done(struct dockerfile *d)
{
    for (size_t i = 0; i < d->count; i++) {
        free(d->items[i].text);
        words_done(&d->items[i].flags);
        words_done(&d->items[i].args);
    }
    free(d->items);
    *d = (struct dockerfile){.count = 0};
}

const char *instruction_flag(const struct instruction *i, const char *name)
{
    size_t len = strlen(name);
    for (size_t n = 0; n < i->flags.count; n++) {
        const char *flag = i->flags.items[n] + 2;
        if (strncmp(flag, name, len) == 0 && flag[len] == '=')
            return flag + len + 1;
    }
    return NULL;
}

/* ---- variables ---- */

struct expansion {
    char escape;
    docker_find *find;
    void *ctx;
    struct buf *out;
    unsigned depth;
};

static int expand(struct expansion *x, const char *word, size_t len, struct err *err);

static int put_value(struct expansion *x, const char *name, size_t len, const char **value,
                     struct err *err)
{
    char text[128];
    if (len >= sizeof text || !is_name(name, len))
        return err_set(err, ERR_USAGE, "a $ that no name of a variable follows");
    memcpy(text, name, len);
    text[len] = '\0';
    *value = x->find(x->ctx, text);
    return 0;
}

/* After "${". Returns how much was read, up to and with the brace. */
static int expand_braces(struct expansion *x, const char *at, size_t len, size_t *used,
                         struct err *err)
{
    size_t name = 0, end, deep = 0;
    const char *value = NULL;
    while (name < len && at[name] != '}' && at[name] != ':')
        name++;
    for (end = name; end < len && (at[end] != '}' || deep); end++)
        deep += at[end] == '{' ? 1 : at[end] == '}' ? (size_t)-1 : 0;
    if (end >= len)
        return err_set(err, ERR_USAGE, "a ${ without its }");
    if (put_value(x, at, name, &value, err) < 0)
        return err_number(err);
    *used = end + 1;
    if (at[name] == '}') {
        buf_str(x->out, value ? value : "");
        return 0;
    }
    char how = name + 1 < end ? at[name + 1] : '\0';
    if (how != '-' && how != '+')
        return err_set(err, ERR_USAGE, "of ${NAME…} only :- and :+ are known here");
    bool set = value && value[0];
    if (set && how == '-')
        buf_str(x->out, value);
    if (set == (how == '-'))
        return 0;
    return expand(x, at + name + 2, end - name - 2, err);
}

static int expand_variable(struct expansion *x, const char *at, size_t len, size_t *used,
                           struct err *err)
{
    size_t name = 0;
    const char *value = NULL;
    if (len && *at == '{') {
        int r = expand_braces(x, at + 1, len - 1, used, err);
        ++*used;
        return r;
    }
    while (name < len && is_name(at, name + 1))
        name++;
    *used = name;
    if (!name) {
        buf_chr(x->out, '$');
        return 0;
    }
    if (put_value(x, at, name, &value, err) < 0)
        return err_number(err);
    buf_str(x->out, value ? value : "");
    return 0;
}

static int expand(struct expansion *x, const char *word, size_t len, struct err *err)
{
    char quoted = '\0';
    if (++x->depth > EXPAND_DEPTH)
        return err_set(err, ERR_USAGE, "variables in variables in variables, and so on");
    for (size_t at = 0, used = 0; at < len; at++) {
        char c = word[at];
        if (c == x->escape && quoted != '\'' && at + 1 < len) {
            char next = word[at + 1];
            if (quoted && !strchr("\"$", next) && next != x->escape)
                buf_chr(x->out, c);
            buf_chr(x->out, next);
            at++;
        } else if (c == '$' && quoted != '\'') {
            if (expand_variable(x, word + at + 1, len - at - 1, &used, err) < 0)
                return err_number(err);
            at += used;
        } else if (quoted ? c == quoted : c == '"' || c == '\'') {
            quoted = quoted ? '\0' : c;
        } else {
            buf_chr(x->out, c);
        }
    }
    x->depth--;
    return quoted ? err_set(err, ERR_USAGE, "a quote that does not end") : 0;
}

int docker_expand(const char *word, char escape, docker_find *find, void *ctx, struct buf *out,
                  struct err *err)
{
    struct expansion x = {.escape = escape, .find = find, .ctx = ctx, .out = out};
    int r = expand(&x, word, strlen(word), err);
    return r >= 0 && (out->failed || out->len > EXPAND_MAX)
               ? err_set(err, ERR_LIMIT, "a value that is too long")
               : r;
}
