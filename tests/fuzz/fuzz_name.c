/* Folded names have one form, which folds to itself; members of a query lie in it one after the
 * other; and a path that is plain has no border or dots hidden in it, whoever decodes it. */
#include "http/name.h"
#include "http/target.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool condition)
{
    if (!condition)
        abort();
}

static void check_fold(const char *text, size_t len, bool query)
{
    struct folded f, again;
    name_fold(text, len, query, &f);
    size_t n = strlen(f.text);
    require(strspn(f.text, "abcdefghijklmnopqrstuvwxyz0123456789-") == n && !strstr(f.text, "--"));
    require(n == 0 || (f.text[0] != '-' && f.text[n - 1] != '-'));
    name_fold(f.text, n, query, &again);
    require(strcmp(f.text, again.text) == 0 && strcmp(f.tight, again.tight) == 0);
    require(name_same(&f, f.text) && name_has_part(&f, f.tight));
}

static void check_query(const char *text)
{
    const char *at = text, *last = text;
    struct query_member m;
    while (query_member_next(&at, &m)) {
        require(m.text >= last && m.len > 0 && m.name_len <= m.len && at == m.text + m.len);
        require(!memchr(m.text, '&', m.len) && !memchr(m.text, ';', m.len));
        require(!memchr(m.text, '=', m.name_len));
        last = at;
        check_fold(m.text, m.name_len, true);
    }
    require(!*at);
}

static int digit(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

static size_t decode(const char *text, char *out)
{
    size_t n = 0;
    for (; *text; n++) {
        bool escape = text[0] == '%' && digit(text[1]) >= 0 && digit(text[2]) >= 0;
        out[n] = escape ? (char)(digit(text[1]) << 4 | digit(text[2])) : *text;
        text += escape ? 3 : 1;
    }
    out[n] = '\0';
    return n;
}

static void check_path(const char *text)
{
    char *plain = malloc(strlen(text) + 1), *twice = malloc(strlen(text) + 1);
    if (plain && twice && path_is_plain(text)) {
        require(decode(text, plain) == strlen(plain) && decode(plain, twice) == strlen(plain));
        require(strcmp(plain, twice) == 0); /* decoded twice it is the same */
        for (const char *s = plain; *s;) {
            size_t len = strcspn(++s, "/"), dots = strspn(s, ". ");
            require(len == 0 ? !*s : dots < len && !(s[dots] == ';'));
            s += len;
        }
        require(path_pattern_match("/**", text));
    }
    free(plain);
    free(twice);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    if (!text)
        return 0;
    if (size)
        memcpy(text, data, size);
    text[size] = '\0';
    check_fold(text, size, false);
    check_fold(text, size, true);
    check_query(text);
    check_path(text);
    free(text);
    return 0;
}
