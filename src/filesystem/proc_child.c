/* The private /proc. Three views:
 *
 * pid     only the sandbox's own tasks; the kernel's files do not exist at all.
 * own     the same, plus the sandbox's own numbers (proc_own_child.c); of the kernel's files none
 * but what tells a clock of the sandbox's own.
 * system  the same as pid, plus a fixed list of harmless files that ordinary tools read (ps, free,
 * uptime, node's os.cpus), with the machine's numbers.
 *
 * In the last two everything else that this kernel puts into /proc is covered by an empty,
 * read-only file or folder: the list names what stays, so that a newer kernel's new file is covered
 * too.
 *
 * In all, tasks that the code may not trace (init) are invisible.
 *
 * A template process, which runs nobody's code, has all of it. */
#include "base/cleanup.h"
#include "filesystem/mount_child.h"
#include "filesystem/proc_view.h"
#include "os/raw_child.h"
#include "os/sys.h"
#include "plan/apply.h"
#include "policy/policy.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#define ATTR (SYS_MOUNT_ATTR_NOSUID | SYS_MOUNT_ATTR_NODEV | SYS_MOUNT_ATTR_NOEXEC)

#define TYPE_FOLDER 4
#define TYPE_LINK   10

/* A tmpfs that holds one empty folder and one empty file, read-only once they are there. It is used
 * for covering and goes away with the old root. */
static int covers_make(struct err *err)
{
    static const struct fs_option options[] = {
        {"size", "4096"}, {"nr_inodes", "4"}, {"mode", "0755"}, {NULL, NULL}};
    int mnt = fs_make("tmpfs", options, ATTR, err);
    if (mnt < 0)
        return mnt;
    cleanup_fd int file = openat(mnt, "file", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0444);
    if (file < 0 || mkdirat(mnt, "folder", 0555) < 0) {
        close(mnt);
        return err_sys(err, "make covers for /proc");
    }
    return mnt;
}

static int cover(int covers, int proc, const struct raw_dirent *e, struct err *err)
{
    const char *source = e->type == TYPE_FOLDER ? "folder" : "file";
    cleanup_fd int tree =
        sys_open_tree(covers, source, SYS_OPEN_TREE_CLONE | SYS_OPEN_TREE_CLOEXEC);
    if (tree < 0)
        return err_sys(err, "open a cover");
    if (sys_move_mount(tree, "", proc, e->name, SYS_MOVE_MOUNT_F_EMPTY) < 0)
        return err_sys(err, "cover /proc/%s", e->name);
    return 0;
}

static int cover_all(int covers, int proc, const struct op *op, struct err *err)
{
    char block[4096] __attribute__((aligned(8)));
    for (long n; (n = syscall(SYS_getdents64, proc, block, sizeof block)) != 0;) {
        if (n < 0)
            return err_sys(err, "list /proc");
        for (long at = 0; at < n;) {
            const struct raw_dirent *e = (const struct raw_dirent *)(block + at);
            at += e->reclen;
            /* Links lead to the reader's own entries. */
            if (e->type != TYPE_LINK &&
                !proc_view_keeps(e->name, op->num[0] == PROC_OWN, op->num[2]) &&
                cover(covers, proc, e, err) < 0)
                return err_number(err);
        }
    }
    return 0;
}

static int make_read_only(int covers, struct err *err)
{
    struct sys_mount_attr attr = {.attr_set = SYS_MOUNT_ATTR_RDONLY};
    return sys_mount_setattr(covers, "", SYS_AT_EMPTY_PATH, &attr) < 0
               ? err_sys(err, "protect the covers")
               : 0;
}

static int cover_kernel_files(struct apply_state *st, const struct op *op, struct err *err)
{
    cleanup_fd int covers = covers_make(err);
    if (covers < 0)
        return covers;
    cleanup_fd int proc = inside_open(st->root_fd, op->a, O_RDONLY | O_DIRECTORY);
    if (proc < 0)
        return err_sys(err, "open the new /proc");
    if (make_read_only(covers, err) < 0 || helper_attach(covers, err) < 0)
        return err_number(err);
    return cover_all(covers, proc, op, err);
}

static const struct fs_option whole[] = {{NULL, NULL}};

/* For who watches the processes: one that no path inside leads to. What the code's own hides from
 * the code, because it may not be looked into, it would hide from an ordinary user outside too. */
static int hand_out(struct err *err)
{
    cleanup_fd int mnt = fs_make("proc", whole, ATTR, err);
    if (mnt < 0)
        return mnt;
    struct ctl_msg msg = {.type = CTL_PROC};
    return ctl_send(&msg, mnt) < 0 ? err_sys(err, "hand out a /proc") : 0;
}

int apply_proc(struct apply_state *st, const struct op *op, struct err *err)
{
    static const struct fs_option all[] = {{"hidepid", "invisible"}, {NULL, NULL}};
    static const struct fs_option pids_only[] = {
        {"hidepid", "invisible"}, {"subset", "pid"}, {NULL, NULL}};
    bool covered = op->num[0] != PROC_PID && !op->num[1];
    cleanup_fd int mnt = fs_make("proc", op->num[1] ? whole : covered ? all : pids_only, ATTR, err);
    if (mnt < 0) {
        if (err->sys_errno == EPERM)
            err_hint(
                err,
                "the host's /proc is partly hidden (as in a container), so the kernel refuses a "
                "private one; use --tier process there");
        return mnt;
    }
    if ((op->num[3] && hand_out(err) < 0) || tree_attach(mnt, st->root_fd, op->a, err) < 0)
        return err_number(err);
    return covered ? cover_kernel_files(st, op, err) : 0;
}
