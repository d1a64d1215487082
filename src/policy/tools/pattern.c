/* Patterns of tool names and of argument values. */
#include "base/quote.h"
#include "policy/tools/internal.h"

#include <stdlib.h>
#include <string.h>

int tool_pattern_check(const char *pattern, struct err *err)
{
    struct quoted q;
    if (strlen(pattern) > TOOLS_PATTERN_MAX)
        return err_set(err, ERR_POLICY, "a pattern is too long, expected at most %d bytes",
                       TOOLS_PATTERN_MAX);
    if (!text_is_utf8(pattern) || text_has_control(pattern))
        return err_set(err, ERR_POLICY, "%s has control characters or is not UTF-8",
                       quote(&q, pattern));
    for (const char *p = pattern; *p; p++) {
        if (*p == '\\' && (p[1] == '*' || p[1] == '\\'))
            p++;
        else if (*p == '\\')
            return err_set(err, ERR_POLICY, "%s: a backslash stands before a star or a backslash",
                           quote(&q, pattern));
    }
    return 0;
}

enum part {
    PART_END,
    PART_LETTER,
    PART_STAR,  /* anything but a slash */
    PART_STARS, /* anything */
};

struct token {
    enum part part;
    char letter;
    const char *next;
};

static struct token token_at(const char *p, bool names)
{
    if (*p == '\0')
        return (struct token){PART_END, '\0', p};
    if (*p == '\\' && p[1])
        return (struct token){PART_LETTER, p[1], p + 2};
    if (*p != '*')
        return (struct token){PART_LETTER, *p, p + 1};
    bool two = p[1] == '*';
    return (struct token){two || names ? PART_STARS : PART_STAR, '\0', p + 1 + two};
}

/* All places in the pattern where matching may stand, at once: no value can make it slow. */
struct program {
    struct token tokens[TOOLS_PATTERN_MAX + 1];
    size_t end; /* the index of PART_END */
    bool stands[2][TOOLS_PATTERN_MAX + 1];
};

static void compile(struct program *p, const char *pattern, bool names)
{
    p->end = 0;
    for (;; p->end++) {
        p->tokens[p->end] = token_at(pattern, names);
        if (p->tokens[p->end].part == PART_END)
            return;
        pattern = p->tokens[p->end].next;
    }
}

/* A star may also stand for nothing. */
static void stand(const struct program *p, bool *set, size_t i)
{
    while (!set[i]) {
        set[i] = true;
        if (p->tokens[i].part == PART_STAR || p->tokens[i].part == PART_STARS)
            i++;
    }
}

static bool step(const struct program *p, const bool *from, bool *to, char c)
{
    bool any = false;
    memset(to, 0, p->end + 1);
    for (size_t i = 0; i < p->end; i++) {
        const struct token *t = &p->tokens[i];
        if (!from[i])
            continue;
        if (t->part == PART_STARS || (t->part == PART_STAR && c != '/'))
            stand(p, to, i);
        else if (t->part == PART_LETTER && t->letter == c)
            stand(p, to, i + 1);
        else
            continue;
        any = true;
    }
    return any;
}

static bool match(const char *pattern, const char *text, bool names)
{
    struct program p;
    unsigned now = 0;
    if (strlen(pattern) > TOOLS_PATTERN_MAX)
        return false;
    compile(&p, pattern, names);
    memset(p.stands[0], 0, p.end + 1);
    stand(&p, p.stands[0], 0);
    bool ends_open = p.end > 0 && p.tokens[p.end - 1].part == PART_STARS;
    for (; *text; text++, now ^= 1) {
        if (ends_open && p.stands[now][p.end - 1])
            return true;
        if (!step(&p, p.stands[now], p.stands[now ^ 1], *text))
            return false;
    }
    return p.stands[now][p.end];
}

bool tool_name_match(const char *pattern, const char *name)
{
    return match(pattern, name, true);
}

static bool has_star(const char *pattern)
{
    for (struct token t = token_at(pattern, true); t.part != PART_END; t = token_at(t.next, true)) {
        if (t.part == PART_STARS)
            return true;
    }
    return false;
}

/* Both slashes: what one server takes for a letter, the next takes for a folder. */
static bool climbs(const char *value)
{
    for (const char *p = value; *p; p += strcspn(p, "/\\"), p += *p != '\0') {
        if (strcspn(p, "/\\") == 2 && p[0] == '.' && p[1] == '.')
            return true;
    }
    return false;
}

bool tool_value_grants(const char *pattern, const char *value)
{
    if (strcmp(pattern, "**") == 0)
        return true;
    if (has_star(pattern) && climbs(value))
        return false;
    return match(pattern, value, false);
}

/* The path without "//", "." and "..", as far as its text goes; `out` has room for it. */
static void straighten(const char *path, char *out)
{
    bool rooted = *path == '/';
    size_t n = 0;
    for (const char *p = path; *p;) {
        size_t len = strcspn(p, "/");
        if (len == 2 && p[0] == '.' && p[1] == '.') {
            while (n > 0 && out[n - 1] != '/')
                n--;
            n -= n > 0;
        } else if (len > 0 && !(len == 1 && p[0] == '.')) {
            if (n > 0 || rooted)
                out[n++] = '/';
            memcpy(out + n, p, len);
            n += len;
        }
        p += len + (p[len] == '/');
    }
    if (n == 0 && rooted)
        out[n++] = '/';
    out[n] = '\0';
}

bool tool_value_touches(const char *pattern, const char *value)
{
    if (match(pattern, value, false))
        return true;
    if (!strchr(value, '/'))
        return false;
    char *straight = malloc(strlen(value) + 2);
    if (!straight)
        return true;
    straighten(value, straight);
    bool found = match(pattern, straight, false);
    free(straight);
    return found;
}

/* `want` without its escapes, where it has no star. Has room for TOOLS_PATTERN_MAX. */
static bool as_value(const char *want, char *out)
{
    for (struct token t = token_at(want, true);; t = token_at(t.next, true)) {
        *out++ = t.letter;
        if (t.part == PART_STARS)
            return false;
        if (t.part == PART_END)
            return true;
    }
}

/* "letters**" covers all that begins with these letters. */
static bool covers_beginning(const char *have, const char *want, const char *stars)
{
    size_t len = strlen(have);
    size_t tail = strlen(stars);
    if (len < tail || strcmp(have + len - tail, stars) != 0)
        return false;
    len -= tail;
    return strcspn(have, "*\\") >= len && strncmp(have, want, len) == 0;
}

bool tool_name_covers(const char *have, const char *want)
{
    char name[TOOLS_PATTERN_MAX + 1];
    return strcmp(have, want) == 0 || covers_beginning(have, want, "*") ||
           covers_beginning(have, want, "**") || (as_value(want, name) && match(have, name, true));
}

bool tool_value_covers(const char *have, const char *want)
{
    char value[TOOLS_PATTERN_MAX + 1];
    if (strcmp(have, want) == 0 || strcmp(have, "**") == 0)
        return true;
    /* `**` alone also grants what climbs; no other pattern does. */
    if (strcmp(want, "**") == 0)
        return false;
    if (as_value(want, value))
        return tool_value_grants(have, value);
    return covers_beginning(have, want, "**");
}
