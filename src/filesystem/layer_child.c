/* A writable root, inside: a folder of the system is shown through an overlay whose upper layer
 * lies on the sandbox's own tmpfs.
 *
 * FS-13  What the code changes in a writable root goes to its own tmpfs, where its limit counts it
 * and with which it goes away. The lower layer is never written. Which of its files the code can
 * read is decided by the host's permissions, as without a layer: nothing is mapped to its uid.
 *
 * A file of somebody else's cannot be changed, because it cannot be copied up: its owner has no
 * name in this user namespace. It can be removed and replaced, which is what installers do, if the
 * folder that it lies in is the code's own. So the folders, without anything in them, are made a
 * second time as a layer in between: what an overlay shows of a folder is the owner in the topmost
 * layer that has it. */
#include "base/cleanup.h"
#include "filesystem/mount_child.h"
#include "os/sys.h"
#include "plan/apply.h"

#include <dirent.h>
#include <errno.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>

/* Folders deeper than that stay somebody else's. */
#define DEPTH_MAX   32u
#define FOLDERS_MAX 400000u

/* As the kernel writes it. */
struct entry {
    uint64_t ino;
    int64_t next;
    uint16_t len;
    uint8_t type;
    char name[];
};

struct walk {
    unsigned depth, left;
    bool links_count; /* the folders in a folder */
};

static int own_folders(int from, int to, struct walk *w, struct err *err);

/* Two links are its name and its own ".": there is no folder in it, whose ".." would be a third.
 * Of three folders two are such, and need not be listed. Only what everybody may list is judged by
 * that: of others the kernel decides whether they are for us. */
static bool is_last(int from, const char *name, const struct walk *w)
{
    struct stat sb;
    return w->links_count && fstatat(from, name, &sb, AT_SYMLINK_NOFOLLOW) == 0 &&
           S_ISDIR(sb.st_mode) && sb.st_nlink == 2 && (sb.st_mode & 05) == 05;
}

/* The host goes on meanwhile, its installer too: what was renamed may be listed twice. */
static int make_folder(int to, const char *name, struct walk *w, struct err *err)
{
    if (w->left-- == 0)
        return err_set(err, ERR_LIMIT, "more than %u folders", FOLDERS_MAX);
    if (mkdirat(to, name, 0755) < 0 && errno != EEXIST)
        return err_sys(err, "make the folder %s", name);
    return 0;
}

static int own_folder(int from, int to, const char *name, struct walk *w, struct err *err)
{
    if (is_last(from, name, w))
        return make_folder(to, name, w, err);
    cleanup_fd int lower =
        openat(from, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC);
    if (lower < 0) /* not for us to list, or gone: it stays as it is */
        return 0;
    if (make_folder(to, name, w, err) < 0)
        return err_number(err);
    cleanup_fd int made = openat(to, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (made < 0)
        return err_sys(err, "open the folder %s", name);
    w->depth++;
    int result = own_folders(lower, made, w, err);
    w->depth--;
    return result;
}

static bool may_be_folder(const struct entry *e)
{
    return (e->type == DT_DIR || e->type == DT_UNKNOWN) && strcmp(e->name, ".") != 0 &&
           strcmp(e->name, "..") != 0;
}

static int own_folders(int from, int to, struct walk *w, struct err *err)
{
    _Alignas(struct entry) char block[4096];
    ssize_t n = 0;
    while (w->depth < DEPTH_MAX && (n = syscall(SYS_getdents64, from, block, sizeof block)) > 0) {
        const struct entry *e;
        for (ssize_t at = 0; at < n; at += e->len) {
            e = (const struct entry *)(block + at);
            if (may_be_folder(e) && own_folder(from, to, e->name, w, err) < 0)
                return err_number(err);
        }
    }
    /* A folder that was removed since it was opened has no more in it. */
    return n < 0 && errno != ENOENT ? err_sys(err, "list a folder") : 0;
}

/* Others count them in another way, or not at all. */
static bool links_count(int dir)
{
    struct statfs s;
    return fstatfs(dir, &s) == 0 &&
           (s.f_type == EXT4_SUPER_MAGIC || s.f_type == XFS_SUPER_MAGIC || s.f_type == TMPFS_MAGIC);
}

int layer_folders(int from, int to, struct err *err)
{
    struct walk walk = {.left = FOLDERS_MAX, .links_count = links_count(from)};
    return own_folders(from, to, &walk, err);
}

/* The layer in between, on a tmpfs of its own: what the code may write does not count it. */
static int add_folders(int layers, struct err *err)
{
    static const struct fs_option options[] = {
        {"size", "1m"}, {"nr_inodes", "400100"}, {"mode", "0755"}, {NULL, NULL}};
    cleanup_fd int mnt =
        fs_make("tmpfs", options, SYS_MOUNT_ATTR_NOSUID | SYS_MOUNT_ATTR_NODEV, err);
    if (mnt < 0)
        return mnt;
    if (sys_move_mount(mnt, "", layers, "folders", SYS_MOVE_MOUNT_F_EMPTY) < 0)
        return err_sys(err, "attach the layer of folders");
    cleanup_fd int from = openat(layers, "lower", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    cleanup_fd int to = openat(layers, "folders", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (from < 0 || to < 0)
        return err_sys(err, "open the layers");
    return layer_folders(from, to, err);
}

/* The upper folder stands for the shown one itself: its mode is what the code sees. */
static int make_layers(struct apply_state *st, int lower, struct err *err)
{
    static const char *const names[] = {"upper", "work", "lower", "folders"};
    struct stat sb;
    char name[32];
    snprintf(name, sizeof name, "layer%u", st->layer_count++);
    if (mkdirat(st->work_fd, name, 0700) < 0)
        return err_sys(err, "make room for a layer");
    cleanup_fd int layers = openat(st->work_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (layers < 0)
        return err_sys(err, "open the room for a layer");
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (mkdirat(layers, names[i], 0755) < 0)
            return err_sys(err, "make room for a layer");
    if (fstat(lower, &sb) < 0 || fchmodat(layers, "upper", (sb.st_mode & 0777) | 0700, 0) < 0)
        return err_sys(err, "set the mode of a layer");
    if (sys_move_mount(lower, "", layers, "lower", SYS_MOVE_MOUNT_F_EMPTY) < 0)
        return err_sys(err, "attach the lower layer");
    return fd_steal(&layers);
}

static int make_overlay(int layers, uint64_t flags, struct err *err)
{
    bool between = flags & BIND_FOLDERS;
    const struct fs_option options[] = {{"lowerdir", between ? "folders:lower" : "lower"},
                                        {"upperdir", "upper"},
                                        {"workdir", "work"},
                                        {"userxattr", NULL},
                                        {"volatile", NULL},
                                        {NULL, NULL}};
    if (between && add_folders(layers, err) < 0)
        return err_number(err);
    if (fchdir(layers) < 0)
        return err_sys(err, "enter the layers");
    int mnt = fs_make("overlay", options, (unsigned)mount_attr_of(flags), err);
    if (mnt >= 0)
        return mnt;
    err->code = ERR_UNSUPPORTED;
    return err_hint(err, "a writable root needs overlayfs and Linux 5.11, for root over a folder "
                         "5.19; leave filesystem.writable_root out");
}

int apply_layer(struct apply_state *st, const struct op *op, struct err *err)
{
    if (st->work_fd < 0)
        return err_set(err, ERR_INTERNAL, "a layer without a place to write");
    cleanup_fd int lower = alone_open(op->num[1], op->a, op->num[2], op->num[3], err);
    if (lower < 0)
        return lower;
    cleanup_fd int layers = make_layers(st, lower, err);
    if (layers < 0)
        return err_wrap(err, "%s", op->a);
    cleanup_fd int mnt = make_overlay(layers, op->num[0], err);
    if (mnt < 0)
        return err_wrap(err, "%s", op->a);
    return tree_attach(mnt, st->root_fd, op->b, err);
}
