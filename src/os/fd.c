/* Reading and writing of small files, and memory files that are sealed. */
#include "os/fd.h"

#include "base/cleanup.h"
#include "os/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#ifndef RWF_NOWAIT
#define RWF_NOWAIT 8
#endif

#ifndef MFD_EXEC
#define MFD_EXEC 0x10u
#endif
#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x8u
#endif

ssize_t file_read(int dir, const char *path, char *out, size_t size)
{
    cleanup_fd int fd = openat(dir, path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0)
        return -errno;
    size_t len = 0;
    while (len + 1 < size) {
        ssize_t n = read(fd, out + len, size - 1 - len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        if (n == 0)
            break;
        len += (size_t)n;
    }
    out[len] = '\0';
    return (ssize_t)len;
}

int file_write(int dir, const char *path, const char *text)
{
    cleanup_fd int fd = openat(dir, path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0)
        return -errno;
    size_t len = strlen(text);
    ssize_t n = write(fd, text, len);
    return n == (ssize_t)len ? 0 : n < 0 ? -errno : -EIO;
}

int memfd_empty(const char *name, bool executable, struct err *err)
{
    unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
    unsigned exec_flag = executable ? MFD_EXEC : MFD_NOEXEC_SEAL;
    int fd = memfd_create(name, flags | exec_flag);
    if (fd < 0 && errno == EINVAL) /* before 6.3 there was no choice */
        fd = memfd_create(name, flags);
    if (fd < 0) {
        err_sys(err, "memfd for %s", name);
        return err_hint(
            err,
            "if vm.memfd_noexec is 2, brig's init cannot be executed: sysctl vm.memfd_noexec=1");
    }
    return fd;
}

static int seal(int fd, struct err *err)
{
    if (fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) < 0)
        return err_sys(err, "seal a memfd");
    return 0;
}

int memfd_fill(int fd, const void *data, size_t len, struct err *err)
{
    if (write(fd, data, len) != (ssize_t)len)
        return err_sys(err, "fill a memfd");
    return seal(fd, err);
}

int memfd_sealed(const char *name, const void *data, size_t len, bool executable, struct err *err)
{
    cleanup_fd int fd = memfd_empty(name, executable, err);
    if (fd < 0)
        return fd;
    return memfd_fill(fd, data, len, err) < 0 ? err_number(err) : fd_steal(&fd);
}

int memfd_copied(const char *name, int from, size_t max, struct err *err)
{
    cleanup_fd int fd = memfd_empty(name, false, err);
    if (fd < 0)
        return fd;
    ssize_t n;
    for (size_t len = 0; (n = sendfile(fd, from, NULL, max + 1 - len)) != 0;) {
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_sys(err, "copy %s", name);
        len += (size_t)n;
        if (len > max)
            return err_set(err, ERR_LIMIT, "%s is over %zu bytes", name, max);
    }
    return seal(fd, err) < 0 ? err_number(err) : fd_steal(&fd);
}

int fd_set_cloexec(int fd, bool on)
{
    return fcntl(fd, F_SETFD, on ? FD_CLOEXEC : 0) < 0 ? -errno : 0;
}

/* What poll said of a pipe need not be so any more when several write to it (two streams of one
 * sandbox, or two sandboxes, with one pipe): there the call itself must not wait. The kernel can do
 * that for pipes since Linux 6.4 and for sockets; of files it would never read what is not in
 * memory. */
static bool shared_queue(int fd)
{
    struct stat sb;
    return fstat(fd, &sb) == 0 && (S_ISFIFO(sb.st_mode) || S_ISSOCK(sb.st_mode));
}

static ssize_t transfer_now(int fd, const struct iovec *part, bool reads)
{
    struct pollfd p = {.fd = fd, .events = reads ? POLLIN : POLLOUT};
    ssize_t n = -1;
    errno = EOPNOTSUPP;
    if (shared_queue(fd))
        n = syscall(reads ? SYS_preadv2 : SYS_pwritev2, fd, part, 1, -1L, -1L, RWF_NOWAIT);
    if (n >= 0 || (errno != EOPNOTSUPP && errno != ENOSYS))
        return n < 0 ? -errno : n;
    if (poll(&p, 1, 0) <= 0)
        return -EAGAIN;
    n = reads ? read(fd, part->iov_base, part->iov_len) : write(fd, part->iov_base, part->iov_len);
    return n < 0 ? -errno : n;
}

ssize_t fd_read_now(int fd, void *data, size_t len)
{
    return transfer_now(fd, &(struct iovec){data, len}, true);
}

ssize_t fd_write_now(int fd, const void *data, size_t len)
{
    return transfer_now(fd, &(struct iovec){(void *)(uintptr_t)data, len}, false);
}

bool path_is_absent(int why)
{
    return why == ENOENT || why == ENOTDIR || why == ELOOP;
}

DIR *folder_open(int dir, const char *path)
{
    return folder_take(openat(dir, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
}

DIR *folder_take(int fd)
{
    DIR *list = fd < 0 ? NULL : fdopendir(fd);
    if (!list && fd >= 0) {
        int why = errno;
        close(fd);
        errno = why;
    }
    return list;
}

int folder_next(DIR *list, struct dirent **ret)
{
    do {
        errno = 0;
        *ret = readdir(list);
        if (!*ret)
            return errno ? -1 : 0;
    } while (strcmp((*ret)->d_name, ".") == 0 || strcmp((*ret)->d_name, "..") == 0);
    return 1;
}
