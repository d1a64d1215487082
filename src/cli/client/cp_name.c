/* Names of files as `brig cp` writes and reads them. */
#include "base/utf8.h"
#include "cli/client/cp.h"

#include <string.h>

const char *copy_base(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static void convert(struct buf *out, const char *from,
                    size_t (*fn)(const char *from, size_t len, char *out))
{
    size_t len = strlen(from);
    buf_init(out, UTF8_ESCAPED_MAX(len) + 1);
    buf_room(out, UTF8_ESCAPED_MAX(len) + 1);
    if (out->failed)
        return;
    out->len = fn(from, len, out->data);
    out->data[out->len] = '\0';
}

void copy_text_of(struct buf *out, const char *name)
{
    convert(out, name, utf8_escape);
}

void copy_name_of(struct buf *out, const char *text)
{
    convert(out, text, utf8_unescape);
}

void copy_mend(struct buf *out, const char *path)
{
    convert(out, path, utf8_mend);
}
