/* The names of schemes, and patterns on paths. */
#include "http/target.h"

#include "base/hex.h"
#include "base/utf8.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* A pattern is held as a set of places where a match may stand, so that a hostile path costs its
 * length times the pattern's and no more. */
#define PATTERN_MAX 255

const char *scheme_name(enum scheme scheme)
{
    static const char *const names[SCHEME_COUNT] = {
        [SCHEME_ANY] = "any",
        [SCHEME_HTTP] = "http",
        [SCHEME_HTTPS] = "https",
        [SCHEME_TCP] = "tcp",
    };
    return scheme >= 0 && scheme < SCHEME_COUNT ? names[scheme] : "unknown";
}

static int percent_value(const char *p)
{
    return p[0] == '%' ? hex_byte(p + 1) : -1;
}

/* Characters beyond ASCII that somewhere become a dot, a slash, a backslash or a percent sign (by
 * compatibility normalisation, or on the way into a narrower character set), or that are dropped,
 * so that what stands around them grows together. */
static bool is_treacherous(uint32_t code)
{
    static const struct {
        uint32_t from, to;
    } ranges[] = {
        {0x80, 0xa0},   /* controls, no-break space */
        {0xa5, 0xa5},   /* yen, where the backslash was */
        {0xad, 0xad},   /* soft hyphen */
        {0x34f, 0x34f}, /* joiners, marks and selectors that do not show */
        {0x61c, 0x61c},     {0x115f, 0x1160},   {0x1680, 0x1680},    {0x17b4, 0x17b5},
        {0x180b, 0x180f},   {0x2000, 0x200f}, /* blanks */
        {0x2024, 0x2026},                     /* dot leaders */
        {0x2028, 0x202f},   {0x2044, 0x2044}, /* fraction slash */
        {0x205f, 0x206f},   {0x20a9, 0x20a9}, /* won, where the backslash was */
        {0x2100, 0x2101},   {0x2105, 0x2106}, /* a/c, c/o and so on */
        {0x2215, 0x2216},   {0x29f5, 0x29f5},   {0x29f8, 0x29f9},    {0x3000, 0x3002},
        {0x3164, 0x3164},   {0xe000, 0xf8ff}, /* private use: file systems hide bytes there */
        {0xfe00, 0xfe19},   {0xfe30, 0xfe30},   {0xfe50, 0xfe6f},    {0xfeff, 0xfeff},
        {0xff00, 0xffff}, /* full width */
        {0x1d173, 0x1d17a}, {0xe0000, 0xe0fff}, {0xf0000, 0x10ffff},
    };
    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++)
        if (code >= ranges[i].from && code <= ranges[i].to)
            return true;
    return false;
}

/* How many bytes of text spell the character at p, which is beyond ASCII; 0: it is not plain. */
static size_t beyond_ascii(const char *p)
{
    char bytes[4];
    size_t count = 0;
    uint32_t code;
    for (; count < sizeof bytes; count++) {
        int c = percent_value(p + 3 * count);
        if (c < 0x80)
            break;
        bytes[count] = (char)c;
    }
    size_t used = utf8_decode(bytes, count, &code);
    return used && !is_treacherous(code) ? 3 * used : 0;
}

/* How many bytes the escape at p takes; 0: what it would become moves the borders of a path (a dot,
 * a slash, a percent sign, which could be decoded twice, a control byte), or is no character. */
static size_t percent_plain(const char *p)
{
    int c = percent_value(p);
    if (c >= 0x80)
        return beyond_ascii(p);
    return c >= 0x20 && c != 0x7f && c != '.' && c != '/' && c != '\\' && c != '%' ? 3 : 0;
}

/* Of a segment: what it is read up to, in the ways that path_pattern_match knows. */
#define READ_PARAMETERS 1u /* up to ';' */
#define READ_QUERY      2u /* the whole path up to '?' or '#', decoded too early */
#define READ_TRIMMED    4u /* without dots and blanks at its end */
#define READ_ALL        7u

static bool is_escape_of(const char *p, const char *set)
{
    int c = percent_value(p);
    return c > 0 && strchr(set, c);
}

static size_t segment_length(const char *s, unsigned how, bool *ret_end)
{
    size_t len = 0, name = SIZE_MAX;
    *ret_end = false;
    for (; s[len] && s[len] != '/' && !*ret_end; len++) {
        if (how & READ_PARAMETERS && name > len && (s[len] == ';' || is_escape_of(s + len, ";")))
            name = len;
        *ret_end = how & READ_QUERY && is_escape_of(s + len, "?#");
    }
    len -= *ret_end;
    len = name < len ? name : len;
    while (how & READ_TRIMMED && len > 0) {
        size_t cut = s[len - 1] == '.' ? 1 : len >= 3 && is_escape_of(s + len - 3, " ") ? 3 : 0;
        if (!cut)
            break;
        len -= cut;
    }
    return len;
}

/* Empty but at the end, or nothing but dots and blanks, in any reading. */
static bool segment_is_plain(const char *s)
{
    bool end;
    return !*s || segment_length(s, READ_ALL, &end) > 0;
}

bool path_is_plain(const char *path)
{
    if (!path || path[0] != '/')
        return false;
    for (const char *p = path; *p; p++) {
        unsigned char c = (unsigned char)*p;
        if (c <= ' ' || c >= 0x7f || c == '\\' || c == '?' || c == '#')
            return false;
        if (c == '/' && !segment_is_plain(p + 1))
            return false;
        size_t escape = c == '%' ? percent_plain(p) : 1;
        if (!escape)
            return false;
        p += escape - 1;
    }
    return true;
}

int path_pattern_check(const char *pattern, struct err *err)
{
    if (!pattern || pattern[0] != '/')
        return err_set(err, ERR_USAGE, "a path starts with a slash");
    if (strlen(pattern) > PATTERN_MAX)
        return err_set(err, ERR_USAGE, "a path pattern has at most %d bytes", PATTERN_MAX);
    if (strstr(pattern, "***"))
        return err_set(err, ERR_USAGE, "three stars in a row");
    if (strpbrk(pattern, "?#"))
        return err_set(err, ERR_USAGE, "a path has no query and no fragment");
    if (!path_is_plain(pattern))
        return err_set(err, ERR_USAGE,
                       "a path that could mean another one: no //, no . or .. parts, no backslash, "
                       "no encoded dots or slashes, no blanks, ASCII only");
    return 0;
}

/* A place before stars is also the place behind them: they may stand for nothing. */
static void reach(bool *at, const char *pattern, size_t i)
{
    at[i] = true;
    while (pattern[i] == '*') {
        i += pattern[i + 1] == '*' ? 2 : 1;
        at[i] = true;
    }
}

static bool match(const char *pattern, const char *path)
{
    bool sets[2][PATTERN_MAX + 2] = {{false}};
    size_t len = strlen(pattern);
    reach(sets[0], pattern, 0);
    unsigned now = 0;
    for (const char *p = path; *p; p++, now ^= 1) {
        const bool *from = sets[now];
        bool *to = sets[now ^ 1];
        bool any = false;
        memset(to, 0, len + 1);
        for (size_t i = 0; i < len; i++) {
            if (!from[i])
                continue;
            bool many = pattern[i] == '*' && pattern[i + 1] == '*';
            if (many || (pattern[i] == '*' && *p != '/'))
                reach(to, pattern, i);
            else if (pattern[i] != '*' && pattern[i] == *p)
                reach(to, pattern, i + 1);
            else
                continue;
            any = true;
        }
        if (!any)
            return false;
    }
    return sets[now][len];
}

/* `path` in one of its readings, which is never longer. */
static void read_path(const char *path, unsigned how, char *out)
{
    bool end = false;
    while (*path && !end) {
        *out++ = *path++; /* the slash */
        size_t len = segment_length(path, how, &end);
        memcpy(out, path, len);
        out += len;
        path += strcspn(path, "/");
    }
    *out = '\0';
}

bool path_pattern_match(const char *pattern, const char *path)
{
    if (strlen(pattern) > PATTERN_MAX || !path_is_plain(path) || !match(pattern, path))
        return false;
    if (!strpbrk(path, ";%."))
        return true;
    char *other = malloc(strlen(path) + 1);
    bool matches = other != NULL;
    for (unsigned how = 1; matches && how <= READ_ALL; how++) {
        char same_way[PATTERN_MAX + 1];
        read_path(path, how, other);
        if (strcmp(other, path) == 0)
            continue;
        read_path(pattern, how, same_way);
        matches = match(pattern, other) || match(same_way, other);
    }
    free(other);
    return matches;
}
