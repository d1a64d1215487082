/* What a bind mount brings in: opened once, on the host, and looked at by descriptor. */
#include "base/cleanup.h"
#include "oci/build.h"
#include "os/procfs.h"
#include "os/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>

static int judge_kind(struct oci_source *s, const struct stat *sb, const struct oci_operator *o,
                      struct err *err)
{
    s->folder = S_ISDIR(sb->st_mode);
    /* Engines keep names and addresses of hosts in files that only root comes to, and those are in
     * nearly every container. */
    if (!s->folder)
        s->nosuid |= !S_ISREG(sb->st_mode) || !oci_within_reach(s->path);
    if (S_ISDIR(sb->st_mode) || S_ISREG(sb->st_mode) || S_ISFIFO(sb->st_mode))
        return 0;
    if (S_ISSOCK(sb->st_mode))
        return oci_text_in(o->sockets, s->path)
                   ? 0
                   : oci_refuse_source(
                         s->path, "a socket of the host is a door to what listens there",
                         "only the operator can allow one, by its path in " OCI_OPERATOR_FILE
                         " (sockets)",
                         err);
    for (size_t i = 0; S_ISCHR(sb->st_mode) && i < oci_devices_len; i++)
        if (major(sb->st_rdev) == oci_devices[i].major &&
            minor(sb->st_rdev) == oci_devices[i].minor) {
            s->device = true;
            return 0;
        }
    return oci_refuse_source(s->path, "it is a device",
                             "a sandbox has null, zero, full, random, urandom and tty", err);
}

static int judge_source(int fd, struct oci_source *s, const struct oci_operator *o, struct err *err)
{
    struct stat sb;
    struct statfs fs;
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, s->path, sizeof s->path - 1);
    if (n <= 0 || n >= (ssize_t)sizeof s->path - 1 || fstat(fd, &sb) < 0 || fstatfs(fd, &fs) < 0)
        return err_sys(err, "look at the source of a mount");
    s->path[n] = '\0';
    s->nosuid = fs.f_flags & ST_NOSUID;
    s->dev = sb.st_dev;
    s->ino = sb.st_ino;
    s->mount = procfs_mount_of(fd);
    if (oci_judge_view(s->path, (uint32_t)fs.f_type, err) < 0 || oci_judge_place(s->path, err) < 0)
        return err_number(err);
    return judge_kind(s, &sb, o, err);
}

/* Only who is root over this mount namespace can take a copy here; else the process inside does,
 * and compares. */
static int take_tree(int fd, struct oci_source *s, bool recursive, uint64_t attr, struct err *err)
{
    unsigned flags = SYS_OPEN_TREE_CLONE | SYS_OPEN_TREE_CLOEXEC | SYS_AT_EMPTY_PATH;
    unsigned depth = s->folder && recursive ? SYS_AT_RECURSIVE : 0;
    struct sys_mount_attr set = {.attr_set = attr, .propagation = MS_PRIVATE};
    s->tree = sys_open_tree(fd, "", flags | depth);
    if (s->tree < 0 && errno != EPERM)
        return err_sys(err, "take %s", s->path);
    /* What the process inside takes is always all of it. */
    if (oci_judge_mounts(s, s->folder && (recursive || s->tree < 0), err) < 0)
        return err_number(err);
    if (s->tree < 0)
        return 0;
    if (sys_mount_setattr(s->tree, "", SYS_AT_EMPTY_PATH | (s->folder ? SYS_AT_RECURSIVE : 0),
                          &set) < 0)
        return err_sys(err, "set the flags of %s", s->path);
    return 0;
}

static int open_source(struct oci_build *b, size_t i, int bundle, const struct oci_operator *o,
                       struct err *err)
{
    const struct oci_mount *m = &b->config->mounts[i];
    struct oci_source *s = &b->sources[i];
    uint64_t attr = SYS_MOUNT_ATTR_NOSUID;
    cleanup_fd int fd =
        sys_openat2(bundle, m->source, O_PATH | O_CLOEXEC, 0, RESOLVE_NO_MAGICLINKS);
    if (fd < 0)
        return err_sys(err, "open %.200s, the source of a mount", m->source);
    if (judge_source(fd, s, o, err) < 0)
        return err_number(err);
    attr |= m->read_only ? SYS_MOUNT_ATTR_RDONLY : 0;
    attr |= m->noexec ? SYS_MOUNT_ATTR_NOEXEC : 0;
    attr |= m->nosymfollow ? SYS_MOUNT_ATTR_NOSYMFOLLOW : 0;
    attr |= s->device ? SYS_MOUNT_ATTR_RDONLY : SYS_MOUNT_ATTR_NODEV;
    if (take_tree(fd, s, m->recursive, attr, err) < 0)
        return err_number(err);
    b->host_writable |= !m->read_only && !s->nosuid;
    return 0;
}

static int open_root(struct oci_build *b, int bundle, struct err *err)
{
    struct oci_operator none = {.tree = NULL};
    cleanup_fd int fd = sys_openat2(bundle, b->config->root_path, O_PATH | O_DIRECTORY | O_CLOEXEC,
                                    0, RESOLVE_NO_MAGICLINKS);
    if (fd < 0)
        return err_sys(err, "open the root %.200s", b->config->root_path);
    if (judge_source(fd, &b->root, &none, err) < 0)
        return err_wrap(err, "root");
    if (take_tree(fd, &b->root, true, SYS_MOUNT_ATTR_NOSUID | SYS_MOUNT_ATTR_NODEV, err) < 0)
        return err_wrap(err, "root");
    return 0;
}

int oci_sources_open(struct oci_build *b, int bundle, const struct oci_operator *o, struct err *err)
{
    b->root.tree = -1;
    for (size_t i = 0; i < OCI_MOUNTS_MAX; i++)
        b->sources[i].tree = -1;
    if (open_root(b, bundle, err) < 0)
        return err_number(err);
    for (size_t i = 0; i < b->config->mount_count; i++)
        if (b->config->mounts[i].type == OCI_MOUNT_BIND && open_source(b, i, bundle, o, err) < 0)
            return err_number(err);
    return oci_judge_sockets(b, o, err);
}

void oci_sources_close(struct oci_build *b)
{
    if (b->root.tree >= 0)
        close(b->root.tree);
    for (size_t i = 0; i < OCI_MOUNTS_MAX; i++)
        if (b->sources[i].tree >= 0)
            close(b->sources[i].tree);
}
