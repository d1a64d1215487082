/* The apply verb of the filesystem boundary: builds the private root and pivots into it.
 *
 * FS-1  Nothing of the host is reachable but what the plan binds; the old root is detached before
 * the code starts. FS-2  No step follows a symbolic link inside the new root. FS-3  Every mount is
 * nosuid; every one but the device nodes is nodev; what is not planned writable is read-only. */
#include "base/cleanup.h"
#include "filesystem/mount_child.h"
#include "filesystem/proc_view.h"
#include "os/sys.h"
#include "plan/apply.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>

int apply_mounts_private(struct apply_state *st, const struct op *op, struct err *err)
{
    (void)st, (void)op;
    struct sys_mount_attr attr = {.propagation = MS_PRIVATE};
    if (sys_mount_setattr(AT_FDCWD, "/", SYS_AT_RECURSIVE, &attr) < 0)
        return err_sys(err, "make all mounts private");
    return 0;
}

static int tmpfs_make(uint64_t size, uint64_t inodes, const char *mode, unsigned attr,
                      struct err *err)
{
    char size_text[24], inodes_text[24];
    snprintf(size_text, sizeof size_text, "%llu", (unsigned long long)size);
    snprintf(inodes_text, sizeof inodes_text, "%llu", (unsigned long long)inodes);
    struct fs_option options[] = {
        {"size", size_text}, {"nr_inodes", inodes_text}, {"mode", mode}, {NULL, NULL}};
    return fs_make("tmpfs", options, attr, err);
}

int apply_root(struct apply_state *st, const struct op *op, struct err *err)
{
    st->root_fd = tmpfs_make(op->num[0], op->num[1], "0755",
                             SYS_MOUNT_ATTR_NOSUID | SYS_MOUNT_ATTR_NODEV, err);
    if (st->root_fd < 0)
        return st->root_fd;
    /* Any folder will do to hang it on: it is only ever reached through its descriptor. */
    if (sys_move_mount(st->root_fd, "", AT_FDCWD, "/", SYS_MOVE_MOUNT_F_EMPTY) < 0)
        return err_sys(err, "attach the new root");
    return 0;
}

int apply_dir(struct apply_state *st, const struct op *op, struct err *err)
{
    const char *leaf;
    cleanup_fd int parent = inside_parent(st->root_fd, op->a, &leaf, err);
    if (parent < 0)
        return parent;
    if (mkdirat(parent, leaf, (mode_t)op->num[0]) == 0)
        return 0;
    if (errno != EEXIST)
        return err_sys(err, "make folder %s", op->a);
    struct stat sb;
    if (fstatat(parent, leaf, &sb, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISDIR(sb.st_mode))
        return err_set(err, ERR_REFUSED, "%s exists in the root and is not a folder", op->a);
    return 0;
}

/* An empty file is a place to mount on: a plain file that is there already does as well. */
static int is_mountable_file(int parent, const char *leaf, const char *path, struct err *err)
{
    struct stat sb;
    if (fstatat(parent, leaf, &sb, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(sb.st_mode))
        return 0;
    err_set(err, ERR_REFUSED, "%s exists in the root and is not a plain file", path);
    return err_hint(err, "choose another DEST for the granted file");
}

int apply_file(struct apply_state *st, const struct op *op, struct err *err)
{
    const char *leaf;
    cleanup_fd int parent = inside_parent(st->root_fd, op->a, &leaf, err);
    if (parent < 0)
        return parent;
    cleanup_fd int fd = openat(parent, leaf, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                               (mode_t)op->num[0]);
    if (fd < 0 && errno == EEXIST && op->data_len == 0)
        return is_mountable_file(parent, leaf, op->a, err);
    if (fd < 0)
        return err_sys(err, "create %s", op->a);
    if (op->data_len && write(fd, op->data, op->data_len) != (ssize_t)op->data_len)
        return err_sys(err, "write %s", op->a);
    return 0;
}

int apply_symlink(struct apply_state *st, const struct op *op, struct err *err)
{
    const char *leaf;
    cleanup_fd int parent = inside_parent(st->root_fd, op->a, &leaf, err);
    if (parent < 0)
        return parent;
    return symlinkat(op->b, parent, leaf) < 0 ? err_sys(err, "link %s", op->a) : 0;
}

/* The caller closes it, also if it came from outside: the code must not inherit it. */
static int bind_tree(const struct op *op, struct err *err)
{
    if (op->num[1] != UINT64_MAX)
        return (int)op->num[1];
    unsigned flags = SYS_OPEN_TREE_CLONE | SYS_OPEN_TREE_CLOEXEC | SYS_AT_EMPTY_PATH;
    if (!(op->num[0] & (BIND_FILE | BIND_ALONE)))
        flags |= SYS_AT_RECURSIVE;
    cleanup_fd int source = planned_open(op->a, op->num[2], op->num[3], err);
    if (source < 0)
        return source;
    int fd = sys_open_tree(source, "", flags);
    return fd < 0 ? err_sys(err, "open %s", op->a) : fd;
}

int apply_bind(struct apply_state *st, const struct op *op, struct err *err)
{
    cleanup_fd int tree = bind_tree(op, err);
    if (tree < 0)
        return (op->num[0] & BIND_OPTIONAL) && errno == ENOENT ? 0 : tree;
    if (is_planned(tree, op->a, op->num[2], op->num[3], err) < 0)
        return -err->code;
    struct sys_mount_attr attr = {.attr_set = mount_attr_of(op->num[0]), .propagation = MS_PRIVATE};
    unsigned how = SYS_AT_EMPTY_PATH | (op->num[0] & BIND_FILE ? 0 : SYS_AT_RECURSIVE);
    if (sys_mount_setattr(tree, "", how, &attr) < 0)
        return err_sys(err, "set mount flags of %s", op->a);
    return tree_attach(tree, st->root_fd, op->b, err);
}

int apply_work(struct apply_state *st, const struct op *op, struct err *err)
{
    unsigned attr = SYS_MOUNT_ATTR_NOSUID | SYS_MOUNT_ATTR_NODEV;
    if (op->num[2] & BIND_NOEXEC)
        attr |= SYS_MOUNT_ATTR_NOEXEC;
    st->work_fd = tmpfs_make(op->num[0], op->num[1], "0711", attr, err);
    return st->work_fd < 0 ? st->work_fd : helper_attach(st->work_fd, err);
}

int apply_work_dir(struct apply_state *st, const struct op *op, struct err *err)
{
    if (mkdirat(st->work_fd, op->a, 0700) < 0)
        return err_sys(err, "make %s", op->a);
    /* mkdir is subject to the umask; the sticky bit of /tmp must survive. */
    if (fchmodat(st->work_fd, op->a, (mode_t)op->num[0], 0) < 0)
        return err_sys(err, "set the mode of %s", op->a);
    cleanup_fd int tree =
        sys_open_tree(st->work_fd, op->a, SYS_OPEN_TREE_CLONE | SYS_OPEN_TREE_CLOEXEC);
    if (tree < 0)
        return err_sys(err, "open %s", op->a);
    return tree_attach(tree, st->root_fd, op->b, err);
}

/* A file of the new root over one that a view of the host brought. */
int apply_cover(struct apply_state *st, const struct op *op, struct err *err)
{
    cleanup_fd int source = inside_open(st->root_fd, op->a, O_PATH);
    if (source < 0)
        return err_sys(err, "open %s in the new root", op->a);
    cleanup_fd int tree =
        sys_open_tree(source, "", SYS_OPEN_TREE_CLONE | SYS_OPEN_TREE_CLOEXEC | SYS_AT_EMPTY_PATH);
    if (tree < 0)
        return err_sys(err, "clone %s", op->a);
    struct sys_mount_attr attr = {.attr_set = mount_attr_of(BIND_FILE | BIND_NOEXEC),
                                  .propagation = MS_PRIVATE};
    if (sys_mount_setattr(tree, "", SYS_AT_EMPTY_PATH, &attr) < 0)
        return err_sys(err, "set mount flags of %s", op->a);
    return tree_attach(tree, st->root_fd, op->b, err);
}

int apply_devpts(struct apply_state *st, const struct op *op, struct err *err)
{
    static const struct fs_option options[] = {
        {"newinstance", NULL}, {"ptmxmode", "0666"}, {"mode", "0620"}, {"max", "64"}, {NULL, NULL}};
    cleanup_fd int mnt =
        fs_make("devpts", options, SYS_MOUNT_ATTR_NOSUID | SYS_MOUNT_ATTR_NOEXEC, err);
    return mnt < 0 ? mnt : tree_attach(mnt, st->root_fd, op->a, err);
}

int apply_pivot(struct apply_state *st, const struct op *op, struct err *err)
{
    (void)op;
    if (fchdir(st->root_fd) < 0)
        return err_sys(err, "enter the new root");
    if (sys_pivot_root(".", ".") < 0)
        return err_sys(err, "pivot_root");
    /* The old root now lies on top of the new one, at the same place, and the helper mounts hang in
     * it. */
    if (umount2(".", MNT_DETACH) < 0)
        return err_sys(err, "detach the old root");
    if (chdir("/") < 0)
        return err_sys(err, "chdir to the new root");
    if (st->work_fd >= 0)
        close(st->work_fd);
    if (st->view_fd >= 0)
        close(st->view_fd);
    st->work_fd = st->view_fd = -1;
    struct sys_mount_attr attr = {.attr_set = SYS_MOUNT_ATTR_RDONLY};
    if (sys_mount_setattr(st->root_fd, "", SYS_AT_EMPTY_PATH, &attr) < 0)
        return err_sys(err, "make the root read-only");
    close(st->root_fd);
    st->root_fd = -1;
    return 0;
}

int apply_cwd(struct apply_state *st, const struct op *op, struct err *err)
{
    st->cwd = op->a;
    return op->a ? 0 : err_set(err, ERR_INTERNAL, "cwd without a path");
}
