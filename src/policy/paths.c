/* Normalises paths of a policy by their text alone. */
#include "policy/paths.h"

#include "base/cleanup.h"
#include "base/quote.h"

#include <limits.h>
#include <string.h>

static int check(const char *text, struct err *err)
{
    struct quoted q;
    if (text[0] != '/')
        return err_set(err, ERR_USAGE,
                       "%s is not an absolute path, expected one that begins with /",
                       quote(&q, text));
    if (strlen(text) >= PATH_MAX)
        return err_set(err, ERR_USAGE, "the path %s is too long, expected less than %d bytes",
                       quote(&q, text), PATH_MAX);
    if (text_has_control(text))
        return err_set(err, ERR_USAGE, "the path %s has a control character in it",
                       quote(&q, text));
    /* A path that is not UTF-8 cannot stand in JSON, so it could not be shown, hashed or written
     * back. */
    if (!text_is_utf8(text))
        return err_set(err, ERR_USAGE, "the path %s is not valid UTF-8", quote(&q, text));
    return 0;
}

/* Appends "/component"; out has room, because the result is never longer than the source. */
static char *append(char *out, const char *component, size_t len)
{
    *out++ = '/';
    memcpy(out, component, len);
    return out + len;
}

int path_normalise(const char *text, char **ret, struct err *err)
{
    struct quoted q;
    int r = check(text, err);
    if (r < 0)
        return r;
    cleanup_free char *path = malloc(strlen(text) + 2);
    if (!path)
        return err_memory(err);
    char *out = path;
    for (const char *s = text; *s;) {
        s += strspn(s, "/");
        size_t len = strcspn(s, "/");
        if (len == 2 && s[0] == '.' && s[1] == '.')
            return err_set(err, ERR_USAGE, "the path %s has .. in it, expected one without",
                           quote(&q, text));
        if (len > 0 && !(len == 1 && s[0] == '.'))
            out = append(out, s, len);
        s += len;
    }
    if (out == path)
        *out++ = '/';
    *out = '\0';
    *ret = path;
    path = NULL;
    return 0;
}
