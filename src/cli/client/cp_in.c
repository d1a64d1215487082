/* `brig cp` into a sandbox: sends files and folders of the caller to the daemon's file API. */
#include "base/cleanup.h"
#include "cli/client/cp.h"
#include "cli/path.h"
#include "cli/term.h"
#include "os/fd.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define DEPTH_MAX 64

static void file_path(struct buf *out, const char *inside)
{
    buf_init(out, 16384);
    buf_str(out, "/files?path=");
    client_encode(out, inside);
}

static int send_content(struct copy *c, struct call *call, int fd, uint64_t left, struct err *err)
{
    static char block[256 << 10];
    while (left > 0) {
        size_t want = left < sizeof block ? (size_t)left : sizeof block;
        ssize_t n = read(fd, block, want);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? err_sys(err, "read")
                         : err_set(err, ERR_SYSTEM, "it became shorter while it was read");
        if (call_send(call, block, (size_t)n, err) < 0) {
            /* The daemon may have said why before it stopped listening. */
            struct err said = ERR_INIT;
            if (call_head(call, &said) < 0 && said.code != ERR_PROTOCOL && said.code != ERR_SYSTEM)
                *err = said;
            return err_number(err);
        }
        left -= (uint64_t)n;
        c->bytes += (uint64_t)n;
    }
    return 0;
}

static int put_file(struct copy *c, int fd, const struct stat *sb, const char *inside,
                    struct err *err)
{
    struct call call;
    cleanup_buf struct buf path = {0};
    file_path(&path, inside);
    if (path.failed)
        return err_set(err, ERR_LIMIT, "the path is too long");
    struct ask ask = {.method = "POST",
                      .path = buf_text(&path),
                      .box = c->id,
                      .type = "application/octet-stream"};
    call_init(&call);
    int r = call_begin(&call, c->client, &ask, (uint64_t)sb->st_size, err);
    if (r >= 0)
        r = send_content(c, &call, fd, (uint64_t)sb->st_size, err);
    if (r >= 0)
        r = call_head(&call, err);
    call_done(&call);
    c->files += r >= 0;
    return r;
}

static int make_folder(struct copy *c, const char *inside, struct err *err)
{
    cleanup_json struct json *none = NULL;
    cleanup_buf struct buf body = {0};
    struct json_writer w;
    buf_init(&body, 16384);
    jw_init(&w, &body, false);
    jw_object_begin(&w);
    jw_kv_string(&w, "path", inside);
    jw_object_end(&w);
    struct ask ask = {.method = "POST",
                      .path = "/filesystem.Filesystem/MakeDir",
                      .box = c->id,
                      .body = buf_text(&body),
                      .body_len = body.len};
    struct err said = ERR_INIT;
    int r = client_json(c->client, &ask, &none, &said);
    /* 409: it is there already. */
    if (r < 0 && said.code != ERR_REFUSED)
        *err = said;
    return r < 0 && said.code != ERR_REFUSED ? r : 0;
}

static int put_any(struct copy *c, int dir, const char *name, const char *inside, unsigned depth,
                   struct err *err);

static int put_folder(struct copy *c, int fd, const char *inside, unsigned depth, struct err *err)
{
    DIR *dir = folder_take(fd);
    int r = dir ? make_folder(c, inside, err) : err_sys(err, "list %s", inside);
    struct dirent *e;
    int more = 0;
    while (r >= 0 && (more = folder_next(dir, &e)) > 0) {
        cleanup_buf struct buf below = {0}, text = {0};
        copy_text_of(&text, e->d_name);
        buf_init(&below, 4096);
        buf_fmt(&below, "%s/%s", inside, buf_text(&text));
        r = below.failed ? err_set(err, ERR_LIMIT, "the path is too long")
                         : put_any(c, dirfd(dir), e->d_name, buf_text(&below), depth + 1, err);
    }
    if (r >= 0 && more < 0)
        r = err_sys(err, "list %s", inside);
    if (dir)
        closedir(dir);
    return r;
}

/* Takes the descriptor. */
static int put_opened(struct copy *c, int fd, const char *name, const char *inside, unsigned depth,
                      struct err *err)
{
    struct stat sb;
    if (fstat(fd, &sb) < 0) {
        err_sys(err, "open %s", name);
        close(fd);
        return err_number(err);
    }
    if (S_ISDIR(sb.st_mode) && (!c->recursive || depth > DEPTH_MAX)) {
        close(fd);
        err_set(err, ERR_USAGE, depth ? "%s lies too deep" : "%s is a folder", name);
        return depth ? err_number(err) : err_hint(err, "-r copies folders");
    }
    if (S_ISDIR(sb.st_mode))
        return put_folder(c, fd, inside, depth, err);
    int r = 0;
    if (S_ISREG(sb.st_mode))
        r = put_file(c, fd, &sb, inside, err);
    else if (depth == 0)
        r = err_set(err, ERR_USAGE, "%s is no plain file", name);
    else
        term_say("%s is no plain file: left out", name);
    close(fd);
    return r < 0 ? err_wrap(err, "%s", name) : 0;
}

static int put_any(struct copy *c, int dir, const char *name, const char *inside, unsigned depth,
                   struct err *err)
{
    int fd = openat(dir, name, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0 && errno == ELOOP) {
        term_say("%s is a link: left out", name);
        return 0;
    }
    return fd < 0 ? err_sys(err, "open %s", name) : put_opened(c, fd, name, inside, depth, err);
}

int copy_in(struct copy *c, struct err *err)
{
    cleanup_buf struct buf inside = {0}, base = {0};
    size_t len = strlen(c->inside);
    copy_text_of(&base, copy_base(c->here));
    buf_init(&inside, 4096);
    buf_str(&inside, c->inside);
    if (len == 0 || c->inside[len - 1] == '/')
        buf_str(&inside, buf_text(&base));
    struct reached at;
    if (path_reach(c->here, "cannot copy", &at, err) < 0)
        return err_number(err);
    int fd = reach_reopen(&at, O_RDONLY | O_NONBLOCK | O_NOCTTY);
    reach_close(&at);
    errno = -fd;
    return fd < 0 ? err_sys(err, "open %s", c->here)
                  : put_opened(c, fd, c->here, buf_text(&inside), 0, err);
}
