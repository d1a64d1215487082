/* The names of schemes, and patterns on paths. */
#include "http/target.h"

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

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* What %XX would become is something that moves the borders of a path: a dot, a slash, a percent
 * sign (then it could be decoded twice), a control byte. */
static bool percent_is_plain(const char *p)
{
    int high = hex_digit(p[1]);
    int low = high < 0 ? -1 : hex_digit(p[2]);
    if (low < 0)
        return false;
    int c = high << 4 | low;
    return c >= 0x20 && c != 0x7f && c != '.' && c != '/' && c != '\\' && c != '%';
}

/* Empty but at the end, "." and "..", and, because some servers cut parameters off first, "..;x"
 * and
 * ";x". */
static bool segment_is_plain(const char *s)
{
    size_t len = strcspn(s, "/");
    size_t name = strcspn(s, "/;");
    if (!len)
        return !*s;
    return name > strspn(s, ".") || name > 2;
}

bool path_is_plain(const char *path)
{
    if (!path || path[0] != '/')
        return false;
    for (const char *p = path; *p; p++) {
        unsigned char c = (unsigned char)*p;
        if (c <= ' ' || c >= 0x7f || c == '\\' || c == '?' || c == '#')
            return false;
        if (c == '%' && !percent_is_plain(p))
            return false;
        if (c == '/' && !segment_is_plain(p + 1))
            return false;
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

bool path_pattern_match(const char *pattern, const char *path)
{
    bool sets[2][PATTERN_MAX + 2] = {{false}};
    size_t len = strlen(pattern);
    if (len > PATTERN_MAX || !path_is_plain(path))
        return false;
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
