/* The file is opened once, without following a link at its end and without waiting, and everything
 * is checked on what was opened. */
#include "base/cleanup.h"
#include "base/quote.h"
#include "credentials/source.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

static int open_failed(const char *path, struct err *err)
{
    struct quoted q;
    int why = errno;
    if (why == ELOOP) {
        err_set(err, ERR_REFUSED, "%s is a link", quote(&q, path));
        return err_hint(err, "name the file that it leads to");
    }
    if (why == ENOENT) {
        err_set(err, ERR_REFUSED, "%s does not exist", quote(&q, path));
        return err_hint(err, "write the value into it, with mode 0600");
    }
    errno = why;
    return err_sys(err, "open %s", quote(&q, path));
}

static int check(const char *path, const struct stat *st, struct err *err)
{
    struct quoted q;
    if (!S_ISREG(st->st_mode)) {
        err_set(err, ERR_REFUSED, "%s is %s, not a file", quote(&q, path),
                S_ISFIFO(st->st_mode)  ? "a FIFO"
                : S_ISDIR(st->st_mode) ? "a folder"
                                       : "a device or a socket");
        return err_hint(err, "use cmd: for a value that a program makes");
    }
    if (st->st_uid != 0 && st->st_uid != geteuid()) {
        err_set(err, ERR_REFUSED, "%s belongs to another user (uid %u)", quote(&q, path),
                (unsigned)st->st_uid);
        return err_hint(err, "use a file of your own, or of root");
    }
    if (st->st_mode & 077) {
        err_set(err, ERR_REFUSED, "%s is open to others (mode %04o)", quote(&q, path),
                (unsigned)st->st_mode & 07777);
        return err_hint(err, "chmod 600 %s", quote(&q, path));
    }
    if (st->st_size > SECRET_MAX + 1)
        return err_set(err, ERR_REFUSED, "%s is larger than %d bytes", quote(&q, path), SECRET_MAX);
    return 0;
}

static int read_value(int fd, const char *path, struct secret **ret, struct err *err)
{
    struct quoted q;
    char bytes[SECRET_MAX + 2];
    size_t len = 0;
    ssize_t got;
    do {
        got = read(fd, bytes + len, sizeof bytes - len);
        len += got > 0 ? (size_t)got : 0;
    } while ((got > 0 && len < sizeof bytes) || (got < 0 && errno == EINTR));
    int result = got < 0 ? err_sys(err, "read") : secret_new(bytes, len, ret, err);
    secret_wipe(bytes, sizeof bytes);
    return result < 0 ? err_wrap(err, "file %s", quote(&q, path)) : 0;
}

int source_file(const char *path, struct secret **ret, struct err *err)
{
    struct quoted q;
    struct stat st;
    if (path[0] != '/')
        return err_set(err, ERR_REFUSED, "%s is not an absolute path", quote(&q, path));
    cleanup_fd int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0)
        return open_failed(path, err);
    if (fstat(fd, &st) < 0)
        return err_sys(err, "look at %s", quote(&q, path));
    int r = check(path, &st, err);
    return r < 0 ? r : read_value(fd, path, ret, err);
}
