/* Building blocks of the new root, inside. Everything is relative to a descriptor of the new root
 * and refuses to pass through a symbolic link (FS-2): what the root image or a grant brought cannot
 * bend a set-up step. */
#include "filesystem/mount_child.h"

#include "base/cleanup.h"
#include "os/sys.h"
#include "plan/apply.h"

#include <errno.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/stat.h>

#define BENEATH (RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS)

int inside_open(int root_fd, const char *path, int flags)
{
    while (*path == '/')
        path++;
    if (!*path)
        return sys_openat2(root_fd, ".", (uint64_t)flags | O_CLOEXEC, 0, BENEATH);
    return sys_openat2(root_fd, path, (uint64_t)flags | O_CLOEXEC, 0, BENEATH);
}

int inside_parent(int root_fd, const char *path, const char **leaf, struct err *err)
{
    char parent[4096];
    while (*path == '/')
        path++;
    const char *slash = strrchr(path, '/');
    *leaf = slash ? slash + 1 : path;
    size_t len = slash ? (size_t)(slash - path) : 0;
    if (**leaf == '\0' || len >= sizeof parent)
        return err_set(err, ERR_INTERNAL, "bad path \"%s\" in the plan", path);
    memcpy(parent, path, len);
    parent[len] = '\0';
    int fd = inside_open(root_fd, parent, O_PATH | O_DIRECTORY);
    if (fd < 0)
        return err_sys(err, "open the folder of /%s in the new root", path);
    return fd;
}

int tree_attach(int tree_fd, int root_fd, const char *dest, struct err *err)
{
    cleanup_fd int target = inside_open(root_fd, dest, O_PATH);
    if (target < 0) {
        int result = err_sys(err, "mount point %s in the new root", dest);
        if (errno == ENOENT)
            err_hint(err, "in a read-only root, and inside another granted folder, the place to "
                          "mount on must exist; make it first or choose another DEST");
        return result;
    }
    if (sys_move_mount(tree_fd, "", target, "", SYS_MOVE_MOUNT_F_EMPTY | SYS_MOVE_MOUNT_T_EMPTY) <
        0)
        return err_sys(err, "mount on %s", dest);
    return 0;
}

int helper_attach(int mount_fd, struct err *err)
{
    if (sys_move_mount(mount_fd, "", AT_FDCWD, "/proc", SYS_MOVE_MOUNT_F_EMPTY) < 0)
        return err_sys(err, "attach a helper mount");
    return 0;
}

int is_planned(int fd, const char *path, uint64_t dev, uint64_t ino, struct err *err)
{
    struct stat sb;
    if (ino == 0)
        return 0;
    if (fstat(fd, &sb) < 0)
        return err_sys(err, "stat %s", path);
    if (sb.st_dev != dev || sb.st_ino != ino)
        return err_set(err, ERR_REFUSED, "%s was replaced while the sandbox was being built", path);
    return 0;
}

/* The uid with which the host's folders are looked up; 0: the one that builds the root. It is
 * another one where root inside builds the root: the caller's own folders are closed to that. */
static uid_t look_as;

int apply_look_as(struct apply_state *st, const struct op *op, struct err *err)
{
    (void)st, (void)err;
    look_as = (uid_t)op->num[0];
    return 0;
}

static int look_up(const char *path, uint64_t resolve, struct err *err)
{
    if (look_as) {
        setfsgid((gid_t)look_as);
        setfsuid(look_as);
    }
    cleanup_fd int fd = sys_openat2(AT_FDCWD, path, O_PATH | O_CLOEXEC, 0, resolve);
    int why = errno;
    if (look_as) {
        setfsuid(0);
        setfsgid(0);
        if (tie_to_supervisor(err) < 0)
            return err_number(err);
    }
    errno = why;
    return fd < 0 ? -1 : fd_steal(&fd);
}

int planned_open(const char *path, uint64_t dev, uint64_t ino, struct err *err)
{
    uint64_t resolve = ino ? RESOLVE_NO_SYMLINKS : 0;
    cleanup_fd int fd = look_up(path, resolve, err);
    if (fd < -1)
        return fd;
    if (fd < 0 && ino && errno == ELOOP)
        return err_set(err, ERR_REFUSED, "%s was replaced while the sandbox was being built", path);
    if (fd < 0)
        return err_sys(err, "open %s", path);
    return is_planned(fd, path, dev, ino, err) < 0 ? err_number(err) : fd_steal(&fd);
}

int alone_open(uint64_t fd, const char *path, uint64_t dev, uint64_t ino, struct err *err)
{
    cleanup_fd int tree = fd == UINT64_MAX ? -1 : (int)fd;
    if (tree < 0) {
        cleanup_fd int at = planned_open(path, dev, ino, err);
        if (at < 0)
            return at;
        tree =
            sys_open_tree(at, "", SYS_OPEN_TREE_CLONE | SYS_OPEN_TREE_CLOEXEC | SYS_AT_EMPTY_PATH);
        if (tree < 0)
            return err_sys(err, "open %s", path);
    }
    return is_planned(tree, path, dev, ino, err) < 0 ? err_number(err) : fd_steal(&tree);
}

uint64_t mount_attr_of(uint64_t flags)
{
    uint64_t attr = SYS_MOUNT_ATTR_NOSUID;
    if (!(flags & BIND_WRITABLE))
        attr |= SYS_MOUNT_ATTR_RDONLY;
    if (flags & BIND_NOEXEC)
        attr |= SYS_MOUNT_ATTR_NOEXEC;
    if (!(flags & BIND_DEVICE))
        attr |= SYS_MOUNT_ATTR_NODEV;
    return attr;
}

static int configure(int fs, const struct fs_option *options, struct err *err)
{
    for (; options->key; options++) {
        unsigned how = options->value ? SYS_FSCONFIG_SET_STRING : SYS_FSCONFIG_SET_FLAG;
        if (sys_fsconfig(fs, how, options->key, options->value) < 0)
            return err_sys(err, "file system option %s=%s", options->key,
                           options->value ? options->value : "");
    }
    return sys_fsconfig(fs, SYS_FSCONFIG_CMD_CREATE, NULL, NULL) < 0 ? err_sys(err, "create") : 0;
}

int fs_make(const char *type, const struct fs_option *options, unsigned attr, struct err *err)
{
    cleanup_fd int fs = sys_fsopen(type);
    if (fs < 0)
        return err_sys(err, "fsopen %s", type);
    if (configure(fs, options, err) < 0)
        return err_wrap(err, "new %s", type);
    int mnt = sys_fsmount(fs, attr);
    return mnt < 0 ? err_sys(err, "fsmount %s", type) : mnt;
}
