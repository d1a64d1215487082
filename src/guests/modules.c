/* Which modules a guest needs, and where a distribution keeps them. Each is a driver of the few
 * devices that there are; what a kernel has built in is in modules.builtin instead. */
#include "guests/internal.h"

#include "base/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* In the order in which they must be loaded. */
static const char *const needed[] = {
    "kernel/drivers/virtio/virtio.ko",
    "kernel/drivers/virtio/virtio_ring.ko",
    "kernel/drivers/virtio/virtio_mmio.ko",
    "kernel/net/vmw_vsock/vsock.ko",
    "kernel/net/vmw_vsock/vmw_vsock_virtio_transport_common.ko",
    "kernel/net/vmw_vsock/vmw_vsock_virtio_transport.ko",
    "kernel/fs/fuse/fuse.ko",
    "kernel/fs/fuse/virtiofs.ko",
};

int file_whole(int dir, const char *path, size_t max, struct buf *ret, struct err *err)
{
    char piece[65536];
    ssize_t n;
    cleanup_fd int fd = openat(dir, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat sb;
    if (fd < 0 || fstat(fd, &sb) < 0)
        return err_sys(err, "open %s", path);
    if (!S_ISREG(sb.st_mode))
        return err_set(err, ERR_REFUSED, "%s is not a file", path);
    buf_init(ret, max);
    if (sb.st_size > 0 && (uint64_t)sb.st_size <= max)
        buf_room(ret, (size_t)sb.st_size);
    while ((n = read(fd, piece, sizeof piece)) > 0)
        buf_add(ret, piece, (size_t)n);
    if (n < 0 || ret->failed) {
        buf_done(ret);
        return n < 0 ? err_sys(err, "read %s", path)
                     : err_set(err, ERR_LIMIT, "%s is larger than %zu bytes", path, max);
    }
    return 0;
}

static bool listed(const struct buf *builtin, const char *module)
{
    size_t len = strlen(module);
    for (const char *line = buf_text(builtin); line && *line;) {
        if (strncmp(line, module, len) == 0 && (line[len] == '\n' || line[len] == '\0'))
            return true;
        line = strchr(line, '\n');
        line = line ? line + 1 : NULL;
    }
    return false;
}

/* 1: a file; 0: built in; -1: neither, and why_not says so. */
static int where(int folder, const struct buf *builtin, const char *module,
                 char why_not[static 128])
{
    char other[128];
    if (faccessat(folder, module, R_OK, 0) == 0)
        return 1;
    if (listed(builtin, module))
        return 0;
    const char *slash = strrchr(module, '/');
    static const char *const packed[] = {"xz", "zst", "gz"};
    for (size_t i = 0; i < ARRAY_LEN(packed); i++) {
        snprintf(other, sizeof other, "%s.%s", module, packed[i]);
        if (faccessat(folder, other, R_OK, 0) == 0) {
            snprintf(why_not, 128, "its modules are compressed (%s)", packed[i]);
            return -1;
        }
    }
    snprintf(why_not, 128, "it has no %s", slash ? slash + 1 : module);
    return -1;
}

static int open_folder(const char *path, struct buf *builtin, struct err *err)
{
    struct err none = ERR_INIT;
    int fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return err_sys(err, "open %s", path);
    if (file_whole(fd, "modules.builtin", 1u << 20, builtin, &none) < 0)
        buf_init(builtin, 0);
    return fd;
}

bool modules_there(const char *folder, bool kept, char why_not[static 128])
{
    struct err err = ERR_INIT;
    cleanup_buf struct buf builtin;
    buf_init(&builtin, 0);
    why_not[0] = '\0';
    if (kept)
        return true;
    cleanup_fd int fd = open_folder(folder, &builtin, &err);
    if (fd < 0) {
        snprintf(why_not, 128, "its modules are not there");
        return false;
    }
    for (size_t i = 0; i < ARRAY_LEN(needed); i++)
        if (where(fd, &builtin, needed[i], why_not) < 0)
            return false;
    return true;
}

static int read_packaged(const char *folder, struct modules *ret, struct err *err)
{
    char why_not[128];
    cleanup_buf struct buf builtin;
    buf_init(&builtin, 0);
    cleanup_fd int fd = open_folder(folder, &builtin, err);
    if (fd < 0)
        return fd;
    for (size_t i = 0; i < ARRAY_LEN(needed); i++) {
        int there = where(fd, &builtin, needed[i], why_not);
        if (there < 0)
            return err_set(err, ERR_UNSUPPORTED, "this kernel cannot be a guest's: %s", why_not);
        if (there > 0) {
            if (file_whole(fd, needed[i], MODULE_MAX, &ret->files[ret->count], err) < 0)
                return err_number(err);
            ret->count++;
        }
    }
    return 0;
}

/* As `brig kernel add` laid them down: 00.ko, 01.ko, … */
static int read_kept(const char *folder, struct modules *ret, struct err *err)
{
    char name[16];
    cleanup_fd int fd = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return err_sys(err, "open %s", folder);
    for (; ret->count < MODULES_MAX; ret->count++) {
        snprintf(name, sizeof name, "%02u.ko", ret->count);
        if (faccessat(fd, name, F_OK, 0) < 0 && errno == ENOENT)
            return 0;
        if (file_whole(fd, name, MODULE_MAX, &ret->files[ret->count], err) < 0)
            return err_number(err);
    }
    return 0;
}

int modules_read(const struct guest_kernel *k, struct modules *ret, struct err *err)
{
    memset(ret, 0, sizeof *ret);
    int result = k->kept ? read_kept(k->modules, ret, err) : read_packaged(k->modules, ret, err);
    if (result < 0)
        modules_done(ret);
    return result;
}

void modules_done(struct modules *m)
{
    for (unsigned i = 0; i < m->count; i++)
        buf_done(&m->files[i]);
    m->count = 0;
}
