/* The state folder: 0700, opened once, everything in it by descriptor. */
#include "cli/serve/serve.h"

#include "base/cleanup.h"
#include "base/sha256.h"
#include "cli/path.h"
#include "cli/state.h"
#include "cli/term.h"
#include "os/keep.h"
#include "os/remove.h"
#include "os/trusted.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

/* The folders above are made as any program makes them; the last one is ours alone. */
static void make_parents(const char *path)
{
    char part[3072];
    for (const char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        if ((size_t)(slash - path) >= sizeof part)
            return;
        memcpy(part, path, (size_t)(slash - path));
        part[slash - path] = '\0';
        mkdir(part, 0755);
    }
}

static int check_folder(const char *path, int fd, struct err *err)
{
    struct stat sb;
    if (fstat(fd, &sb) < 0)
        return err_sys(err, "look at %s", path);
    if (sb.st_uid != geteuid())
        return err_set(err, ERR_REFUSED, "%s belongs to somebody else", path);
    if (sb.st_mode & (S_IWGRP | S_IWOTH)) {
        err_set(err, ERR_REFUSED, "%s can be written by others", path);
        return err_hint(err, "chmod 700 %s, if what is in it is yours", path);
    }
    return 0;
}

static int take_lock(struct serve_state *s, struct err *err)
{
    s->lock_fd = openat(s->fd, "lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (s->lock_fd < 0)
        return err_sys(err, "%s/lock", s->path);
    if (flock(s->lock_fd, LOCK_EX | LOCK_NB) == 0)
        return 0;
    if (errno != EWOULDBLOCK)
        return err_sys(err, "lock %s", s->path);
    err_set(err, ERR_REFUSED, "another brig serve uses %s", s->path);
    return err_hint(err, "end it, or name another folder with --state");
}

int serve_state_open(struct serve_state *s, const char *path, struct err *err)
{
    cleanup_buf struct buf full;
    buf_init(&full, sizeof s->path - 1);
    *s = (struct serve_state){.fd = -1, .lock_fd = -1};
    if (state_folder(path, &full, err) < 0)
        return err_number(err);
    snprintf(s->path, sizeof s->path, "%s", buf_text(&full));
    make_parents(s->path);
    if (mkdir(s->path, 0700) < 0 && errno != EEXIST)
        return err_sys(err, "make the state folder %s", s->path);
    s->fd = open(s->path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (s->fd < 0)
        return err_sys(err, "open the state folder %s", s->path);
    if (check_folder(s->path, s->fd, err) < 0 || take_lock(s, err) < 0)
        return err_number(err);
    keep_folder(s->fd);
    return 0;
}

/* ---- the key ---- */

static int write_key(int dir, const char *file, char key[static API_KEY_SIZE], struct err *err)
{
    cleanup_fd int fd =
        openat(dir, file, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    char line[API_KEY_SIZE + 1];
    if (fd < 0)
        return err_sys(err, "make the key file %s", file);
    if (api_key_make(key, err) < 0)
        return err_number(err);
    int len = snprintf(line, sizeof line, "%s\n", key);
    bool good = write(fd, line, (size_t)len) == len && fsync(fd) == 0;
    explicit_bzero(line, sizeof line);
    return good ? 0 : err_sys(err, "write the key file %s", file);
}

void serve_keep(const char *file)
{
    cleanup_buf struct buf path;
    struct err ignored = ERR_INIT;
    buf_init(&path, PATH_MAX);
    if (path_resolve(file, &path, &ignored) >= 0)
        keep_file(buf_text(&path));
}

int serve_key(struct serve_state *s, const char *file, struct launcher_config *c, struct err *err)
{
    int dir = file ? AT_FDCWD : s->fd;
    const char *name = file ? file : "key";
    if (file)
        snprintf(s->key_path, sizeof s->key_path, "%s", file);
    else
        snprintf(s->key_path, sizeof s->key_path, "%s/key", s->path);
    struct err mine = ERR_INIT;
    cleanup_fd int fd = trusted_open(dir, name, "the key file", TRUSTED_PRIVATE, &mine);
    if (fd < 0 && mine.sys_errno != ENOENT) {
        *err = mine;
        return fd;
    }
    s->key_is_new = fd < 0;
    int r = fd < 0 ? write_key(dir, name, s->key, err) : api_key_read(fd, name, s->key, err);
    if (r < 0)
        return r;
    if (file)
        serve_keep(file);
    sha256_hex(s->key, strlen(s->key), c->key_hash);
    snprintf(c->key_id, sizeof c->key_id, "k_%.10s", c->key_hash);
    if (!s->key_is_new)
        explicit_bzero(s->key, sizeof s->key);
    return 0;
}

/* ---- where the daemon is ---- */

int serve_address_write(const struct serve_state *s, const struct launcher_config *c,
                        struct err *err)
{
    cleanup_buf struct buf text;
    buf_init(&text, 4096);
    for (int tcp = 0; tcp < 2; tcp++)
        for (unsigned i = 0; i < c->listener_count; i++)
            if ((strcmp(c->listeners[i].kind, "tcp") == 0) == tcp)
                buf_fmt(&text, "%s\n", c->listeners[i].address);
    /* Replaced atomically: a reader never sees half of it. */
    unlinkat(s->fd, "address.new", 0);
    cleanup_fd int fd =
        openat(s->fd, "address.new", O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, buf_text(&text), text.len) != (ssize_t)text.len ||
        renameat(s->fd, "address.new", s->fd, "address") < 0)
        return err_sys(err, "write %s/address", s->path);
    return 0;
}

void serve_address_remove(const struct serve_state *s)
{
    if (s->fd >= 0 && s->lock_fd >= 0)
        unlinkat(s->fd, "address", 0);
}

void serve_state_remove(const struct serve_state *s)
{
    struct stat here, there;
    if (s->fd < 0 || s->lock_fd < 0)
        return;
    keep_forget(s->fd);
    /* Another folder may have taken the name: leave that one alone. */
    bool ours = fstat(s->fd, &here) == 0 && lstat(s->path, &there) == 0 &&
                here.st_dev == there.st_dev && here.st_ino == there.st_ino;
    int left = ours ? remove_folder(AT_FDCWD, s->path, s->fd) : remove_contents(s->fd);
    if (left < 0)
        term_say("left behind: %s could not be removed", s->path);
}

void serve_state_done(struct serve_state *s)
{
    explicit_bzero(s->key, sizeof s->key);
    if (s->lock_fd >= 0)
        close(s->lock_fd);
    if (s->fd >= 0)
        close(s->fd);
    s->fd = s->lock_fd = -1;
}
