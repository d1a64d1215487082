/* Names in bodies: however the body is cut into pieces, the same is found; and in a form exactly
 * what a reader finds that has all of it at once. */
#include "http/form.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define WANTED "_method"

static bool is_wanted(const char *name, size_t len)
{
    return len == strlen(WANTED) && memcmp(name, WANTED, len) == 0;
}

static int read_all(enum form_kind kind, const char *text, size_t len, unsigned cut)
{
    struct form_reader *f = NULL;
    struct err err = ERR_INIT;
    if (form_open(kind, "multipart/form-data; boundary=b", is_wanted, &f, &err) < 0)
        abort();
    int r = 0;
    for (size_t at = 0; r == 0 && at < len;) {
        cut = cut * 5 + 7;
        size_t n = 1 + cut / 4 % (cut % 3 ? 5 : 300);
        n = n < len - at ? n : len - at;
        r = form_feed(f, text + at, n, &err);
        at += n;
    }
    form_close(f);
    return r < 0 ? -1 : r;
}

static bool has_member(const char *text, size_t len)
{
    for (size_t at = 0; at < len;) {
        size_t end = at, name = at;
        while (end < len && text[end] != '&' && text[end] != ';')
            end++;
        while (name < end && text[name] != '=')
            name++;
        size_t from = at;
        while (from < name && (text[from] == '+' || text[from] == ' ' ||
                               (name - from >= 3 && memcmp(text + from, "%20", 3) == 0)))
            from += text[from] == '%' ? 3 : 1;
        if (name < end && is_wanted(text + from, name - from))
            return true;
        at = end + 1;
    }
    return false;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const enum form_kind kinds[] = {FORM_URLENCODED, FORM_MULTIPART, FORM_JSON, FORM_WORDS};
    if (size < 2 || size > 4096)
        return 0;
    enum form_kind kind = kinds[data[0] % 4];
    const char *text = (const char *)data + 2;
    int whole = read_all(kind, text, size - 2, 2 * 300 * 4);
    if (read_all(kind, text, size - 2, data[1]) != whole)
        abort();
    if (kind == FORM_URLENCODED && (whole == 1) != has_member(text, size - 2))
        abort();
    return 0;
}
