/* Reading one file. */
#include "files/worker_child.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int check_kind(int fd, struct stat *sb)
{
    if (fstat(fd, sb) < 0)
        return -errno;
    if (!S_ISREG(sb->st_mode))
        return S_ISDIR(sb->st_mode) ? -EISDIR : -EINVAL;
    return files_place_check(fd);
}

/* FA-2  First without opening it: an open of a FIFO or a device would do something. Then for
 * reading, without waiting, and what was opened is looked at again. */
static int open_regular(const char *path, struct stat *sb)
{
    static const int flags[] = {O_PATH, O_RDONLY | O_NONBLOCK | O_NOCTTY};
    int fd = -1;
    for (int i = 0; i < 2; i++) {
        if (fd >= 0)
            close(fd);
        fd = files_path_open(AT_FDCWD, path, flags[i]);
        if (fd < 0)
            return fd;
        int bad = check_kind(fd, sb);
        if (bad < 0) {
            close(fd);
            return bad;
        }
    }
    return fd;
}

/* Through memory of its own: splice would wait for the file with the pipe locked, and who reads the
 * answer with it (K-18). */
static ssize_t copy_some(int fd, size_t len)
{
    static char bytes[64 << 10];
    ssize_t n = read(fd, bytes, len < sizeof bytes ? len : sizeof bytes);
    if (n > 0 && files_out_write(bytes, (size_t)n) < 0) {
        errno = EPIPE;
        return -1;
    }
    return n;
}

/* The frame was begun, but the file has become shorter: its place is filled, the END tells. */
static int fill(uint64_t len)
{
    static const char zeros[4096];
    while (len > 0) {
        size_t n = len < sizeof zeros ? (size_t)len : sizeof zeros;
        if (files_out_write(zeros, n) < 0)
            return -EPIPE;
        len -= n;
    }
    return 0;
}

static int send_frame(int fd, uint64_t len, int *error)
{
    struct files_frame frame = {.type = FILES_DATA, .length = (uint32_t)len};
    if (files_out_write(&frame, sizeof frame) < 0)
        return -EPIPE;
    while (len > 0) {
        ssize_t n = copy_some(fd, (size_t)len);
        if (n < 0 && (errno == EINTR || errno == EAGAIN)) {
            if (errno == EAGAIN && files_out_room() < 0)
                return -EPIPE;
            continue;
        }
        if (n < 0 && errno == EPIPE)
            return -EPIPE;
        if (n <= 0) {
            *error = n < 0 ? errno : EIO;
            return fill(len);
        }
        len -= (uint64_t)n;
    }
    return 0;
}

static int send_all(int fd, uint64_t size)
{
    int error = 0;
    if (files_out_flush() < 0)
        return -EPIPE;
    while (size > 0 && !error) {
        uint64_t len = size < FILES_FRAME_DATA_MAX ? size : FILES_FRAME_DATA_MAX;
        if (send_frame(fd, len, &error) < 0)
            return -EPIPE;
        size -= len;
    }
    return files_out_end(error);
}

int files_read_child(const struct files_request *r, const char *path)
{
    struct stat sb;
    int fd = open_regular(path, &sb);
    if (fd < 0)
        return fd;
    uint64_t size = (uint64_t)sb.st_size;
    /* FA-4  By its apparent size, before anything is read. */
    int error = size > r->limit ? EFBIG : 0;
    int done = files_out_head(error, size);
    if (done == 0 && !error)
        done = send_all(fd, size);
    close(fd);
    return done;
}
