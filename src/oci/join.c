/* Joining a pod's namespaces; see join.h. */
#include "oci/join.h"

#include "base/cleanup.h"
#include "os/fd.h"
#include "os/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#define MAGIC_NSFS 0x6e736673
#define NS_KIND    0xb703 /* NS_GET_NSTYPE */

static const struct {
    const char *file;
    int flag;
} kinds[] = {
    [OCI_NS_PID] = {"pid", CLONE_NEWPID},          [OCI_NS_NETWORK] = {"net", CLONE_NEWNET},
    [OCI_NS_MOUNT] = {"mnt", CLONE_NEWNS},         [OCI_NS_IPC] = {"ipc", CLONE_NEWIPC},
    [OCI_NS_UTS] = {"uts", CLONE_NEWUTS},          [OCI_NS_USER] = {"user", CLONE_NEWUSER},
    [OCI_NS_CGROUP] = {"cgroup", CLONE_NEWCGROUP}, [OCI_NS_TIME] = {"time", CLONE_NEWTIME},
};

int oci_ns_flag(enum oci_ns ns)
{
    return kinds[ns].flag;
}

void oci_joins_init(struct oci_joins *j)
{
    for (size_t i = 0; i < OCI_NS_COUNT; i++)
        j->fd[i] = j->own[i] = -1;
}

void oci_joins_close(struct oci_joins *j)
{
    for (size_t i = 0; i < OCI_NS_COUNT; i++) {
        if (j->fd[i] >= 0)
            close(j->fd[i]);
        if (j->own[i] >= 0)
            close(j->own[i]);
    }
    oci_joins_init(j);
}

static bool is_of(int fd, const char *process, enum oci_ns ns)
{
    char path[64];
    struct stat one, two;
    snprintf(path, sizeof path, "/proc/%s/ns/%s", process, kinds[ns].file);
    return fstat(fd, &one) == 0 && stat(path, &two) == 0 && one.st_ino == two.st_ino &&
           one.st_dev == two.st_dev;
}

static int open_one(struct oci_joins *j, enum oci_ns ns, const char *path, struct err *err)
{
    struct statfs fs;
    char own[64];
    j->fd[ns] = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (j->fd[ns] < 0)
        return err_sys(err, "open the %s namespace %.200s", oci_ns_name(ns), path);
    if (fstatfs(j->fd[ns], &fs) < 0 || fs.f_type != MAGIC_NSFS ||
        ioctl(j->fd[ns], NS_KIND) != kinds[ns].flag) {
        err_set(err, ERR_REFUSED, "config: %.200s is not a %s namespace", path, oci_ns_name(ns));
        return err_at(err, BOUNDARY_KERNEL);
    }
    if (is_of(j->fd[ns], "self", ns) || is_of(j->fd[ns], "1", ns)) {
        err_set(err, ERR_REFUSED, "config: %.200s is the host's %s namespace", path,
                oci_ns_name(ns));
        err_at(err, ns == OCI_NS_NETWORK ? BOUNDARY_NETWORK : BOUNDARY_KERNEL);
        return err_hint(err, "leave the path out for a new one, or name the pod's");
    }
    snprintf(own, sizeof own, "/proc/self/ns/%s", kinds[ns].file);
    j->own[ns] = open(own, O_RDONLY | O_CLOEXEC);
    return j->own[ns] < 0 ? err_sys(err, "open %s", own) : 0;
}

int oci_joins_open(struct oci_joins *j, const struct oci_config *c, struct err *err)
{
    for (enum oci_ns ns = 0; ns < OCI_NS_COUNT; ns++)
        if (c->ns[ns].path && open_one(j, ns, c->ns[ns].path, err) < 0)
            return err_number(err);
    return 0;
}

static bool wants(const struct oci_config *c, enum oci_mount_type type)
{
    for (size_t i = 0; i < c->mount_count; i++)
        if (c->mounts[i].type == type)
            return true;
    return false;
}

/* A file system of a namespace that belongs to others can only be made by who has rights over it.
 * An ordinary user has none, and the process inside will say so. */
static int make_outside(const char *type, unsigned attr)
{
    cleanup_fd int fs = sys_fsopen(type);
    if (fs < 0 || sys_fsconfig(fs, SYS_FSCONFIG_CMD_CREATE, NULL, NULL) < 0)
        return -1;
    return sys_fsmount(fs,
                       attr | SYS_MOUNT_ATTR_NOSUID | SYS_MOUNT_ATTR_NODEV | SYS_MOUNT_ATTR_NOEXEC);
}

int oci_joins_enter(struct oci_joins *j, struct oci_build *b, struct err *err)
{
    for (enum oci_ns ns = 0; ns < OCI_NS_COUNT; ns++)
        if (j->fd[ns] >= 0 && setns(j->fd[ns], kinds[ns].flag) < 0)
            return err_sys(err, "join the %s namespace", oci_ns_name(ns));
    if (j->fd[OCI_NS_NETWORK] >= 0) {
        if (oci_sysctls_set(b->config->sysctl, true, false, err) < 0)
            return err_number(err);
        if (wants(b->config, OCI_MOUNT_SYSFS))
            b->sysfs_fd = make_outside("sysfs", SYS_MOUNT_ATTR_RDONLY);
    }
    if (j->fd[OCI_NS_IPC] >= 0 && wants(b->config, OCI_MOUNT_MQUEUE))
        b->mqueue_fd = make_outside("mqueue", 0);
    return 0;
}

int oci_joins_leave(struct oci_joins *j, struct err *err)
{
    for (enum oci_ns ns = 0; ns < OCI_NS_COUNT; ns++)
        if (j->own[ns] >= 0 && setns(j->own[ns], kinds[ns].flag) < 0)
            return err_sys(err, "leave the %s namespace", oci_ns_name(ns));
    return 0;
}
