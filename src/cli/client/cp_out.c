/* `brig cp` out of a sandbox. Names and contents come from hostile code: nothing is written outside
 * of the target, and no link is followed on the way. */
#include "base/cleanup.h"
#include "base/text.h"
#include "cli/client/cp.h"
#include "cli/path.h"
#include "cli/term.h"
#include "os/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

/* A path from the sandbox that may be used below the target: relative, plain names only. */
static bool plain(const char *path)
{
    while (*path) {
        size_t len = strcspn(path, "/");
        if (len == 0 || len > 255 || (len == 1 && path[0] == '.') ||
            (len == 2 && path[0] == '.' && path[1] == '.'))
            return false;
        path += len;
        path += *path == '/';
    }
    return true;
}

/* A descriptor of the folder that `path` (plain) lies in, made where it is missing; no link on the
 * way. */
static int open_parent(int root, const char *path, struct err *err)
{
    int at = fcntl(root, F_DUPFD_CLOEXEC, 3);
    for (const char *slash; at >= 0 && (slash = strchr(path, '/')); path = slash + 1) {
        char name[256];
        snprintf(name, sizeof name, "%.*s", (int)(slash - path), path);
        if (mkdirat(at, name, 0777) < 0 && errno != EEXIST)
            break;
        int next = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        close(at);
        at = next;
    }
    return at < 0 ? err_sys(err, "enter %s", path) : at;
}

static int receive(struct copy *c, struct call *call, int fd, struct err *err)
{
    const char *piece;
    ssize_t n;
    while ((n = call_read(call, &piece, err)) > 0) {
        if (term_write(fd, piece, (size_t)n) < 0)
            return err_sys(err, "write");
        c->bytes += (uint64_t)n;
    }
    return n < 0 ? (int)n : 0;
}

static int fetch(struct copy *c, const char *inside, int fd, struct err *err)
{
    struct call call;
    cleanup_buf struct buf path = {0};
    buf_init(&path, 16384);
    buf_str(&path, "/files?path=");
    client_encode(&path, inside);
    if (path.failed)
        return err_set(err, ERR_LIMIT, "the path is too long");
    struct ask ask = {.method = "GET", .path = buf_text(&path), .box = c->id};
    call_init(&call);
    int r = call_start(&call, c->client, &ask, err);
    if (r >= 0)
        r = receive(c, &call, fd, err);
    call_done(&call);
    return r;
}

/* Into a new file, renamed over the old name when it is complete. */
static int get_file(struct copy *c, const char *inside, int dir, const char *name, unsigned mode,
                    struct err *err)
{
    char temp[64];
    uint64_t random;
    if (getrandom(&random, sizeof random, 0) != sizeof random)
        return err_sys(err, "random name");
    snprintf(temp, sizeof temp, ".brig-%016llx", (unsigned long long)random);
    int fd = openat(dir, temp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return err_sys(err, "make a file beside %s", name);
    mode_t mask = umask(0);
    umask(mask);
    int r = fetch(c, inside, fd, err);
    if (r >= 0 && fchmod(fd, mode & 0777 & ~mask) < 0)
        r = err_sys(err, "set the mode of %s", name);
    if (close(fd) < 0 && r >= 0)
        r = err_sys(err, "write %s", name);
    if (r >= 0 && renameat(dir, temp, dir, name) < 0)
        r = err_sys(err, "put %s into its place", name);
    if (r < 0)
        unlinkat(dir, temp, 0);
    c->files += r >= 0;
    return r;
}

static int ask_entry(struct copy *c, const char *method, const char *inside, int depth,
                     struct json **ret, struct err *err)
{
    char path[80];
    cleanup_buf struct buf body = {0};
    struct json_writer w;
    snprintf(path, sizeof path, "/filesystem.Filesystem/%s", method);
    buf_init(&body, 16384);
    jw_init(&w, &body, false);
    jw_object_begin(&w);
    jw_kv_string(&w, "path", inside);
    if (depth)
        jw_kv_int(&w, "depth", depth);
    jw_object_end(&w);
    struct ask ask = {.method = "POST",
                      .path = path,
                      .box = c->id,
                      .body = buf_text(&body),
                      .body_len = body.len};
    return client_json(c->client, &ask, ret, err);
}

static int get_one(struct copy *c, const struct json *entry, const char *top, int root,
                   struct err *err)
{
    const char *type = json_text(entry, "type"), *path = json_text(entry, "path");
    cleanup_buf struct buf name = {0};
    bool good = type && path && path_below(path, top);
    if (good)
        copy_name_of(&name, path + strlen(top) + 1);
    if (!good || name.failed || !plain(buf_text(&name))) {
        term_say("a name that cannot be used here was left out");
        return 0;
    }
    const char *below = buf_text(&name);
    bool folder = strstr(type, "DIRECTORY") != NULL;
    /* A link has the type of what it leads to. */
    if (json_get(entry, "symlinkTarget") || (!folder && !strstr(type, "FILE_TYPE_FILE"))) {
        term_say("%s is no plain file: left out", below);
        return 0;
    }
    cleanup_fd int parent = open_parent(root, below, err);
    if (parent < 0)
        return err_number(err);
    if (folder)
        return mkdirat(parent, copy_base(below), 0777) < 0 && errno != EEXIST
                   ? err_sys(err, "make folder %s", below)
                   : 0;
    return get_file(c, path, parent, copy_base(below), (unsigned)member_int(entry, "mode", 0644),
                    err);
}

/* The files come from hostile code: do not write through a link that such code may have made. */
static int open_folder(const char *path, struct err *err)
{
    struct reached at;
    if (path_reach(path, "cannot copy to", &at, err) < 0)
        return err_number(err);
    int fd = reach_reopen(&at, O_RDONLY | O_DIRECTORY);
    reach_close(&at);
    errno = fd < 0 ? -fd : 0;
    return fd < 0 ? err_sys(err, "open %s", path) : fd;
}

/* The folder of what was named, and its name in it; "" for the root. */
static int open_above(const struct copy *c, char name[static NAME_MAX + 1], struct err *err)
{
    cleanup_buf struct buf full;
    buf_init(&full, PATH_MAX);
    if (path_resolve(c->here, &full, err) < 0)
        return err_number(err);
    char *slash = strrchr(full.data, '/');
    if (strlen(slash + 1) > NAME_MAX)
        return err_set(err, ERR_USAGE, "%.80s is too long a name", c->here);
    snprintf(name, NAME_MAX + 1, "%s", slash + 1);
    slash[slash == full.data] = '\0';
    return open_folder(full.data, err);
}

static int make_here(const struct copy *c, struct err *err)
{
    char name[NAME_MAX + 1] = "";
    cleanup_fd int above = open_above(c, name, err);
    if (above < 0)
        return above;
    if (name[0] && mkdirat(above, name, 0777) < 0 && errno != EEXIST)
        return err_sys(err, "make folder %s", c->here);
    return open_folder(c->here, err);
}

static int get_folder(struct copy *c, const char *top, struct err *err)
{
    cleanup_json struct json *answer = NULL;
    if (ask_entry(c, "ListDir", top, 64, &answer, err) < 0)
        return err_number(err);
    cleanup_fd int root = make_here(c, err);
    if (root < 0)
        return root;
    const struct json *entries = answer ? json_get(answer, "entries") : NULL;
    int r = 0;
    for (size_t i = 0; r >= 0 && entries && i < json_count(entries); i++)
        r = get_one(c, json_at(entries, i), top, root, err);
    return r;
}

/* Where one file goes: the folder, and the name in it. */
static int open_target(const struct copy *c, const char *source, char name[static NAME_MAX + 1],
                       struct err *err)
{
    struct err why = ERR_INIT;
    int fd = open_folder(c->here, &why);
    if (fd >= 0) {
        cleanup_buf struct buf base = {0};
        copy_name_of(&base, copy_base(source));
        snprintf(name, NAME_MAX + 1, "%s", buf_text(&base));
        return fd;
    }
    if (why.code != ERR_SYSTEM) {
        *err = why;
        return fd;
    }
    size_t len = strlen(c->here);
    if (len == 0 || c->here[len - 1] == '/')
        return err_set(err, ERR_USAGE, "%.80s is no folder", c->here);
    return open_above(c, name, err);
}

int copy_out(struct copy *c, struct err *err)
{
    cleanup_json struct json *answer = NULL;
    char name[NAME_MAX + 1];
    if (ask_entry(c, "Stat", c->inside, 0, &answer, err) < 0)
        return err_number(err);
    const struct json *entry = answer ? json_get(answer, "entry") : NULL;
    const char *type = json_text(entry, "type"), *path = json_text(entry, "path");
    if (!type || !path || path[0] != '/')
        return err_set(err, ERR_PROTOCOL, "the daemon does not say what %s is", c->inside);
    if (strstr(type, "DIRECTORY") && !c->recursive) {
        err_set(err, ERR_USAGE, "%s is a folder", c->inside);
        return err_hint(err, "-r copies folders");
    }
    if (strstr(type, "DIRECTORY"))
        return get_folder(c, path, err);
    cleanup_fd int dir = open_target(c, path, name, err);
    if (dir < 0)
        return err_number(err);
    return get_file(c, path, dir, name, (unsigned)member_int(entry, "mode", 0644), err);
}
