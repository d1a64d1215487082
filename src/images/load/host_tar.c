/* Files of the host as a layer. Only what everybody may read goes into it. */
#include "base/cleanup.h"
#include "images/load/host.h"
#include "images/load/tar.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int put_file(struct tar *t, const char *path, const struct stat *sb, struct err *err)
{
    struct stat now;
    cleanup_fd int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &now) < 0 || !S_ISREG(now.st_mode) || !(now.st_mode & S_IROTH))
        return 0; /* not for everybody, or gone */
    return tar_file(t, path + 1, fd, (uint64_t)now.st_size, sb->st_mode, sb->st_mtime, "the host",
                    err);
}

static int put_link(struct tar *t, const char *path, const struct stat *sb, struct err *err)
{
    char target[PATH_MAX];
    ssize_t n = readlink(path, target, sizeof target - 1);
    if (n <= 0)
        return 0;
    target[n] = '\0';
    return tar_link(t, path + 1, target, sb->st_mtime, err);
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
    return S_ISDIR(sb.st_mode) ? tar_folder(t, path + 1, 0755, sb.st_mtime, err) : 0;
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
    for (size_t i = 0; i < ARRAY_LEN(files); i++)
        if (tar_text(t, files[i][0], files[i][1], strlen(files[i][1]), 0644, err) < 0)
            return err_number(err);
    return 0;
}

int host_tar_write(int fd, const struct host_list *files, char *digest, struct err *err)
{
    struct tar t;
    int r = tar_begin(&t, fd, err);
    for (size_t i = 0; r >= 0 && i < files->count; i++)
        r = put_path(&t, files->items[i], err);
    if (r >= 0)
        r = put_users(&t, err);
    if (r >= 0)
        r = tar_end(&t, digest, err);
    tar_done(&t);
    return r;
}
