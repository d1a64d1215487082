/* The store's files: written beside, flushed, renamed; locks; names. */
#include "images/store.h"

#include "base/cleanup.h"
#include "base/quote.h"
#include "base/sha256.h"
#include "os/fd.h"
#include "os/remove.h"
#include "os/runstate.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_MAX (IMAGE_DOCUMENT_MAX + 1)

static int find_path(struct store *s, struct err *err)
{
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", s->fd);
    ssize_t n = readlink(link, s->path, sizeof s->path - 1);
    if (n <= 0 || (size_t)n > sizeof s->path - 200)
        return err_set(err, ERR_LIMIT, "the path of the state folder is too long for images");
    s->path[n] = '\0';
    return 0;
}

int store_open(struct store *s, bool make, struct err *err)
{
    static const char *const folders[] = {"names", "blobs", "unpacked", "roots", "tmp"};
    *s = (struct store)STORE_INIT;
    s->fd = runstate_open("images", make);
    if (s->fd < 0 && !make && errno == ENOENT)
        return 0;
    if (s->fd < 0) {
        err_sys(err, "open the folder of images");
        return err_hint(err, "set HOME or XDG_STATE_HOME to a folder of your own");
    }
    for (size_t i = 0; i < ARRAY_LEN(folders); i++)
        if (mkdirat(s->fd, folders[i], 0700) < 0 && errno != EEXIST)
            return err_sys(err, "make the folder of images");
    return find_path(s, err);
}

void store_close(struct store *s)
{
    if (s->fd >= 0)
        close(s->fd);
    s->fd = -1;
}

int store_lock(const struct store *s, bool exclusive, struct err *err)
{
    cleanup_fd int fd = openat(s->fd, "lock", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return err_sys(err, "open the lock of the images");
    while (flock(fd, exclusive ? LOCK_EX : LOCK_SH) < 0)
        if (errno != EINTR)
            return err_sys(err, "lock the images");
    return fd_steal(&fd);
}

/* ---- files ---- */

static int random_name(char *ret, size_t size, struct err *err)
{
    uint64_t number;
    if (getrandom(&number, sizeof number, 0) != sizeof number)
        return err_sys(err, "random name");
    snprintf(ret, size, "%016" PRIx64, number);
    return 0;
}

static int write_new(int dir, const char *name, const void *data, size_t len, bool flush,
                     struct err *err)
{
    cleanup_fd int fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    const char *at = data;
    if (fd < 0)
        return err_sys(err, "make a file of the images");
    while (len) {
        ssize_t n = write(fd, at, len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return err_sys(err, "write a file of the images");
        at += n;
        len -= (size_t)n;
    }
    return !flush || fsync(fd) == 0 ? 0 : err_sys(err, "flush a file of the images");
}

int store_write(const struct store *s, const char *folder, const char *name, const void *data,
                size_t len, struct err *err)
{
    char made[40] = "file-";
    if (random_name(made + 5, sizeof made - 5, err) < 0)
        return err_number(err);
    cleanup_fd int tmp = openat(s->fd, "tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    cleanup_fd int to = openat(s->fd, folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (tmp < 0 || to < 0)
        return err_sys(err, "open the folder of images");
    int r = write_new(tmp, made, data, len, true, err);
    if (r >= 0 && (renameat(tmp, made, to, name) < 0 || fsync(to) < 0))
        r = err_sys(err, "give a file of the images its name");
    if (r < 0)
        unlinkat(tmp, made, 0);
    return r;
}

/* 0: it is not there. 1: it was read. */
static int store_read(const struct store *s, const char *folder, const char *name, struct buf *ret,
                      struct err *err)
{
    char chunk[16384];
    ssize_t n;
    struct stat sb;
    cleanup_fd int dir = openat(s->fd, folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    cleanup_fd int fd =
        dir < 0 ? -1 : openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT)
        return 0;
    if (fd < 0 || fstat(fd, &sb) < 0)
        return err_sys(err, "open %s/%s of the images", folder, name);
    if (!S_ISREG(sb.st_mode) || sb.st_size >= FILE_MAX || (uint64_t)sb.st_size > ret->cap)
        return err_set(err, ERR_REFUSED, "%s/%s of the images is no file of theirs", folder, name);
    while ((n = read(fd, chunk, sizeof chunk)) > 0)
        buf_add(ret, chunk, (size_t)n);
    if (n < 0)
        return err_sys(err, "read %s/%s of the images", folder, name);
    return ret->failed ? err_memory(err) : 1; /* it fits, as was looked at */
}

int store_blob(const struct store *s, const char *digest, struct buf *ret, struct err *err)
{
    char hash[SHA256_HEX_SIZE];
    if (!digest_valid(digest))
        return err_set(err, ERR_INTERNAL, "a blob by something that is no digest");
    const char *name = digest + strlen("sha256:");
    int r = store_read(s, "blobs", name, ret, err);
    if (r <= 0)
        return r < 0 ? r : err_set(err, ERR_REFUSED, "%s is missing", digest);
    sha256_hex(buf_text(ret), ret->len, hash);
    return strcmp(hash, name) == 0 ? 0 : err_set(err, ERR_REFUSED, "%s has other content", digest);
}

/* ---- what is being made ---- */

int scratch_make(const struct store *s, struct scratch *ret, struct err *err)
{
    *ret = (struct scratch)SCRATCH_INIT;
    cleanup_fd int tmp = openat(s->fd, "tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (tmp < 0 || random_name(ret->name, sizeof ret->name, err) < 0)
        return tmp < 0 ? err_sys(err, "open the folder of images") : err_number(err);
    /* Whoever sweeps must not take it before it is locked. */
    cleanup_fd int lock = store_lock(s, false, err);
    if (lock < 0)
        return lock;
    if (mkdirat(tmp, ret->name, 0700) < 0)
        return err_sys(err, "make a folder for the image");
    ret->fd = openat(tmp, ret->name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (ret->fd < 0 || flock(ret->fd, LOCK_EX | LOCK_NB) < 0)
        return err_sys(err, "lock the folder for the image");
    snprintf(ret->path, sizeof ret->path, "%s/tmp/%s", s->path, ret->name);
    return 0;
}

void scratch_done(const struct store *s, struct scratch *t)
{
    if (t->fd < 0)
        return;
    cleanup_fd int tmp = openat(s->fd, "tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (tmp >= 0)
        (void)remove_folder(tmp, t->name, t->fd);
    close(t->fd);
    *t = (struct scratch)SCRATCH_INIT;
}

static bool sweep_one(int tmp, const char *name)
{
    struct stat sb;
    if (fstatat(tmp, name, &sb, AT_SYMLINK_NOFOLLOW) < 0)
        return false;
    if (!S_ISDIR(sb.st_mode))
        return unlinkat(tmp, name, 0) == 0;
    cleanup_fd int fd = openat(tmp, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0 && remove_folder(tmp, name, fd) == 0;
}

/* The caller has the store for itself: no file of tmp is being written. */
unsigned scratch_sweep(const struct store *s)
{
    unsigned count = 0;
    cleanup_fd int tmp = openat(s->fd, "tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *list = tmp < 0 ? NULL : folder_open(s->fd, "tmp");
    if (!list)
        return 0;
    for (struct dirent *e; (e = readdir(list));)
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            count += sweep_one(tmp, e->d_name);
    closedir(list);
    return count;
}

/* ---- names ---- */

static int name_parse(const char *text, size_t len, struct image_name *ret, struct err *err)
{
    struct json *doc = NULL;
    struct reference ref;
    if (json_parse(text, len, &json_default_limits, &doc, err) < 0)
        return err_number(err);
    const char *name = json_text(doc, "name"), *manifest = json_text(doc, "manifest");
    int r = name ? reference_parse(name, &ref, err) : err_set(err, ERR_REFUSED, "no name");
    if (r >= 0 && (!digest_valid(manifest) || strcmp(ref.name, name) != 0))
        r = err_set(err, ERR_REFUSED, "it is no name of an image");
    if (r >= 0) {
        *ret = (struct image_name){.name = ""};
        snprintf(ret->name, sizeof ret->name, "%s", name);
        snprintf(ret->manifest, sizeof ret->manifest, "%s", manifest);
        snprintf(ret->loaded, sizeof ret->loaded, "%s", json_shown(doc, "loaded"));
    }
    json_free(doc);
    return r;
}

static int name_read_file(const struct store *s, const char *file, struct image_name *ret,
                          struct err *err)
{
    char hash[SHA256_HEX_SIZE];
    cleanup_buf struct buf text;
    buf_init(&text, 64 * 1024);
    int r = store_read(s, "names", file, &text, err);
    if (r <= 0)
        return r;
    if (name_parse(buf_text(&text), text.len, ret, err) < 0)
        return err_wrap(err, "names/%.64s", file);
    sha256_hex(ret->name, strlen(ret->name), hash);
    if (strcmp(hash, file) != 0)
        return err_set(err, ERR_REFUSED, "names/%.64s is the file of another name", file);
    return 1;
}

int name_read(const struct store *s, const char *name, struct image_name *ret, struct err *err)
{
    char file[SHA256_HEX_SIZE];
    if (s->fd < 0)
        return 0;
    sha256_hex(name, strlen(name), file);
    return name_read_file(s, file, ret, err);
}

int name_write(const struct store *s, const struct image_name *n, struct err *err)
{
    char file[SHA256_HEX_SIZE];
    struct json_writer w;
    struct buf text;
    sha256_hex(n->name, strlen(n->name), file);
    jw_begin(&w, &text, 4096);
    jw_kv_string(&w, "name", n->name);
    jw_kv_string(&w, "manifest", n->manifest);
    jw_kv_string(&w, "loaded", n->loaded);
    jw_object_end(&w);
    int r = text.failed ? err_memory(err)
                        : store_write(s, "names", file, buf_text(&text), text.len, err);
    buf_done(&text);
    return r;
}

int name_remove(const struct store *s, const char *name, struct err *err)
{
    char file[SHA256_HEX_SIZE];
    sha256_hex(name, strlen(name), file);
    cleanup_fd int dir = openat(s->fd, "names", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0 || unlinkat(dir, file, 0) < 0 || fsync(dir) < 0)
        return err_sys(err, "remove the name %s", name);
    return 0;
}

int names_each(const struct store *s,
               int (*fn)(void *ctx, const struct image_name *n, const char *file, struct err *err),
               void *ctx, struct err *err)
{
    DIR *list = s->fd < 0 ? NULL : folder_open(s->fd, "names");
    struct dirent *e;
    int r = 0, more = 0;
    if (!list)
        return s->fd < 0 ? 0 : err_sys(err, "list the images");
    while (r >= 0 && (more = folder_next(list, &e)) > 0) {
        struct image_name n;
        struct err why = ERR_INIT;
        int found = name_read_file(s, e->d_name, &n, &why);
        if (found != 0)
            r = fn(ctx, found > 0 ? &n : NULL, e->d_name, &why);
        if (r < 0)
            *err = why;
    }
    if (r >= 0 && more < 0)
        r = err_sys(err, "list the images");
    closedir(list);
    return r;
}

/* ---- roots ---- */

int root_hold(const struct store *s, const char chain[static 65])
{
    struct stat held, there;
    cleanup_fd int roots = openat(s->fd, "roots", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (roots < 0)
        return -errno;
    cleanup_fd int fd = openat(roots, chain, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    if (flock(fd, LOCK_SH | LOCK_NB) < 0)
        return -ENOENT; /* it is being removed */
    if (fstat(fd, &held) < 0 || fstatat(roots, chain, &there, AT_SYMLINK_NOFOLLOW) < 0 ||
        held.st_ino != there.st_ino)
        return -ENOENT;
    return fd_steal(&fd);
}

bool root_in_use(const struct store *s, const char *chain)
{
    cleanup_fd int roots = openat(s->fd, "roots", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    cleanup_fd int fd =
        roots < 0 ? -1 : openat(roots, chain, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) < 0;
}

int root_is_there(const struct store *s, const char *chain, struct err *err)
{
    struct stat sb;
    cleanup_fd int roots = openat(s->fd, "roots", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (roots >= 0 && fstatat(roots, chain, &sb, AT_SYMLINK_NOFOLLOW) == 0)
        return 1;
    return roots >= 0 && errno == ENOENT ? 0 : err_sys(err, "look for the files of an image");
}

int root_facts_write(int folder, const struct root_facts *f, struct err *err)
{
    struct json_writer w;
    struct buf text;
    jw_begin(&w, &text, 4096);
    jw_kv_string(&w, "tree", f->tree);
    jw_kv_uint(&w, "bytes", f->bytes);
    jw_kv_uint(&w, "files", f->files);
    jw_kv_uint(&w, "left_out", f->left_out);
    if (f->shared)
        jw_kv_bool(&w, "shared", true);
    if (f->diff_id[0]) {
        jw_kv_string(&w, "diff_id", f->diff_id);
        jw_kv_uint(&w, "packed", f->packed);
    }
    jw_object_end(&w);
    int r = text.failed ? err_memory(err)
                        : write_new(folder, "facts", buf_text(&text), text.len, false, err);
    buf_done(&text);
    return r;
}

int root_facts_read(int root, struct root_facts *ret, struct err *err)
{
    char text[4096];
    struct json *doc = NULL;
    ssize_t n = file_read(root, "facts", text, sizeof text);
    if (n < 0)
        return err_set(err, ERR_REFUSED, "the facts about its root are missing");
    if (json_parse(text, (size_t)n, &json_default_limits, &doc, err) < 0)
        return err_wrap(err, "the facts about its root");
    const struct json *shared = json_get(doc, "shared");
    *ret = (struct root_facts){.bytes = json_uint(doc, "bytes"),
                               .files = json_uint(doc, "files"),
                               .left_out = json_uint(doc, "left_out"),
                               .packed = json_uint(doc, "packed"),
                               .shared =
                                   shared && json_type(shared) == JSON_BOOL && json_bool(shared)};
    bool good = digest_valid(json_text(doc, "tree"));
    if (good)
        snprintf(ret->tree, sizeof ret->tree, "%s", json_text(doc, "tree"));
    if (digest_valid(json_text(doc, "diff_id")))
        snprintf(ret->diff_id, sizeof ret->diff_id, "%s", json_text(doc, "diff_id"));
    json_free(doc);
    return good ? 0 : err_set(err, ERR_REFUSED, "the facts about its root are none");
}
