/* Paths that a person typed: joining them with the current folder, and opening what they name. */
#include "cli/path.h"

#include "base/cleanup.h"

#include <errno.h>
#include <fcntl.h>
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

int path_reach(const char *path, const char *what, struct reached *ret, struct err *err)
{
    cleanup_buf struct buf full;
    buf_init(&full, PATH_MAX);
    ret->fd = -1;
    if (path_resolve(path, &full, err) < 0)
        return err_number(err);
    int r = reach_open(buf_text(&full), ret);
    if (r == -ELOOP && ret->link[0])
        return reach_refused(ret, what, path, err);
    errno = -r;
    return r < 0 ? err_sys(err, "%s %.200s", what, path) : 0;
}

int path_folder(const char *path, const char *what, char name[static NAME_MAX + 1], struct err *err)
{
    struct reached at;
    cleanup_buf struct buf full;
    buf_init(&full, PATH_MAX);
    if (path_resolve(path, &full, err) < 0)
        return err_number(err);
    const char *slash = strrchr(buf_text(&full), '/');
    size_t typed = strlen(path), len = strlen(slash + 1);
    if (!typed || path[typed - 1] == '/' || !len || len > NAME_MAX)
        return err_set(err, ERR_USAGE, "%s %.60s: not the name of a file", what, path);
    memcpy(name, slash + 1, len + 1);
    drop_last(&full);
    int r = reach_open(full.len ? buf_text(&full) : "/", &at);
    if (r == -ELOOP && at.link[0])
        return reach_refused(&at, what, path, err);
    if (r >= 0)
        r = reach_reopen(&at, O_RDONLY | O_DIRECTORY);
    reach_close(&at);
    errno = r < 0 ? -r : 0;
    return r < 0 ? err_sys(err, "%s: open the folder of %.200s", what, path) : r;
}
