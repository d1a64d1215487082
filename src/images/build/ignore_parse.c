/* .dockerignore: which files of the context are left out. The last pattern that fits decides. */
#include "images/build/dockerfile.h"

#include "base/cleanup.h"

#include <fnmatch.h>
#include <limits.h>
#include <string.h>

/* Nobody means more. */
#define STARS_MAX 4

static unsigned count_stars(const char *pattern)
{
    unsigned count = 0;
    for (const char *at = pattern; (at = strstr(at, "**")); at += 2)
        count++;
    return count;
}

/* Without blanks around it, a slash in front or behind, "./" and "//". */
static int add_pattern(struct ignore *i, const char *text, size_t len, struct err *err)
{
    char clean[PATH_MAX];
    size_t size = 0;
    bool exception = len && text[0] == '!';
    text += exception;
    len -= exception;
    if (len + 2 >= sizeof clean)
        return err_set(err, ERR_LIMIT, ".dockerignore: a line that is too long");
    if (exception)
        clean[size++] = '!';
    for (size_t at = 0; at < len;) {
        const char *slash = memchr(text + at, '/', len - at);
        size_t part = slash ? (size_t)(slash - text - at) : len - at;
        if (part && !(part == 1 && text[at] == '.')) {
            if (size > exception)
                clean[size++] = '/';
            memcpy(clean + size, text + at, part);
            size += part;
        }
        at += part + 1;
    }
    clean[size] = '\0';
    if (count_stars(clean) > STARS_MAX)
        return err_set(err, ERR_LIMIT, ".dockerignore: more than %d ** in one line", STARS_MAX);
    if (size == exception)
        return 0;
    return words_add(&i->patterns, clean, size, err);
}

int ignore_parse(const char *text, size_t len, struct ignore *ret, struct err *err)
{
    static const char blanks[] = " \t\r";
    *ret = (struct ignore){.patterns = {.count = 0}};
    if (memchr(text, '\0', len))
        return err_set(err, ERR_USAGE, ".dockerignore: a zero byte");
    for (size_t at = 0; at < len;) {
        const char *feed = memchr(text + at, '\n', len - at);
        size_t end = feed ? (size_t)(feed - text) : len, from = at, to = end;
        while (from < to && strchr(blanks, text[from]))
            from++;
        while (to > from && strchr(blanks, text[to - 1]))
            to--;
        if (from < to && text[from] != '#' && add_pattern(ret, text + from, to - from, err) < 0) {
            ignore_done(ret);
            return err_number(err);
        }
        at = end + 1;
    }
    return 0;
}

void ignore_done(struct ignore *i)
{
    words_done(&i->patterns);
}

static bool part_fits(const char *pattern, size_t pattern_len, const char *path, size_t path_len)
{
    char a[NAME_MAX + 1], b[NAME_MAX + 1];
    if (pattern_len > NAME_MAX || path_len > NAME_MAX)
        return false;
    memcpy(a, pattern, pattern_len);
    memcpy(b, path, path_len);
    a[pattern_len] = b[path_len] = '\0';
    return fnmatch(a, b, 0) == 0;
}

/* The whole path, or a folder that it lies in. Where it does not fit, the last "**" stands for one
 * folder more. Those before it need not be tried again: what they could leave to it is less. So the
 * time is that of a path by a pattern, however many there are of them. */
static bool fits(const char *pattern, const char *path)
{
    const char *after = NULL, *from = NULL; /* the last "**", and where what it stands for ends */
    for (;;) {
        size_t a = strcspn(pattern, "/"), b = strcspn(path, "/");
        if (a == 2 && pattern[0] == '*' && pattern[1] == '*') {
            if (!pattern[2])
                return true;
            after = pattern += 3;
            from = path;
        } else if (b && part_fits(pattern, a, path, b)) {
            if (!pattern[a])
                return true;
            if (!path[b])
                return false;
            pattern += a + 1;
            path += b + 1;
        } else {
            const char *slash = after ? strchr(from, '/') : NULL;
            if (!slash)
                return false;
            path = from = slash + 1;
            pattern = after;
        }
    }
}

bool ignore_has(const struct ignore *i, const char *path)
{
    bool ignored = false;
    for (size_t n = 0; n < i->patterns.count; n++) {
        const char *pattern = i->patterns.items[n];
        bool exception = pattern[0] == '!';
        if (exception == ignored && fits(pattern + exception, path))
            ignored = !exception;
    }
    return ignored;
}
