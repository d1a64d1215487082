/* The file is opened once, as every file that brig believes (os/trusted.h). */
#include "base/cleanup.h"
#include "base/quote.h"
#include "credentials/source.h"
#include "os/trusted.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

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
    cleanup_fd int fd = trusted_open(AT_FDCWD, path, "the secret", TRUSTED_PRIVATE, err);
    if (fd < 0 && err && err->sys_errno == ENOENT) {
        err_set(err, ERR_REFUSED, "%s does not exist", quote(&q, path));
        return err_hint(err, "write the value into it, with mode 0600");
    }
    if (fd < 0)
        return fd;
    if (fstat(fd, &st) < 0)
        return err_sys(err, "look at %s", quote(&q, path));
    if (st.st_size > SECRET_MAX + 1)
        return err_set(err, ERR_REFUSED, "%s is larger than %d bytes", quote(&q, path), SECRET_MAX);
    return read_value(fd, path, ret, err);
}
