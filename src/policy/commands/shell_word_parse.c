/* Words: quotes, expansions, redirections, here-documents. */
#include "base/cleanup.h"
#include "policy/commands/shell_scan.h"

#include <string.h>

static bool peek(const struct scan *s, size_t ahead, char c)
{
    return s->pos + ahead < s->len && s->text[s->pos + ahead] == c;
}

static void keep(struct scan *s, char c)
{
    buf_chr(&s->script->chars, c);
}

/* A substitution keeps what it wrote into `chars` behind the word that is being read: so the word's
 * own characters are put aside meanwhile. */
static void substitute(struct scan *s, struct shell_word *w, void (*read)(struct scan *))
{
    cleanup_buf struct buf own;
    struct buf *chars = &s->script->chars;
    uint32_t from = s->script->command_count;
    buf_init(&own, SHELL_TEXT_MAX * 4);
    if (chars->failed) {
        s->pos = s->len;
        return;
    }
    buf_add(&own, buf_text(chars) + w->at, chars->len - w->at);
    keep(s, '\0');
    read(s);
    if (w->subs_from == w->subs_to)
        w->subs_from = from;
    w->subs_to = s->script->command_count;
    w->dynamic = true;
    keep(s, '\0');
    w->at = (uint32_t)chars->len;
    buf_add(chars, buf_text(&own), own.len);
    if (own.failed)
        chars->failed = true;
}

static void read_backticks(struct scan *s)
{
    cleanup_buf struct buf inner;
    buf_init(&inner, SHELL_TEXT_MAX);
    s->pos++;
    while (s->pos < s->len && s->text[s->pos] != '`') {
        if (s->text[s->pos] == '\\' && s->pos + 1 < s->len && strchr("`\\$", s->text[s->pos + 1]))
            s->pos++;
        buf_chr(&inner, s->text[s->pos++]);
    }
    if (s->pos >= s->len)
        scan_unknown(s, "a ` has no end");
    s->pos += s->pos < s->len;
    if (++s->depth > SHELL_DEPTH_MAX)
        scan_unknown(s, "it is nested too deeply");
    else
        scan_text(s, buf_text(&inner), inner.len);
    s->depth--;
}

void scan_arithmetic(struct scan *s)
{
    unsigned open = 0;
    struct shell_word scratch = {.at = (uint32_t)s->script->chars.len};
    while (s->pos < s->len) {
        char c = s->text[s->pos];
        if (c == '`') {
            substitute(s, &scratch, read_backticks);
        } else if (c == '$' && peek(s, 1, '(') && !peek(s, 2, '(')) {
            s->pos += 2;
            substitute(s, &scratch, scan_substitution);
        } else if (c == ')' && open == 0) {
            s->pos++;
            if (peek(s, 0, ')')) {
                s->pos++;
                return;
            }
            break;
        } else {
            open += c == '(';
            open -= c == ')';
            s->pos++;
        }
    }
    scan_unknown(s, "an arithmetic expression has no end");
}

/* ${…}: kept as it is written. */
static void read_braces(struct scan *s)
{
    unsigned open = 0;
    while (s->pos < s->len) {
        char c = s->text[s->pos];
        if (c == '`' || (c == '$' && peek(s, 1, '(')))
            scan_unknown(s, "a command stands in a ${}");
        keep(s, c);
        s->pos++;
        open += c == '{';
        if (c == '}' && --open == 0)
            return;
    }
    scan_unknown(s, "a ${ has no end");
}

static void read_name(struct scan *s)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";
    keep(s, s->text[s->pos++]);
    if (s->pos < s->len && strchr("@*#?$!-", s->text[s->pos])) {
        keep(s, s->text[s->pos++]);
        return;
    }
    while (s->pos < s->len && strchr(letters, s->text[s->pos]))
        keep(s, s->text[s->pos++]);
}

/* $'…': its escapes can spell anything. */
static void read_ansi(struct scan *s, struct shell_word *w)
{
    s->pos += 2;
    w->dynamic = true;
    while (s->pos < s->len && s->text[s->pos] != '\'') {
        if (s->text[s->pos] == '\\' && s->pos + 1 < s->len)
            keep(s, s->text[s->pos++]);
        keep(s, s->text[s->pos++]);
    }
    if (s->pos >= s->len)
        scan_unknown(s, "a ' has no end");
    s->pos += s->pos < s->len;
}

static void read_dollar(struct scan *s, struct shell_word *w, bool in_quotes)
{
    char next = s->pos + 1 < s->len ? s->text[s->pos + 1] : '\0';
    if (next == '(' && peek(s, 2, '(')) {
        s->pos += 3;
        substitute(s, w, scan_arithmetic);
    } else if (next == '(') {
        s->pos += 2;
        substitute(s, w, scan_substitution);
    } else if (next == '{') {
        w->dynamic = true;
        keep(s, s->text[s->pos++]);
        read_braces(s);
    } else if (next == '\'' && !in_quotes) {
        read_ansi(s, w);
    } else if (next == '"' && !in_quotes) {
        s->pos++;
    } else if (next && strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789@*#?$"
                              "!-",
                              next)) {
        w->dynamic = true;
        read_name(s);
    } else {
        keep(s, s->text[s->pos++]);
    }
}

/* What double quotes, and here-documents, still look at. */
static void read_inside(struct scan *s, struct shell_word *w, const char *escapes)
{
    char c = s->text[s->pos];
    if (c == '\\' && s->pos + 1 < s->len && strchr(escapes, s->text[s->pos + 1])) {
        s->pos++;
        if (s->text[s->pos] != '\n')
            keep(s, s->text[s->pos]);
        s->pos++;
    } else if (c == '$') {
        read_dollar(s, w, true);
    } else if (c == '`') {
        substitute(s, w, read_backticks);
    } else {
        keep(s, c);
        s->pos++;
    }
}

static void read_double(struct scan *s, struct shell_word *w)
{
    s->pos++;
    while (s->pos < s->len && s->text[s->pos] != '"')
        read_inside(s, w, "$`\"\\\n");
    if (s->pos >= s->len)
        scan_unknown(s, "a \" has no end");
    s->pos += s->pos < s->len;
}

static void read_single(struct scan *s)
{
    s->pos++;
    while (s->pos < s->len && s->text[s->pos] != '\'')
        keep(s, s->text[s->pos++]);
    if (s->pos >= s->len)
        scan_unknown(s, "a ' has no end");
    s->pos += s->pos < s->len;
}

/* NAME=( … ) */
static void read_array(struct scan *s, struct shell_word *w)
{
    struct shell_word inner;
    s->pos++;
    w->dynamic = true;
    while (s->pos < s->len && s->text[s->pos] != ')') {
        if (strchr(" \t\r\n;&|<>(", s->text[s->pos]) || !scan_word(s, &inner))
            s->pos++;
    }
    if (s->pos >= s->len)
        scan_unknown(s, "a ( has no end");
    s->pos += s->pos < s->len;
}

static bool read_plain(struct scan *s, struct shell_word *w, size_t start)
{
    char c = s->text[s->pos];
    bool process = (c == '<' || c == '>') && peek(s, 1, '(');
    if (process && s->pos == start) {
        keep(s, c);
        s->pos += 2;
        substitute(s, w, scan_substitution);
        return true;
    }
    if (c == '(' && s->pos > start && s->text[s->pos - 1] == '=') {
        read_array(s, w);
        return true;
    }
    if (strchr(" \t\r\n;&|<>()", c))
        return false;
    w->glob |= c == '*' || c == '?' || c == '[';
    /* {a,b} makes several words of one. */
    w->dynamic |=
        c == '{' && s->pos + 1 < s->len && !strchr(" \t\r\n;&|<>()}", s->text[s->pos + 1]);
    keep(s, c);
    s->pos++;
    return true;
}

bool scan_word(struct scan *s, struct shell_word *ret)
{
    size_t start = s->pos;
    bool more = true;
    *ret = (struct shell_word){.at = (uint32_t)s->script->chars.len};
    while (more && s->pos < s->len && !s->script->chars.failed) {
        char c = s->text[s->pos];
        if (c == '\\') {
            s->pos++;
            if (s->pos < s->len && s->text[s->pos] != '\n')
                keep(s, s->text[s->pos]);
            s->pos += s->pos < s->len;
        } else if (c == '\'') {
            read_single(s);
        } else if (c == '"') {
            read_double(s, ret);
        } else if (c == '$') {
            read_dollar(s, ret, false);
        } else if (c == '`') {
            substitute(s, ret, read_backticks);
        } else {
            more = read_plain(s, ret, start);
        }
    }
    keep(s, '\0');
    /* The test. */
    ret->glob &= s->pos - start != 1 || s->text[start] != '[';
    if (s->script->chars.failed) {
        scan_unknown(s, "it is too long");
        s->pos = s->len;
        return false;
    }
    return s->pos > start;
}

/* ---- redirections ---- */

static void add_redirect(struct scan *s, uint32_t word, bool writes)
{
    struct shell_script *x = s->script;
    if (word == SHELL_NONE)
        return;
    if (x->redirect_count == x->redirect_room) {
        uint32_t room = x->redirect_room ? x->redirect_room * 2 : 8;
        struct shell_redirect *more = realloc(x->redirects, room * sizeof *more);
        if (!more) {
            scan_unknown(s, "there is no memory");
            return;
        }
        x->redirects = more;
        x->redirect_room = room;
    }
    x->redirects[x->redirect_count++] = (struct shell_redirect){SHELL_NONE, word, writes};
}

static void announce_here(struct scan *s, const struct shell_word *end, bool quoted, bool tabs)
{
    if (s->here_count == HERES_MAX) {
        scan_unknown(s, "it has too many here-documents");
        return;
    }
    s->heres[s->here_count++] = (struct here){SHELL_NONE, end->at, quoted, tabs};
}

static void pass_blank(struct scan *s)
{
    while (s->pos < s->len && (s->text[s->pos] == ' ' || s->text[s->pos] == '\t'))
        s->pos++;
}

void scan_redirect(struct scan *s)
{
    struct shell_word w;
    while (s->pos < s->len && strchr("0123456789&", s->text[s->pos]))
        s->pos++;
    char c = s->text[s->pos++];
    size_t same = 1;
    while (s->pos < s->len && s->text[s->pos] == c && same < 3) {
        s->pos++;
        same++;
    }
    bool tabs = c == '<' && same == 2 && peek(s, 0, '-');
    bool copies = peek(s, 0, '&');
    bool both = c == '<' && peek(s, 0, '>');
    s->pos += tabs || copies || both || (c == '>' && peek(s, 0, '|'));
    pass_blank(s);
    size_t start = s->pos;
    if (!scan_word(s, &w)) {
        scan_unknown(s, "a redirection leads nowhere");
        return;
    }
    const char *text = buf_text(&s->script->chars) + w.at;
    if (c == '<' && same == 2) {
        bool quoted = memchr(s->text + start, '\'', s->pos - start) ||
                      memchr(s->text + start, '"', s->pos - start) ||
                      memchr(s->text + start, '\\', s->pos - start);
        announce_here(s, &w, quoted, tabs);
    } else if (c == '<' && same == 3) {
        s->here_string = scan_keep(s, &w);
    } else if (!copies || text[strspn(text, "0123456789-")]) {
        add_redirect(s, scan_keep(s, &w), c == '>' || both);
    }
}

/* ---- here-documents ---- */

/* The end of the document that begins here, and where the text goes on. */
static size_t find_end(const struct scan *s, const struct here *h, size_t *ret_next)
{
    const char *end = buf_text(&s->script->chars) + h->end;
    size_t at = s->pos, want = strlen(end);
    while (at < s->len) {
        const char *newline = memchr(s->text + at, '\n', s->len - at);
        size_t stop = newline ? (size_t)(newline - s->text) : s->len;
        size_t from = at;
        while (h->tabs && from < stop && s->text[from] == '\t')
            from++;
        if (stop - from == want && memcmp(s->text + from, end, want) == 0) {
            *ret_next = newline ? stop + 1 : stop;
            return at;
        }
        at = newline ? stop + 1 : stop;
    }
    *ret_next = s->len;
    return s->len;
}

static void read_here(struct scan *s, const struct here *h)
{
    size_t next = s->len, len = s->len;
    struct shell_word w = {.at = (uint32_t)s->script->chars.len};
    s->len = find_end(s, h, &next);
    while (s->pos < s->len && !s->script->chars.failed) {
        if (h->quoted)
            keep(s, s->text[s->pos++]);
        else
            read_inside(s, &w, "$`\\\n");
    }
    keep(s, '\0');
    s->len = len;
    s->pos = next;
    uint32_t word = s->script->chars.failed ? SHELL_NONE : scan_keep(s, &w);
    if (h->command < s->script->command_count)
        s->script->commands[h->command].here = word;
}

void scan_heres(struct scan *s)
{
    struct here heres[HERES_MAX];
    size_t count = s->here_count;
    memcpy(heres, s->heres, sizeof heres);
    s->here_count = 0;
    for (size_t i = 0; i < count; i++)
        read_here(s, &heres[i]);
}
