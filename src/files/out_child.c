/* The worker's answer: frames, gathered in one buffer. */
#include "base/text.h"
#include "files/worker_child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

static struct {
    int fd;
    size_t used;
    char bytes[64 << 10];
} out;

void files_out_begin(int fd)
{
    out.fd = fd;
    out.used = 0;
}

int files_out_room(void)
{
    struct pollfd p = {.fd = out.fd, .events = POLLOUT};
    while (poll(&p, 1, -1) < 0)
        if (errno != EINTR)
            return -EPIPE;
    return p.revents & (POLLERR | POLLHUP | POLLNVAL) ? -EPIPE : 0;
}

int files_out_write(const void *bytes, size_t len)
{
    const char *at = bytes;
    while (len > 0) {
        ssize_t n = write(out.fd, at, len);
        if (n < 0 && errno != EINTR && (errno != EAGAIN || files_out_room() < 0))
            return -EPIPE;
        if (n > 0) {
            at += n;
            len -= (size_t)n;
        }
    }
    return 0;
}

int files_out_flush(void)
{
    size_t len = out.used;
    out.used = 0;
    return files_out_write(out.bytes, len);
}

static int begin_frame(enum files_frame_type type, size_t len)
{
    struct files_frame frame = {.type = (uint8_t)type, .length = (uint32_t)len};
    if (sizeof out.bytes - out.used < sizeof frame + len && files_out_flush() < 0)
        return -EPIPE;
    memcpy(out.bytes + out.used, &frame, sizeof frame);
    out.used += sizeof frame;
    return 0;
}

static void put(const void *bytes, size_t len)
{
    memcpy(out.bytes + out.used, bytes, len);
    out.used += len;
}

static int put_head(enum files_frame_type type, int error, uint64_t size)
{
    struct files_head head = {.error = error, .size = size};
    if (begin_frame(type, sizeof head) < 0)
        return -EPIPE;
    put(&head, sizeof head);
    return 0;
}

int files_out_head(int error, uint64_t size)
{
    return put_head(FILES_HEAD, error, size);
}

int files_out_end(int error)
{
    return error ? put_head(FILES_END, error, 0) : begin_frame(FILES_END, 0);
}

int files_out_event(enum files_event_kind kind, bool is_dir, const char *name)
{
    uint32_t words[2] = {kind, is_dir};
    size_t len = strlen(name);
    if (begin_frame(FILES_EVENT, sizeof words + len) < 0)
        return -EPIPE;
    put(words, sizeof words);
    put(name, len);
    return 0;
}

static uint32_t kind_of(mode_t mode)
{
    return S_ISREG(mode)   ? FILES_REGULAR
           : S_ISDIR(mode) ? FILES_DIRECTORY
           : S_ISLNK(mode) ? FILES_SYMLINK
                           : FILES_OTHER;
}

/* One attribute as name NUL value NUL; what is no text, or has no room any more, is left out. */
static size_t add_attribute(const char *name, const char *attribute, char *ret, size_t room)
{
    char value[FILES_META_VALUE_MAX];
    const char *shown = attribute + sizeof FILES_META_PREFIX - 1;
    size_t shown_len = strlen(shown);
    ssize_t n = lgetxattr(name, attribute, value, sizeof value);
    if (n < 0 || shown_len == 0 || memchr(value, '\0', (size_t)n) ||
        shown_len + (size_t)n + 2 > room)
        return 0;
    memcpy(ret, shown, shown_len + 1);
    memcpy(ret + shown_len + 1, value, (size_t)n);
    ret[shown_len + 1 + (size_t)n] = '\0';
    return shown_len + (size_t)n + 2;
}

/* Attributes are asked for by name only: the worker stands in the folder. */
static size_t attributes_of(int dir, const char *name, char *ret, size_t room)
{
    static char list[64 << 10];
    size_t used = 0;
    unsigned count = 0;
    if (fchdir(dir) < 0)
        return 0;
    ssize_t n = llistxattr(name, list, sizeof list - 1);
    if (n <= 0)
        return 0;
    list[n] = '\0';
    for (const char *at = list; at < list + n; at += strlen(at) + 1)
        if (text_begins(at, FILES_META_PREFIX) && count++ < FILES_METADATA_MAX)
            used += add_attribute(name, at, ret + used, room - used);
    return used;
}

/* Where the kernel says that `fd` is; without /proc, where the link at `path` says. */
static ssize_t place_of(int fd, const char *path, const char *says, char ret[FILES_PATH_MAX + 1])
{
    static char below[FILES_PATH_MAX + 4];
    char name[FILES_FD_PATH];
    files_fd_path(fd, name);
    ssize_t n = readlink(name, ret, FILES_PATH_MAX);
    if (n > 0 && n < FILES_PATH_MAX && ret[0] == '/')
        return n;
    memcpy(below, "../", 3);
    memcpy(below + 3, says, strlen(says) + 1);
    if (files_path_clean(path, says[0] == '/' ? says : below, ret) < 0)
        return 0;
    return (ssize_t)strlen(ret);
}

/* What the link leads to: that the code could look at it all the same is why it is told. */
static size_t follow_link(int dir, const char *name, const char *path, struct files_entry_wire *e,
                          char ret[FILES_PATH_MAX + 1])
{
    static char says[FILES_PATH_MAX + 1];
    struct stat sb;
    ssize_t len = readlinkat(dir, name, says, FILES_PATH_MAX);
    if (len < 0)
        return 0;
    says[len] = '\0';
    memcpy(ret, says, (size_t)len + 1);
    int fd = files_path_open(dir, name, O_PATH);
    if (fd < 0)
        return (size_t)len;
    if (files_place_check(fd) == 0 && fstat(fd, &sb) == 0 && sb.st_nlink > 0 &&
        (len = place_of(fd, path, says, ret)) > 0) {
        e->target_kind = kind_of(sb.st_mode);
        e->target_mode = sb.st_mode & 07777;
    } else {
        len = (ssize_t)strlen(says);
        memcpy(ret, says, (size_t)len + 1);
    }
    close(fd);
    return (size_t)len;
}

int files_out_entry(int dir, const char *name, const char *path, mode_t *ret_mode, dev_t *ret_dev)
{
    static char target[FILES_PATH_MAX + 1], metadata[sizeof((struct files_entry *)0)->metadata];
    struct stat sb;
    if (fstatat(dir, name, &sb, AT_SYMLINK_NOFOLLOW) < 0)
        return -errno;
    struct files_entry_wire e = {.kind = kind_of(sb.st_mode),
                                 .mode = sb.st_mode & 07777,
                                 .uid = sb.st_uid,
                                 .gid = sb.st_gid,
                                 .size = (uint64_t)sb.st_size,
                                 .mtime_sec = sb.st_mtim.tv_sec,
                                 .mtime_nsec = (uint32_t)sb.st_mtim.tv_nsec,
                                 .path_len = (uint32_t)strlen(path)};
    if (S_ISLNK(sb.st_mode))
        e.target_len = (uint32_t)follow_link(dir, name, path, &e, target);
    if (S_ISREG(sb.st_mode))
        e.metadata_len = (uint32_t)attributes_of(dir, name, metadata, sizeof metadata);
    if (begin_frame(FILES_ENTRY, sizeof e + e.path_len + e.target_len + e.metadata_len) < 0)
        return -EPIPE;
    put(&e, sizeof e);
    put(path, e.path_len);
    put(target, e.target_len);
    put(metadata, e.metadata_len);
    if (ret_mode)
        *ret_mode = sb.st_mode;
    if (ret_dev)
        *ret_dev = sb.st_dev;
    return 0;
}

bool files_out_gone(void)
{
    struct pollfd p = {.fd = out.fd};
    return poll(&p, 1, 0) > 0;
}

int files_out_wait(int fd)
{
    struct pollfd p[2] = {{.fd = out.fd}, {.fd = fd, .events = POLLIN}};
    for (;;) {
        int n = poll(p, 2, -1);
        if (n < 0 && errno != EINTR)
            return -errno;
        if (n > 0)
            return p[0].revents ? -EPIPE : 0;
    }
}
