/* Mounts of the new root, made by the process inside before it gives up its rights (which are over
 * its own user namespace only). Every place is resolved beneath the root with its links, and looked
 * at before something is put there (OC-8). */
#include "base/cleanup.h"
#include "base/text.h"
#include "oci/build.h"
#include "os/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#define MAGIC_PROC    0x9fa0
#define MAGIC_SYSFS   0x62656572
#define MAGIC_CGROUP  0x27e0eb
#define MAGIC_CGROUP2 0x63677270

/* Links of the image lead where they lead inside it, never out. */
static int in_root(int root, const char *path, int flags)
{
    while (*path == '/')
        path++;
    return sys_openat2(root, *path ? path : ".", (uint64_t)flags | O_CLOEXEC, 0,
                       RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS);
}

/* The folder that is to hold the last part of a path, whose missing folders are made. */
static int open_parent(int root, char *path, char **leaf, struct err *err)
{
    char *slash = strrchr(path, '/');
    *leaf = slash ? slash + 1 : path;
    if (slash)
        *slash = '\0';
    return slash ? oci_place(root, path, true, err) : in_root(root, "/", O_PATH | O_DIRECTORY);
}

static int find_or_make(int root, const char *path, bool folder, struct err *err)
{
    char copy[PATH_MAX], *leaf;
    struct stat sb;
    cleanup_fd int there = in_root(root, path, O_PATH);
    if (there >= 0)
        return fd_steal(&there);
    if (errno != ENOENT)
        return err_sys(err, "find %.200s in the root", path);
    size_t len = strlen(path);
    while (len > 1 && path[len - 1] == '/')
        len--;
    if (len >= sizeof copy)
        return err_set(err, ERR_USAGE, "a path in the root is too long");
    memcpy(copy, path, len);
    copy[len] = '\0';
    cleanup_fd int parent = open_parent(root, copy, &leaf, err);
    if (parent < 0)
        return err_number(err);
    if (fstatat(parent, leaf, &sb, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(sb.st_mode))
        return err_set(err, ERR_REFUSED, "%.200s is a link to nowhere in the root", path);
    cleanup_fd int made = -1;
    int r = folder ? mkdirat(parent, leaf, 0755)
                   : (made = openat(parent, leaf,
                                    O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644));
    if (r < 0)
        return err_sys(err, "make %.200s in the root", path);
    int fd = openat(parent, leaf, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    return fd < 0 ? err_sys(err, "open %.200s in the root", path) : fd;
}

/* Containers can share a root, and be made at the same moment (the tasks of a job): what another
 * one made since it was looked for is found by looking again. */
int oci_place(int root, const char *path, bool folder, struct err *err)
{
    int fd = find_or_make(root, path, folder, err);
    if (fd >= 0 || err->sys_errno != EEXIST)
        return fd;
    *err = (struct err)ERR_INIT;
    return find_or_make(root, path, folder, err);
}

int oci_attach(int mount, int target, const char *dest, struct err *err)
{
    if (sys_move_mount(mount, "", target, "", SYS_MOVE_MOUNT_F_EMPTY | SYS_MOVE_MOUNT_T_EMPTY) < 0)
        return err_sys(err, "mount on %.200s", dest);
    return 0;
}

static bool same_file(int a, int b)
{
    struct stat one, two;
    return fstat(a, &one) == 0 && fstat(b, &two) == 0 && one.st_dev == two.st_dev &&
           one.st_ino == two.st_ino;
}

/* OC-8: by where it is, not by how it is written. */
static int judge_target(int root, int target, const struct oci_mount *m, struct err *err)
{
    struct statfs fs;
    if (fstatfs(target, &fs) < 0)
        return err_sys(err, "look at %.200s in the root", m->dest);
    bool group = m->type == OCI_MOUNT_CGROUP ||
                 (m->type == OCI_MOUNT_TMPFS && strcmp(m->dest, "/sys/fs/cgroup") == 0);
    bool kernel = fs.f_type == MAGIC_PROC || fs.f_type == MAGIC_CGROUP ||
                  fs.f_type == MAGIC_CGROUP2 || (fs.f_type == MAGIC_SYSFS && !group);
    if (kernel || same_file(root, target)) {
        err_set(err, ERR_REFUSED, "config: mount on %.200s: it would come to stand on %s", m->dest,
                kernel ? "the kernel's own files" : "the root itself");
        err_at(err, BOUNDARY_FILESYSTEM);
        return err_hint(err,
                        "choose another destination; links in the image count as where they lead");
    }
    return 0;
}

/* ---- each kind ---- */

static uint64_t attr_of(const struct oci_mount *m)
{
    return SYS_MOUNT_ATTR_NOSUID | (m->type == OCI_MOUNT_DEVPTS ? 0 : SYS_MOUNT_ATTR_NODEV) |
           (m->read_only || m->type == OCI_MOUNT_CGROUP ? SYS_MOUNT_ATTR_RDONLY : 0) |
           (m->noexec ? SYS_MOUNT_ATTR_NOEXEC : 0) |
           (m->nosymfollow ? SYS_MOUNT_ATTR_NOSYMFOLLOW : 0);
}

static int set_data(int fs, const struct oci_mount *m, struct err *err)
{
    char data[sizeof m->data];
    memcpy(data, m->data, sizeof data);
    for (char *at = data; *at;) {
        char *end = at + strcspn(at, ","), *value = memchr(at, '=', (size_t)(end - at));
        bool last = !*end;
        *end = '\0';
        if (value)
            *value++ = '\0';
        if (sys_fsconfig(fs, value ? SYS_FSCONFIG_SET_STRING : SYS_FSCONFIG_SET_FLAG, at, value) <
            0)
            return err_sys(err, "mount on %.150s: option %s", m->dest, at);
        at = last ? end : end + 1;
    }
    return 0;
}

static int new_fs(const char *type, const struct oci_mount *m, struct err *err)
{
    cleanup_fd int fs = sys_fsopen(type);
    if (fs < 0)
        return err_sys(err, "file system %s", type);
    if (set_data(fs, m, err) < 0)
        return err_number(err);
    if (sys_fsconfig(fs, SYS_FSCONFIG_CMD_CREATE, NULL, NULL) < 0)
        return err_sys(err, "file system %s for %.150s", type, m->dest);
    int mnt = sys_fsmount(fs, (unsigned)attr_of(m));
    return mnt < 0 ? err_sys(err, "file system %s for %.150s", type, m->dest) : mnt;
}

static int bind_tree(const struct oci_build *b, size_t i, struct err *err)
{
    const struct oci_source *s = &b->sources[i];
    const struct oci_mount *m = &b->config->mounts[i];
    struct sys_mount_attr set = {.attr_set = attr_of(m), .propagation = MS_PRIVATE};
    if (s->tree >= 0)
        return fcntl(s->tree, F_DUPFD_CLOEXEC, 3);
    struct stat sb;
    cleanup_fd int at = sys_openat2(AT_FDCWD, s->path, O_PATH | O_CLOEXEC, 0, RESOLVE_NO_SYMLINKS);
    if (at < 0 || fstat(at, &sb) < 0)
        return err_sys(err, "open %s", s->path);
    if (sb.st_dev != s->dev || sb.st_ino != s->ino)
        return err_set(err, ERR_REFUSED, "%s was replaced while the sandbox was being built",
                       s->path);
    /* All below it comes along: what hides something there cannot be left out by who is not its
     * owner. */
    unsigned depth = s->folder ? SYS_AT_RECURSIVE : 0;
    cleanup_fd int tree = sys_open_tree(
        at, "", SYS_OPEN_TREE_CLONE | SYS_OPEN_TREE_CLOEXEC | SYS_AT_EMPTY_PATH | depth);
    if (s->device)
        set.attr_set = (set.attr_set & ~(uint64_t)SYS_MOUNT_ATTR_NODEV) | SYS_MOUNT_ATTR_RDONLY;
    if (tree < 0 || sys_mount_setattr(tree, "", SYS_AT_EMPTY_PATH | depth, &set) < 0)
        return err_sys(err, "take %s", s->path);
    return fd_steal(&tree);
}

static bool is_empty(int target)
{
    char name[1024];
    cleanup_fd int fd = openat(target, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    long n, total = 0;
    while (fd >= 0 && (n = syscall(SYS_getdents64, fd, name, sizeof name)) > 0)
        total += n;
    return fd >= 0 && total <= 48; /* "." and ".." */
}

static int copy_up(const struct oci_mount *m, int target, struct err *err)
{
    if (!m->copy_up || is_empty(target))
        return 0;
    err_set(err, ERR_UNSUPPORTED,
            "config: mount on %.200s: tmpcopyup, and there is something to copy", m->dest);
    return err_hint(err, "mount it with notmpcopyup");
}

/* v1: a folder for each hierarchy. */
static int cgroup_v1(const struct oci_build *b, const struct oci_mount *m, int mnt, struct err *err)
{
    for (unsigned i = 0; i < b->groups->count; i++) {
        const struct oci_hierarchy *h = &b->groups->item[i];
        const char *name = strrchr(h->mount, '/');
        cleanup_fd int fs = sys_fsopen("cgroup");
        if (!name || fs < 0)
            return err_sys(err, "file system cgroup");
        char words[128];
        memcpy(words, h->controllers, sizeof words);
        for (char *at = words; *at;) {
            char *end = at + strcspn(at, ",");
            bool last = !*end;
            *end = '\0';
            bool named = text_begins(at, "name=");
            if (sys_fsconfig(fs, named ? SYS_FSCONFIG_SET_STRING : SYS_FSCONFIG_SET_FLAG,
                             named ? "name" : at, named ? at + 5 : NULL) < 0)
                return err_sys(err, "cgroup %s", at);
            at = last ? end : end + 1;
        }
        cleanup_fd int group = -1;
        if (sys_fsconfig(fs, SYS_FSCONFIG_CMD_CREATE, NULL, NULL) < 0 ||
            (group = sys_fsmount(fs, (unsigned)attr_of(m))) < 0)
            return err_sys(err, "cgroup %s", h->controllers);
        cleanup_fd int place = -1;
        if (mkdirat(mnt, name + 1, 0755) < 0 ||
            (place = openat(mnt, name + 1, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)) < 0)
            return err_sys(err, "a folder for cgroup %s", h->controllers);
        if (oci_attach(group, place, m->dest, err) < 0)
            return err_number(err);
    }
    return 0;
}

static int make_cgroup(const struct oci_build *b, const struct oci_mount *m, int target,
                       struct err *err)
{
    struct oci_mount folder = {
        .type = OCI_MOUNT_TMPFS, .dest = m->dest, .noexec = true, .data = "mode=755"};
    struct sys_mount_attr shut = {.attr_set = SYS_MOUNT_ATTR_RDONLY};
    if (b->groups->v2) {
        cleanup_fd int mnt = new_fs("cgroup2", m, err);
        return mnt < 0 ? err_number(err) : oci_attach(mnt, target, m->dest, err);
    }
    cleanup_fd int mnt = new_fs("tmpfs", &folder, err);
    if (mnt < 0 || oci_attach(mnt, target, m->dest, err) < 0 || cgroup_v1(b, m, mnt, err) < 0)
        return err_number(err);
    return sys_mount_setattr(mnt, "", SYS_AT_EMPTY_PATH, &shut) < 0
               ? err_sys(err, "close %s", m->dest)
               : 0;
}

static int make(const struct oci_build *b, size_t i, struct err *err)
{
    const struct oci_mount *m = &b->config->mounts[i];
    int outside = m->type == OCI_MOUNT_SYSFS    ? b->sysfs_fd
                  : m->type == OCI_MOUNT_MQUEUE ? b->mqueue_fd
                                                : -1;
    if (outside >= 0)
        return fcntl(outside, F_DUPFD_CLOEXEC, 3);
    switch (m->type) {
    case OCI_MOUNT_BIND:
        return bind_tree(b, i, err);
    case OCI_MOUNT_TMPFS:
        return new_fs("tmpfs", m, err);
    case OCI_MOUNT_PROC:
        return new_fs("proc", m, err);
    case OCI_MOUNT_SYSFS:
        return new_fs("sysfs", m, err);
    case OCI_MOUNT_MQUEUE:
        return new_fs("mqueue", m, err);
    case OCI_MOUNT_DEVPTS:
        return new_fs("devpts", m, err);
    default:
        return err_set(err, ERR_INTERNAL, "mount of a kind that was not refused");
    }
}

/* proc and sysfs: links in the image are not followed. */
static int strict_place(int root, const struct oci_mount *m, struct err *err)
{
    struct stat sb;
    const char *name = m->dest + 1;
    if (mkdirat(root, name, 0555) < 0 && errno != EEXIST)
        return err_sys(err, "make %s in the root", m->dest);
    int fd = openat(root, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0 && fstat(fd, &sb) == 0 && S_ISDIR(sb.st_mode))
        return fd;
    if (fd >= 0)
        close(fd);
    err_set(err, ERR_REFUSED, "config: %s in the root is not a folder", m->dest);
    return err_at(err, BOUNDARY_FILESYSTEM);
}

int oci_mount_make(const struct oci_build *b, int root, size_t i, struct err *err)
{
    const struct oci_mount *m = &b->config->mounts[i];
    bool strict = m->type == OCI_MOUNT_PROC || m->type == OCI_MOUNT_SYSFS;
    bool folder = m->type != OCI_MOUNT_BIND || b->sources[i].folder;
    cleanup_fd int target =
        strict ? strict_place(root, m, err) : oci_place(root, m->dest, folder, err);
    if (target < 0 || judge_target(root, target, m, err) < 0 || copy_up(m, target, err) < 0)
        return err_number(err);
    if (m->type == OCI_MOUNT_CGROUP)
        return make_cgroup(b, m, target, err);
    cleanup_fd int mnt = make(b, i, err);
    return mnt < 0 ? err_number(err) : oci_attach(mnt, target, m->dest, err);
}

/* ---- what every root gets ---- */

int oci_bind_inside(const char *source, int root, const char *dest, uint64_t attr, struct err *err)
{
    struct sys_mount_attr set = {.attr_set = SYS_MOUNT_ATTR_NOSUID | SYS_MOUNT_ATTR_NOEXEC | attr,
                                 .propagation = MS_PRIVATE};
    cleanup_fd int tree =
        sys_open_tree(AT_FDCWD, source, SYS_OPEN_TREE_CLONE | SYS_OPEN_TREE_CLOEXEC);
    if (tree < 0 || sys_mount_setattr(tree, "", SYS_AT_EMPTY_PATH, &set) < 0)
        return err_sys(err, "take %s", source);
    cleanup_fd int target = oci_place(root, dest, false, err);
    return target < 0 ? err_number(err) : oci_attach(tree, target, dest, err);
}

/* A folder becomes empty, a file like /dev/null, which is the host's and read-only as every node
 * (OC-14). What is not there needs no mask. */
int oci_mask(int root, const char *path, struct err *err)
{
    struct stat sb;
    struct oci_mount nothing = {.type = OCI_MOUNT_TMPFS,
                                .dest = path,
                                .read_only = true,
                                .noexec = true,
                                .data = "size=4k,mode=555"};
    cleanup_fd int at = in_root(root, path, O_PATH);
    if (at < 0)
        return errno == ENOENT || errno == ENOTDIR ? 0 : err_sys(err, "mask %.200s", path);
    if (fstat(at, &sb) < 0)
        return err_sys(err, "mask %.200s", path);
    cleanup_fd int mnt =
        S_ISDIR(sb.st_mode)
            ? new_fs("tmpfs", &nothing, err)
            : sys_open_tree(AT_FDCWD, "/dev/null", SYS_OPEN_TREE_CLONE | SYS_OPEN_TREE_CLOEXEC);
    if (mnt < 0)
        return S_ISDIR(sb.st_mode) ? err_number(err) : err_sys(err, "mask %.200s", path);
    struct sys_mount_attr set = {.attr_set = SYS_MOUNT_ATTR_NOSUID | SYS_MOUNT_ATTR_NOEXEC |
                                             SYS_MOUNT_ATTR_RDONLY,
                                 .propagation = MS_PRIVATE};
    if (!S_ISDIR(sb.st_mode) && sys_mount_setattr(mnt, "", SYS_AT_EMPTY_PATH, &set) < 0)
        return err_sys(err, "mask %.200s", path);
    return oci_attach(mnt, at, path, err);
}

int oci_shut(int root, const char *path, struct err *err)
{
    struct sys_mount_attr set = {.attr_set = SYS_MOUNT_ATTR_RDONLY, .propagation = MS_PRIVATE};
    cleanup_fd int at = in_root(root, path, O_PATH);
    if (at < 0)
        return errno == ENOENT || errno == ENOTDIR ? 0 : err_sys(err, "find %.200s", path);
    cleanup_fd int tree = sys_open_tree(
        at, "", SYS_OPEN_TREE_CLONE | SYS_OPEN_TREE_CLOEXEC | SYS_AT_EMPTY_PATH | SYS_AT_RECURSIVE);
    if (tree < 0 || sys_mount_setattr(tree, "", SYS_AT_EMPTY_PATH | SYS_AT_RECURSIVE, &set) < 0)
        return err_sys(err, "make %.200s read-only", path);
    return oci_attach(tree, at, path, err);
}
