/* Builds the container's view, as the process inside: names, root, mounts, devices, masks, then the
 * pivot. Its rights are over its own user namespace only. */
#include "base/cleanup.h"
#include "base/text.h"
#include "oci/build.h"
#include "os/fd.h"
#include "os/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

/* In force whatever the configuration lists. */
static const char *const floor_masked[] = {
    "/proc/acpi",
    "/proc/asound",
    "/proc/kcore",
    "/proc/keys",
    "/proc/key-users",
    "/proc/latency_stats",
    "/proc/timer_list",
    "/proc/scsi",
    "/proc/sched_debug",
    "/proc/kpagecount",
    "/proc/kpageflags",
    "/proc/kpagecgroup",
    "/proc/kallsyms",
    "/proc/kmsg",
    "/proc/vmallocinfo",
    "/proc/timer_stats",
    "/sys/firmware",
    "/sys/kernel",
    "/sys/devices/virtual/powercap",
    "/sys/fs/selinux",
    "/sys/dev/block",
    "/sys/class/powercap",
    "/proc/interrupts",
};
static const char *const floor_read_only[] = {
    "/proc/bus",           "/proc/fs",     "/proc/irq", "/proc/sys",
    "/proc/sysrq-trigger", "/proc/driver", "/proc/mtrr"};

static int set_names(const struct oci_build *b, struct err *err)
{
    const struct oci_config *c = b->config;
    if (b->joined_uts)
        return 0; /* the pod's */
    if (c->hostname && *c->hostname && sethostname(c->hostname, strlen(c->hostname)) < 0)
        return err_sys(err, "set the host name");
    if (c->domainname && *c->domainname && setdomainname(c->domainname, strlen(c->domainname)) < 0)
        return err_sys(err, "set the domain name");
    return 0;
}

int oci_sysctls_set(const struct json *list, bool network, bool others, struct err *err)
{
    for (size_t i = 0; i < json_count(list); i++) {
        char path[256];
        const char *name = json_key_at(list, i);
        if (!(text_begins(name, "net.") ? network : others))
            continue;
        snprintf(path, sizeof path, "/proc/sys/%s", name);
        for (char *at = path + sizeof "/proc/sys/" - 1; *at; at++)
            *at = *at == '.' ? '/' : *at;
        int r = file_write(AT_FDCWD, path, json_string(json_value_at(list, i)));
        if (r < 0) {
            errno = -r;
            return err_sys(err, "set %s", name);
        }
    }
    return 0;
}

/* Those of a joined network were set outside. */
static int set_sysctls(const struct oci_build *b, struct err *err)
{
    return oci_sysctls_set(b->config->sysctl, !b->config->ns[OCI_NS_NETWORK].path, true, err);
}

/* By descriptor where one could be taken: a root of other ids may lie where they cannot go. It
 * hangs over the host's /proc until the pivot, or in the booth of an engine, which does. */
static int attach_taken(int taken, int booth, struct err *err)
{
    cleanup_fd int tree = fcntl(taken, F_DUPFD_CLOEXEC, 3);
    if (tree < 0 || sys_move_mount(tree, "", booth, booth < 0 ? "/proc" : OCI_BOOTH_FOLDER,
                                   SYS_MOVE_MOUNT_F_EMPTY) < 0)
        return err_sys(err, "attach the root");
    return fd_steal(&tree);
}

static int attach_root(const struct oci_build *b, int booth, struct err *err)
{
    const struct oci_source *s = &b->root;
    struct sys_mount_attr private = {.propagation = MS_PRIVATE};
    struct sys_mount_attr set = {.attr_set = SYS_MOUNT_ATTR_NOSUID | SYS_MOUNT_ATTR_NODEV,
                                 .propagation = MS_PRIVATE};
    struct stat sb;
    if (sys_mount_setattr(AT_FDCWD, "/", SYS_AT_RECURSIVE, &private) < 0)
        return err_sys(err, "make all mounts private");
    if (s->tree >= 0)
        return attach_taken(s->tree, booth, err);
    cleanup_fd int at =
        sys_openat2(AT_FDCWD, s->path, O_PATH | O_DIRECTORY | O_CLOEXEC, 0, RESOLVE_NO_SYMLINKS);
    if (at < 0 || fstat(at, &sb) < 0)
        return err_sys(err, "open the root %.200s", s->path);
    if (sb.st_dev != s->dev || sb.st_ino != s->ino)
        return err_set(err, ERR_REFUSED,
                       "the root %.200s was replaced while the sandbox was being built", s->path);
    cleanup_fd int tree = sys_open_tree(
        at, "", SYS_OPEN_TREE_CLONE | SYS_OPEN_TREE_CLOEXEC | SYS_AT_EMPTY_PATH | SYS_AT_RECURSIVE);
    if (tree < 0 || sys_mount_setattr(tree, "", SYS_AT_EMPTY_PATH | SYS_AT_RECURSIVE, &set) < 0)
        return err_sys(err, "take the root %.200s", s->path);
    if (booth >= 0)
        return attach_taken(tree, booth, err);
    return oci_attach(tree, at, s->path, err) < 0 ? err_number(err) : fd_steal(&tree);
}

/* The host's own nodes. Data passes through a node on a read-only mount in both directions; its
 * mode, owner and times, which would change for the host, do not change (OC-14). */
static int make_devices(int root, struct err *err)
{
    for (size_t i = 0; i < oci_devices_len; i++) {
        struct stat sb;
        const struct oci_device *d = &oci_devices[i];
        if (stat(d->path, &sb) < 0 || !S_ISCHR(sb.st_mode) || major(sb.st_rdev) != d->major ||
            minor(sb.st_rdev) != d->minor)
            return err_set(err, ERR_UNSUPPORTED, "the host's %s is not that device", d->path);
        if (oci_bind_inside(d->path, root, d->path, SYS_MOUNT_ATTR_RDONLY, err) < 0)
            return err_number(err);
    }
    return 0;
}

/* As programs expect them; an image may bring its own. */
static int make_links(int root, struct err *err)
{
    static const struct {
        const char *name, *to;
    } links[] = {{"fd", "/proc/self/fd"},
                 {"stdin", "/proc/self/fd/0"},
                 {"stdout", "/proc/self/fd/1"},
                 {"stderr", "/proc/self/fd/2"},
                 {"ptmx", "pts/ptmx"}};
    cleanup_fd int dev = oci_place(root, "/dev", true, err);
    if (dev < 0)
        return err_number(err);
    for (size_t i = 0; i < ARRAY_LEN(links); i++)
        if (symlinkat(links[i].to, dev, links[i].name) < 0 && errno != EEXIST)
            return err_sys(err, "make the link /dev/%s", links[i].name);
    return 0;
}

static int hide(const struct oci_build *b, int root, struct err *err)
{
    const struct json *shut = b->config->read_only_paths, *masked = b->config->masked;
    for (size_t i = 0; i < ARRAY_LEN(floor_read_only); i++)
        if (oci_shut(root, floor_read_only[i], err) < 0)
            return err_number(err);
    for (size_t i = 0; i < json_count(shut); i++)
        if (oci_shut(root, json_string(json_at(shut, i)), err) < 0)
            return err_number(err);
    for (size_t i = 0; i < ARRAY_LEN(floor_masked); i++)
        if (oci_mask(root, floor_masked[i], err) < 0)
            return err_number(err);
    for (size_t i = 0; i < json_count(masked); i++)
        if (oci_mask(root, json_string(json_at(masked, i)), err) < 0)
            return err_number(err);
    return 0;
}

/* `top` is the booth of an engine, or the root itself. */
static int pivot(const struct oci_build *b, int top, int root, struct err *err)
{
    struct sys_mount_attr shut = {.attr_set = SYS_MOUNT_ATTR_RDONLY};
    if (fchdir(top) < 0 || sys_pivot_root(".", ".") < 0)
        return err_sys(err, "make the root the root");
    if (umount2(".", MNT_DETACH) < 0 || chdir("/") < 0)
        return err_sys(err, "detach the host's root");
    if (b->config->root_read_only && sys_mount_setattr(root, "", SYS_AT_EMPTY_PATH, &shut) < 0)
        return err_sys(err, "make the root read-only");
    return 0;
}

/* Files that are made belong to the root inside, where there is one. */
static int take_root_id(const struct oci_build *b, struct err *err)
{
    if (b->become.drop_groups && syscall(SYS_setgroups, (size_t)0, NULL) < 0)
        return err_sys(err, "drop the groups of the caller");
    if (syscall(SYS_setresgid, 0, 0, 0) < 0 || syscall(SYS_setresuid, 0, 0, 0) < 0) {
        if (errno != EINVAL) /* 0 is nobody in the maps */
            return err_sys(err, "become root inside");
    }
    return 0;
}

/* A module has nothing of the kernel's in what it sees (OC-19). */
static bool has_mount(const struct oci_build *b, const struct oci_mount *m)
{
    return !b->become.engine->booth || m->type == OCI_MOUNT_BIND || m->type == OCI_MOUNT_TMPFS;
}

static int fill(const struct oci_build *b, int top, int root, struct err *err)
{
    for (size_t i = 0; i < b->config->mount_count; i++)
        if (has_mount(b, &b->config->mounts[i]) && oci_mount_make(b, root, i, err) < 0)
            return err_number(err);
    if (make_devices(top, err) < 0 || (top == root && make_links(root, err) < 0))
        return err_number(err);
    return hide(b, root, err);
}

int oci_build_view(const struct oci_build *b, struct err *err)
{
    umask(022);
    if (unshare(CLONE_NEWCGROUP) < 0)
        return err_sys(err, "make a cgroup namespace");
    if (take_root_id(b, err) < 0 || set_names(b, err) < 0 || set_sysctls(b, err) < 0 ||
        oci_network_make(b, err) < 0)
        return err_number(err);
    cleanup_fd int booth = b->become.engine->booth ? oci_booth_make(b->become.engine, err) : -1;
    cleanup_fd int root = err->code == ERR_NONE ? attach_root(b, booth, err) : -1;
    int top = booth < 0 ? root : booth;
    if (root < 0 || fill(b, top, root, err) < 0)
        return err_number(err);
    cleanup_fd int cwd = oci_place(root, b->config->process.cwd, true, err);
    if (cwd < 0)
        return err_number(err);
    /* Hooks of the operator see the container before its root is in place. */
    oci_say(b->become.sync_fd, OCI_WORD_BUILT);
    if (!oci_heard(b->become.sync_fd))
        _exit(125);
    if (pivot(b, top, root, err) < 0)
        return err_number(err);
    return booth < 0 ? 0 : oci_booth_shut(booth, err);
}
