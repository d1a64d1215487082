/* The apply verb of the filesystem boundary: builds the private root and pivots into it.
 *
 * FS-1  Nothing of the host is reachable but what the plan binds; the old root is detached before
 * the code starts. FS-2  No step follows a symbolic link inside the new root. FS-3  Every mount is
 * nosuid; every one but the device nodes is nodev; what is not planned writable is read-only. */
#include "base/cleanup.h"
#include "filesystem/mount_child.h"
#include "filesystem/proc_view.h"
#include "os/fd.h"
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

/* A folder of `from` as a mount of its own. */
static int folder_tree(int from, const char *name, mode_t mode, uid_t owner, struct err *err)
{
    if (mkdirat(from, name, 0700) < 0)
        return err_sys(err, "make %s", name);
    /* mkdir is subject to the umask; the sticky bit of /tmp must survive. */
    if (fchmodat(from, name, mode, 0) < 0)
        return err_sys(err, "set the mode of %s", name);
    if (owner && fchownat(from, name, owner, (gid_t)owner, AT_SYMLINK_NOFOLLOW) < 0)
        return err_sys(err, "set the owner of %s", name);
    int tree = sys_open_tree(from, name, SYS_OPEN_TREE_CLONE | SYS_OPEN_TREE_CLOEXEC);
    return tree < 0 ? err_sys(err, "open %s", name) : tree;
}

/* FS-13: a writable root is a folder of the tmpfs that has the limit, beside those of the
 * workspace; the tmpfs that would have been the root holds what stays read-only in it. */
static int split_root(struct apply_state *st, int tmpfs, struct err *err)
{
    st->kept_fd = tmpfs;
    if (st->work_fd < 0)
        return err_set(err, ERR_INTERNAL, "a writable root without a place to write");
    if (helper_attach(st->kept_fd, err) < 0)
        return err_number(err);
    return st->root_fd = folder_tree(st->work_fd, "root", 0755, 0, err);
}

int apply_root(struct apply_state *st, const struct op *op, struct err *err)
{
    int tmpfs = tmpfs_make(op->num[0], op->num[1], "0755",
                           SYS_MOUNT_ATTR_NOSUID | SYS_MOUNT_ATTR_NODEV, err);
    if (tmpfs < 0)
        return tmpfs;
    if (!op->num[2])
        st->root_fd = tmpfs;
    else if (split_root(st, tmpfs, err) < 0)
        return err_number(err);
    /* Any folder will do to hang it on: it is only ever reached through its descriptor. */
    if (sys_move_mount(st->root_fd, "", AT_FDCWD, "/", SYS_MOVE_MOUNT_F_EMPTY) < 0)
        return err_sys(err, "attach the new root");
    return 0;
}

/* With a writable root all that is made for it lies on the tmpfs that has the limit. */
static int no_room(const struct apply_state *st, const char *path, struct err *err)
{
    bool full = errno == ENOSPC && st->kept_fd >= 0;
    err_sys(err, "make %s", path);
    return full ? err_hint(err, "what a writable root begins with counts as its disk: raise "
                                "lifecycle.disk or lifecycle.inodes (--disk, --inodes)")
                : err_number(err);
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
        return no_room(st, op->a, err);
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

/* Anew: in the place of what a layer shows there. */
static int file_make(int parent, const char *leaf, const struct op *op)
{
    if (op->num[1] && unlinkat(parent, leaf, 0) < 0 && errno != ENOENT)
        return -1;
    return openat(parent, leaf, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                  (mode_t)op->num[0]);
}

int apply_file(struct apply_state *st, const struct op *op, struct err *err)
{
    const char *leaf;
    cleanup_fd int parent = inside_parent(st->root_fd, op->a, &leaf, err);
    if (parent < 0)
        return parent;
    cleanup_fd int fd = file_make(parent, leaf, op);
    if (fd < 0 && errno == EEXIST && op->data_len == 0)
        return is_mountable_file(parent, leaf, op->a, err);
    if (fd < 0)
        return no_room(st, op->a, err);
    if (fd_write_all(fd, op->data, op->data_len) < 0)
        return no_room(st, op->a, err);
    return 0;
}

static int copy_bytes(const struct apply_state *st, int from, int to, const char *path,
                      struct err *err)
{
    char block[16384];
    ssize_t n;
    while ((n = read(from, block, sizeof block)) > 0)
        if (fd_write_all(to, block, (size_t)n) < 0)
            return no_room(st, path, err);
    return n < 0 ? err_sys(err, "read %s", path) : 0;
}

/* A file on which another one is mounted could not be replaced, as installers do with it. */
int apply_copy(struct apply_state *st, const struct op *op, struct err *err)
{
    const char *leaf;
    cleanup_fd int parent = inside_parent(st->root_fd, op->b, &leaf, err);
    if (parent < 0)
        return parent;
    cleanup_fd int from = open(op->a, O_RDONLY | O_NOFOLLOW | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
    if (from < 0) /* gone, or not for us to read: then it would not be readable by a bind either */
        return errno == ENOENT || errno == EACCES ? 0 : err_sys(err, "open %s", op->a);
    cleanup_fd int to = file_make(parent, leaf, op);
    return to < 0 ? no_room(st, op->b, err) : copy_bytes(st, from, to, op->b, err);
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
        return err_number(err);
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
    if (st->work_fd < 0 || helper_attach(st->work_fd, err) < 0)
        return err_number(err);
    struct ctl_msg msg = {.type = CTL_WORK};
    if ((op->num[2] & BIND_HANDED) && ctl_send(&msg, st->work_fd) < 0)
        return err_sys(err, "hand out the writable layer");
    return 0;
}

int apply_work_dir(struct apply_state *st, const struct op *op, struct err *err)
{
    cleanup_fd int tree =
        folder_tree(st->work_fd, op->a, (mode_t)op->num[0], (uid_t)op->num[1], err);
    return tree < 0 ? tree : tree_attach(tree, st->root_fd, op->b, err);
}

/* A place of a writable root that is not: filled first, shut at the end. */
int apply_kept_dir(struct apply_state *st, const struct op *op, struct err *err)
{
    cleanup_fd int tree = folder_tree(st->kept_fd, op->a, 0755, 0, err);
    return tree < 0 ? tree : tree_attach(tree, st->root_fd, op->b, err);
}

int apply_shut(struct apply_state *st, const struct op *op, struct err *err)
{
    struct sys_mount_attr attr = {.attr_set = SYS_MOUNT_ATTR_RDONLY};
    cleanup_fd int at = inside_open(st->root_fd, op->a, O_PATH | O_DIRECTORY);
    if (at < 0 || sys_mount_setattr(at, "", SYS_AT_EMPTY_PATH, &attr) < 0)
        return err_sys(err, "make %s read-only", op->a);
    return 0;
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
    if (st->kept_fd >= 0)
        close(st->kept_fd);
    st->work_fd = st->view_fd = st->kept_fd = -1;
    struct sys_mount_attr attr = {.attr_set = SYS_MOUNT_ATTR_RDONLY};
    if (!op->num[0] && sys_mount_setattr(st->root_fd, "", SYS_AT_EMPTY_PATH, &attr) < 0)
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
