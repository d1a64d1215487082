#include "cli/path.h"

#include <limits.h>
#include <string.h>
#include <unistd.h>

static void drop_last(struct buf *out)
{
    while (out->len > 0 && out->data[out->len - 1] != '/')
        out->len--;
    if (out->len > 0)
        out->len--;
    if (out->data)
        out->data[out->len] = '\0';
}

/* `out` holds "" for the root or "/a/b" in between. */
static void append(struct buf *out, const char *path)
{
    while (*path) {
        size_t len = strcspn(path, "/");
        if (len == 2 && path[0] == '.' && path[1] == '.') {
            drop_last(out);
        } else if (len > 0 && !(len == 1 && path[0] == '.')) {
            buf_chr(out, '/');
            buf_add(out, path, len);
        }
        path += len;
        path += strspn(path, "/");
    }
}

void path_join(const char *base, const char *path, struct buf *out)
{
    buf_reset(out);
    if (path[0] != '/')
        append(out, base);
    append(out, path);
    if (out->len == 0)
        buf_chr(out, '/');
}

int path_resolve(const char *path, struct buf *out, struct err *err)
{
    char here[PATH_MAX] = "/";
    /* A current folder outside our root is reported as "(unreachable)…". */
    if (path[0] != '/' && (!getcwd(here, sizeof here) || here[0] != '/'))
        return err_sys(err, "find the current folder");
    path_join(here, path, out);
    if (out->failed)
        return err_set(err, ERR_USAGE, "path too long: %.60s…", path);
    return 0;
}
