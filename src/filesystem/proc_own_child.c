/* Puts the sandbox's own files over those of the kernel in /proc (proc_own.h). They lie on a tmpfs
 * that hangs in the old root until the pivot: what stays of it are read-only mounts of its files,
 * and the descriptors that the supervisor got. */
#include "base/cleanup.h"
#include "filesystem/mount_child.h"
#include "os/sys.h"
#include "plan/apply.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define ATTR (SYS_MOUNT_ATTR_NOSUID | SYS_MOUNT_ATTR_NODEV | SYS_MOUNT_ATTR_NOEXEC)

static int view_make(struct apply_state *st, struct err *err)
{
    static const struct fs_option options[] = {
        {"size", "4194304"}, {"nr_inodes", "32"}, {"mode", "0755"}, {NULL, NULL}};
    if (st->view_fd >= 0)
        return 0;
    st->view_fd = fs_make("tmpfs", options, ATTR, err);
    return st->view_fd < 0 ? st->view_fd : helper_attach(st->view_fd, err);
}

/* The folders above it, in the view. *fresh: the first of them was not there. */
static int make_above(int view, const char *path, bool *fresh, struct err *err)
{
    char partial[96];
    for (const char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
        size_t len = (size_t)(slash - path);
        if (len >= sizeof partial)
            return err_set(err, ERR_INTERNAL, "%s is too long", path);
        memcpy(partial, path, len);
        partial[len] = '\0';
        if (mkdirat(view, partial, 0755) == 0)
            continue;
        if (errno != EEXIST)
            return err_sys(err, "make /proc/%s", partial);
        *fresh = false;
    }
    return 0;
}

/* FS-12: read-only inside, whoever owns the file. Of a folder, all that is put into it later shows
 * as well: it is attached once. */
static int attach_top(struct apply_state *st, const char *path, struct err *err)
{
    char name[64], dest[80];
    size_t len = strcspn(path, "/");
    if (len >= sizeof name)
        return err_set(err, ERR_INTERNAL, "%s is too long", path);
    memcpy(name, path, len);
    name[len] = '\0';
    snprintf(dest, sizeof dest, "/proc/%s", name);
    cleanup_fd int tree =
        sys_open_tree(st->view_fd, name, SYS_OPEN_TREE_CLONE | SYS_OPEN_TREE_CLOEXEC);
    if (tree < 0)
        return err_sys(err, "open the sandbox's own %s", dest);
    struct sys_mount_attr attr = {.attr_set = ATTR | SYS_MOUNT_ATTR_RDONLY};
    if (sys_mount_setattr(tree, "", SYS_AT_EMPTY_PATH, &attr) < 0)
        return err_sys(err, "protect %s", dest);
    return tree_attach(tree, st->root_fd, dest, err);
}

int apply_proc_file(struct apply_state *st, const struct op *op, struct err *err)
{
    bool fresh = true;
    if (view_make(st, err) < 0 || make_above(st->view_fd, op->a, &fresh, err) < 0)
        return err_number(err);
    cleanup_fd int fd =
        openat(st->view_fd, op->a, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0444);
    if (fd < 0 || write(fd, op->data, op->data_len) != (ssize_t)op->data_len)
        return err_sys(err, "write the sandbox's own /proc/%s", op->a);
    if (fresh && attach_top(st, op->a, err) < 0)
        return err_number(err);
    struct ctl_msg msg = {.type = CTL_PROC_FILE, .value = (int32_t)op->num[0]};
    if (op->num[1] && ctl_send(&msg, fd) < 0)
        return err_sys(err, "hand out /proc/%s", op->a);
    return 0;
}
