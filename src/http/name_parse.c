/* Folds names of headers and query members: see name.h. No state, no memory. */
#include "http/name.h"

#include "base/hex.h"

#include <ctype.h>
#include <string.h>

/* The next byte of a name: as it stands, or what it stands for in a query. */
static unsigned char next_byte(const char **at, const char *end, bool query)
{
    char c = *(*at)++;
    if (!query)
        return (unsigned char)c;
    if (c == '+')
        return ' ';
    int escaped = c == '%' && end - *at >= 2 ? hex_byte(*at) : -1;
    if (escaped < 0)
        return (unsigned char)c;
    *at += 2;
    return (unsigned char)escaped;
}

static bool is_plain(unsigned char c)
{
    return c < 0x80 && isalnum(c);
}

void name_fold(const char *name, size_t len, bool query, struct folded *ret)
{
    const char *at = name, *end = name + len;
    size_t n = 0, tight = 0;
    bool gap = false;
    ret->marked = false;
    while (at < end && n + 2 < NAME_MAX_FOLDED) {
        unsigned char c = next_byte(&at, end, query);
        if (!is_plain(c)) {
            ret->marked |= n == 0 && c != ' ';
            gap = n > 0;
            continue;
        }
        if (gap)
            ret->text[n++] = '-';
        gap = false;
        ret->text[n++] = (char)tolower(c);
        ret->tight[tight++] = (char)tolower(c);
    }
    ret->text[n] = ret->tight[tight] = '\0';
}

bool name_same(const struct folded *a, const char *listed)
{
    struct folded b;
    name_fold(listed, strlen(listed), false, &b);
    return strcmp(a->text, b.text) == 0;
}

bool name_has_word(const struct folded *a, const char *word)
{
    size_t len = strlen(word);
    for (const char *at = a->text; (at = strstr(at, word)); at++) {
        bool first = at == a->text || at[-1] == '-';
        if (first && (at[len] == '-' || at[len] == '\0'))
            return true;
    }
    return false;
}

bool name_has_part(const struct folded *a, const char *part)
{
    return strstr(a->tight, part) != NULL;
}

bool query_member_next(const char **at, struct query_member *ret)
{
    while (**at && strchr("?&;", **at))
        (*at)++;
    if (!**at)
        return false;
    ret->text = *at;
    ret->len = strcspn(*at, "&;");
    ret->name_len = strcspn(*at, "=&;");
    *at += ret->len;
    return true;
}
