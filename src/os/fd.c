/* Reading and writing of small files, and memory files that are sealed. */
#include "os/fd.h"

#include "base/cleanup.h"
#include "os/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

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

int memfd_fill(int fd, const void *data, size_t len, struct err *err)
{
    if (write(fd, data, len) != (ssize_t)len)
        return err_sys(err, "fill a memfd");
    if (fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) < 0)
        return err_sys(err, "seal a memfd");
    return 0;
}

int memfd_sealed(const char *name, const void *data, size_t len, bool executable, struct err *err)
{
    cleanup_fd int fd = memfd_empty(name, executable, err);
    if (fd < 0)
        return fd;
    return memfd_fill(fd, data, len, err) < 0 ? -err->code : fd_steal(&fd);
}

int fd_set_cloexec(int fd, bool on)
{
    return fcntl(fd, F_SETFD, on ? FD_CLOEXEC : 0) < 0 ? -errno : 0;
}
