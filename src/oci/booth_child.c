/* The booth of a module's engine: a small read-only file system with the engine, the host's
 * libraries and the six device nodes, in which the container's view is a folder.
 *
 * OC-19  What is the engine's is not the module's. The module is given the container's view alone;
 * no path of the configuration is opened by its name in the booth, where a link of the image would
 * lead to the engine's files; and no file system of the kernel lies in that view, by which a module
 * could change the engine's memory. */
#include "base/cleanup.h"
#include "oci/build.h"
#include "os/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

static int make_booth(struct err *err)
{
    cleanup_fd int fs = sys_fsopen("tmpfs");
    if (fs < 0 || sys_fsconfig(fs, SYS_FSCONFIG_SET_STRING, "size", "256k") < 0 ||
        sys_fsconfig(fs, SYS_FSCONFIG_SET_STRING, "mode", "755") < 0 ||
        sys_fsconfig(fs, SYS_FSCONFIG_CMD_CREATE, NULL, NULL) < 0)
        return err_sys(err, "make a booth for the engine");
    cleanup_fd int booth = sys_fsmount(fs, SYS_MOUNT_ATTR_NOSUID | SYS_MOUNT_ATTR_NODEV);
    /* It hangs over the host's /proc until the pivot. */
    if (booth < 0 || sys_move_mount(booth, "", AT_FDCWD, "/proc", SYS_MOVE_MOUNT_F_EMPTY) < 0)
        return err_sys(err, "attach the booth of the engine");
    if (mkdirat(booth, OCI_BOOTH_FOLDER, 0755) < 0)
        return err_sys(err, "make a place for the root");
    return fd_steal(&booth);
}

/* With what is mounted below it; nothing there can be changed. */
static int bind_host(const char *source, int booth, bool folder, const char *dest, struct err *err)
{
    struct sys_mount_attr set = {.attr_set = SYS_MOUNT_ATTR_NOSUID | SYS_MOUNT_ATTR_NODEV |
                                             SYS_MOUNT_ATTR_RDONLY,
                                 .propagation = MS_PRIVATE};
    unsigned depth = folder ? SYS_AT_RECURSIVE : 0;
    cleanup_fd int tree =
        sys_open_tree(AT_FDCWD, source, SYS_OPEN_TREE_CLONE | SYS_OPEN_TREE_CLOEXEC | depth);
    if (tree < 0 || sys_mount_setattr(tree, "", SYS_AT_EMPTY_PATH | depth, &set) < 0)
        return err_sys(err, "take %s", source);
    cleanup_fd int target = oci_place(booth, dest, folder, err);
    return target < 0 ? err_number(err) : oci_attach(tree, target, dest, err);
}

/* Links, on a system whose programs and libraries all lie in /usr. */
static int bind_libraries(int booth, struct err *err)
{
    static const char *const places[] = {"/lib", "/lib64"};
    if (bind_host("/usr", booth, true, "/usr", err) < 0)
        return err_number(err);
    for (size_t i = 0; i < ARRAY_LEN(places); i++) {
        char to[256];
        struct stat sb;
        ssize_t n = readlink(places[i], to, sizeof to - 1);
        to[n > 0 ? n : 0] = '\0';
        if (n > 0 && symlinkat(to, booth, places[i] + 1) < 0)
            return err_sys(err, "make the link %s", places[i]);
        if (n <= 0 && stat(places[i], &sb) == 0 &&
            bind_host(places[i], booth, true, places[i], err) < 0)
            return err_number(err);
    }
    return 0;
}

int oci_booth_make(const struct oci_engine *e, struct err *err)
{
    cleanup_fd int booth = make_booth(err);
    if (booth < 0 || bind_libraries(booth, err) < 0 ||
        bind_host(e->program, booth, false, OCI_BOOTH_ENGINE, err) < 0)
        return err_number(err);
    return fd_steal(&booth);
}

int oci_booth_shut(int booth, struct err *err)
{
    struct sys_mount_attr shut = {.attr_set = SYS_MOUNT_ATTR_RDONLY};
    return sys_mount_setattr(booth, "", SYS_AT_EMPTY_PATH, &shut) < 0
               ? err_sys(err, "close the booth of the engine")
               : 0;
}

/* ---- in it ---- */

/* Beneath the container's root, as its own programs would find it. */
static int find(const char *path, int base, int flags)
{
    return sys_openat2(base, path, (uint64_t)flags | O_CLOEXEC, 0,
                       RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS);
}

static int open_root(struct err *err)
{
    int root = open(OCI_BOOTH_ROOT, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return root < 0 ? err_sys(err, "find the root") : root;
}

int oci_booth_enter(const char *cwd, struct err *err)
{
    cleanup_fd int root = open_root(err);
    if (root < 0)
        return err_number(err);
    cleanup_fd int folder = find(cwd, root, O_PATH | O_DIRECTORY);
    if (folder < 0 || fchdir(folder) < 0)
        return err_sys(err, "enter folder %.200s", cwd);
    return 0;
}

static int open_file(int root, const char *path)
{
    struct stat sb;
    cleanup_fd int fd = find(path, root, O_RDONLY | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return -errno;
    if (fstat(fd, &sb) < 0 || !S_ISREG(sb.st_mode))
        return -EACCES;
    return fd_steal(&fd);
}

int oci_booth_module(const char *name, const char *cwd, const char *search, struct err *err)
{
    char path[PATH_MAX];
    int fd = -ENOENT;
    cleanup_fd int root = open_root(err);
    if (root < 0)
        return err_number(err);
    if (strchr(name, '/')) {
        snprintf(path, sizeof path, "%s/%s", name[0] == '/' ? "" : cwd, name);
        fd = open_file(root, path);
    }
    for (const char *at = search; !strchr(name, '/') && fd < 0 && *at;) {
        size_t len = strcspn(at, ":");
        snprintf(path, sizeof path, "%.*s/%s", (int)len, at, name);
        fd = open_file(root, path);
        at += len + (at[len] == ':');
    }
    if (fd >= 0)
        return fd;
    errno = -fd;
    if (errno == ENOENT || errno == ENOTDIR)
        return err_set(err, ERR_NOT_FOUND, "exec: \"%.200s\": module not found in the container",
                       name);
    err_sys(err, "exec: \"%.200s\"", name);
    err->code = ERR_NOT_EXEC;
    return err_number(err);
}
