/* How the worker gets from a text to a descriptor. The text has no ".." any more when it is used;
 * links on the way are followed as for the code itself, whose root and rights the worker has.
 * Everything from there on goes by descriptor and single name.
 *
 * FA-2  RESOLVE_NO_MAGICLINKS: /proc/…/fd/…, root, cwd and exe lead to what a process holds, not to
 *       what a path names. There is no RESOLVE_IN_ROOT: the root of the worker is that of the
 *       sandbox, and the flag would make every rename on the host a reason to try again. */
#include "files/worker_child.h"

#include "os/sys.h"

#include <errno.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#ifndef SECURITYFS_MAGIC
#define SECURITYFS_MAGIC 0x73636673
#endif
#ifndef CONFIGFS_MAGIC
#define CONFIGFS_MAGIC 0x62656570
#endif

/* Adds the components of `from`; returns the new length. */
static size_t add_clean(char *to, size_t len, const char *from)
{
    while (*from) {
        size_t n = strcspn(from, "/");
        if (n == 2 && from[0] == '.' && from[1] == '.') {
            while (len > 0 && to[--len] != '/')
                ;
        } else if (n > 0 && !(n == 1 && from[0] == '.')) {
            if (len + 1 + n >= FILES_PATH_MAX)
                return SIZE_MAX;
            to[len++] = '/';
            memcpy(to + len, from, n);
            len += n;
        }
        from += n + (from[n] == '/');
    }
    return len;
}

int files_path_clean(const char *home, const char *path, char ret[FILES_PATH_MAX + 1])
{
    size_t len = path[0] == '/' ? 0 : add_clean(ret, 0, home);
    if (len != SIZE_MAX)
        len = add_clean(ret, len, path);
    if (len == SIZE_MAX)
        return -ENAMETOOLONG;
    if (len == 0)
        ret[len++] = '/';
    ret[len] = '\0';
    return 0;
}

int files_path_open(int dir, const char *path, int flags)
{
    int fd =
        sys_openat2(dir, path, (uint64_t)(unsigned)(flags | O_CLOEXEC), 0, RESOLVE_NO_MAGICLINKS);
    if (fd < 0 && errno == ENOSYS)
        return files_walk_open(dir, path, flags | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

static int open_or_make(int above, const char *name)
{
    int fd = files_path_open(above, name, O_PATH | O_DIRECTORY);
    if (fd != -ENOENT)
        return fd;
    int bad = files_place_check(above);
    if (bad < 0)
        return bad;
    if (mkdirat(above, name, 0755) < 0 && errno != EEXIST)
        return -errno;
    return files_path_open(above, name, O_PATH | O_DIRECTORY);
}

/* All of `path`, from the root down. */
static int make_all(char *path)
{
    int above = files_path_open(AT_FDCWD, "/", O_PATH | O_DIRECTORY);
    for (char *name = path + 1; above >= 0 && *name;) {
        char *end = name + strcspn(name, "/");
        bool more = *end;
        *end = '\0';
        int fd = open_or_make(above, name);
        close(above);
        above = fd;
        name = end + more;
    }
    return above;
}

int files_path_parent(const char *path, bool make, const char **leaf)
{
    static char above[FILES_PATH_MAX + 1];
    const char *slash = strrchr(path, '/');
    size_t len = (size_t)(slash - path);
    *leaf = slash + 1;
    memcpy(above, path, len);
    above[len] = '\0';
    if (len == 0)
        memcpy(above, "/", 2);
    int fd = files_path_open(AT_FDCWD, above, O_PATH | O_DIRECTORY);
    if (fd == -ENOENT && make)
        fd = make_all(above);
    int bad = fd < 0 ? 0 : files_place_check(fd);
    if (bad < 0) {
        close(fd);
        return bad;
    }
    return fd;
}

void files_fd_path(int fd, char ret[FILES_FD_PATH])
{
    char digits[12], *to = ret + 14;
    int len = 0;
    memcpy(ret, "/proc/self/fd/", 14);
    do
        digits[len++] = (char)('0' + fd % 10);
    while (fd /= 10);
    while (len)
        *to++ = digits[--len];
    *to = '\0';
}

int files_place_check(int fd)
{
    /* Their files are interfaces: reading may block or change something, sizes lie. */
    static const uint32_t own[] = {
        PROC_SUPER_MAGIC, SYSFS_MAGIC,    CGROUP_SUPER_MAGIC, CGROUP2_SUPER_MAGIC,
        DEBUGFS_MAGIC,    TRACEFS_MAGIC,  SECURITYFS_MAGIC,   DEVPTS_SUPER_MAGIC,
        BPF_FS_MAGIC,     BINFMTFS_MAGIC, CONFIGFS_MAGIC,     EFIVARFS_MAGIC,
        SELINUX_MAGIC,    NSFS_MAGIC,     PIPEFS_MAGIC,       SOCKFS_MAGIC,
    };
    struct statfs fs;
    if (fstatfs(fd, &fs) < 0)
        return -errno;
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++)
        if ((uint32_t)fs.f_type == own[i])
            return -EACCES;
    return 0;
}
