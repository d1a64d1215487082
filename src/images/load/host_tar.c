/* Writes files of the host as a layer: a tar archive, plain. Only what everybody may read goes into
 * it. */
#include "base/cleanup.h"
#include "base/hex.h"
#include "base/sha256.h"
#include "images/load/host.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BLOCK     512
#define NAME_SIZE 100

struct header {
    char name[NAME_SIZE], mode[8], uid[8], gid[8], size[12], mtime[12], sum[8], type;
    char link[NAME_SIZE], magic[8], user[32], group[32], major[8], minor[8], prefix[155], rest[12];
};
_Static_assert(sizeof(struct header) == BLOCK, "a block of a tar archive");

struct tar {
    int fd;
    struct sha256 sha;
    char *chunk;
};
#define CHUNK (256u << 10)

static int put(struct tar *t, const void *data, size_t len, struct err *err)
{
    const char *at = data;
    sha256_add(&t->sha, data, len);
    while (len) {
        ssize_t n = write(t->fd, at, len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return err_sys(err, "write the layer");
        at += n;
        len -= (size_t)n;
    }
    return 0;
}

static int pad(struct tar *t, uint64_t len, struct err *err)
{
    static const char zeros[BLOCK];
    return len % BLOCK ? put(t, zeros, BLOCK - len % BLOCK, err) : 0;
}

static int put_header(struct tar *t, const char *name, const char *link, char type, mode_t mode,
                      uint64_t size, time_t time, struct err *err)
{
    struct header h = {.type = type};
    char number[32];
    unsigned sum = 0;
    memcpy(h.name, name, strnlen(name, sizeof h.name));
    memcpy(h.link, link, strnlen(link, sizeof h.link));
    memcpy(h.magic, "ustar  ", 8);
    snprintf(h.mode, sizeof h.mode, "%07o", (unsigned)mode & 0777);
    memcpy(h.uid, "0000000", 8);
    memcpy(h.gid, "0000000", 8);
    snprintf(number, sizeof number, "%011" PRIo64, size);
    memcpy(h.size, number, sizeof h.size);
    snprintf(number, sizeof number, "%011" PRIo64, (uint64_t)(time > 0 ? time : 0));
    memcpy(h.mtime, number, sizeof h.mtime);
    memset(h.sum, ' ', sizeof h.sum);
    for (size_t i = 0; i < sizeof h; i++)
        sum += ((const unsigned char *)&h)[i];
    snprintf(h.sum, sizeof h.sum, "%06o", sum);
    return put(t, &h, sizeof h, err);
}

/* A name that does not fit comes before its header, as an entry of its own. */
static int put_long(struct tar *t, const char *text, char type, struct err *err)
{
    size_t len = strlen(text) + 1;
    if (len <= NAME_SIZE)
        return 0;
    if (put_header(t, "././@LongLink", "", type, 0644, len, 0, err) < 0 ||
        put(t, text, len, err) < 0)
        return err_number(err);
    return pad(t, len, err);
}

/* A file that grows or shrinks meanwhile keeps the size that was said. */
static int put_content(struct tar *t, int fd, uint64_t size, struct err *err)
{
    for (uint64_t left = size; left;) {
        ssize_t n = read(fd, t->chunk, left < CHUNK ? (size_t)left : CHUNK);
        if (n < 0)
            return err_sys(err, "read a file of the host");
        if (n == 0)
            return err_set(err, ERR_REFUSED, "a file of the host changed while it was read");
        if (put(t, t->chunk, (size_t)n, err) < 0)
            return err_number(err);
        left -= (uint64_t)n;
    }
    return pad(t, size, err);
}

static int put_file(struct tar *t, const char *path, const struct stat *sb, struct err *err)
{
    struct stat now;
    cleanup_fd int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &now) < 0 || !S_ISREG(now.st_mode) || !(now.st_mode & S_IROTH))
        return 0; /* not for everybody, or gone */
    if (put_long(t, path + 1, 'L', err) < 0 ||
        put_header(t, path + 1, "", '0', sb->st_mode, (uint64_t)now.st_size, sb->st_mtime, err) < 0)
        return err_number(err);
    return put_content(t, fd, (uint64_t)now.st_size, err);
}

static int put_link(struct tar *t, const char *path, const struct stat *sb, struct err *err)
{
    char target[PATH_MAX];
    ssize_t n = readlink(path, target, sizeof target - 1);
    if (n <= 0)
        return 0;
    target[n] = '\0';
    if (put_long(t, target, 'K', err) < 0 || put_long(t, path + 1, 'L', err) < 0)
        return err_number(err);
    return put_header(t, path + 1, target, '2', 0777, 0, sb->st_mtime, err);
}

static int put_path(struct tar *t, const char *path, struct err *err)
{
    struct stat sb;
    if (lstat(path, &sb) < 0)
        return 0; /* dpkg knows it, but somebody removed it */
    if (S_ISLNK(sb.st_mode))
        return put_link(t, path, &sb, err);
    if (S_ISREG(sb.st_mode))
        return put_file(t, path, &sb, err);
    if (!S_ISDIR(sb.st_mode))
        return 0;
    if (put_long(t, path + 1, 'L', err) < 0)
        return err_number(err);
    return put_header(t, path + 1, "", '5', 0755, 0, sb.st_mtime, err);
}

/* The users that programs look up, and none of the host's. */
static int put_users(struct tar *t, struct err *err)
{
    static const char *const files[][2] = {
        {"etc/passwd", "root:x:0:0:root:/root:/bin/sh\n"
                       "nobody:x:65534:65534:nobody:/:/bin/false\n"
                       "user:x:1000:1000:user:/home/user:/bin/sh\n"},
        {"etc/group", "root:x:0:\nnogroup:x:65534:\nuser:x:1000:\n"},
        {"etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\n"},
        {"etc/hosts", "127.0.0.1 localhost\n::1 localhost\n"}};
    for (size_t i = 0; i < ARRAY_LEN(files); i++) {
        size_t len = strlen(files[i][1]);
        if (put_header(t, files[i][0], "", '0', 0644, len, 0, err) < 0 ||
            put(t, files[i][1], len, err) < 0 || pad(t, len, err) < 0)
            return err_number(err);
    }
    return 0;
}

int host_tar_write(int fd, const struct host_list *files, char *digest, struct err *err)
{
    static const char end[2 * BLOCK];
    uint8_t hash[SHA256_SIZE];
    struct tar t = {.fd = fd, .chunk = malloc(CHUNK)};
    sha256_init(&t.sha);
    int r = t.chunk ? 0 : err_memory(err);
    for (size_t i = 0; r >= 0 && i < files->count; i++)
        r = put_path(&t, files->items[i], err);
    if (r >= 0)
        r = put_users(&t, err);
    if (r >= 0)
        r = put(&t, end, sizeof end, err);
    free(t.chunk);
    if (r < 0)
        return r;
    sha256_finish(&t.sha, hash);
    memcpy(digest, "sha256:", 8);
    hex_encode(hash, sizeof hash, digest + 7);
    return 0;
}
