/* OC-4: one mount as it is written. Where it comes to stand is looked at when it is made
 * (mount_child.c), and what it brings in when its source is opened (source.c). */
#include "oci/judge.h"

#include <string.h>

static int refuse(const struct oci_mount *m, const char *why, const char *hint, struct err *err)
{
    err_set(err, ERR_REFUSED, "config: mount on %.150s: %s", m->dest, why);
    err_at(err, BOUNDARY_FILESYSTEM);
    return err_hint(err, "%s", hint);
}

static bool climbs(const char *path)
{
    for (const char *at = path; *at;) {
        size_t len = strcspn(at, "/");
        if (len == 2 && at[0] == '.' && at[1] == '.')
            return true;
        at += len + (at[len] == '/');
    }
    return false;
}

static int judge_kernel_view(const struct oci_mount *m, const char *only, struct err *err)
{
    if (strcmp(m->dest, only) != 0)
        return refuse(m, "this kind of file system has one place",
                      "proc goes to /proc, sysfs to /sys", err);
    if (m->type == OCI_MOUNT_SYSFS && !m->read_only)
        return refuse(m, "a writable sysfs configures the host", "add the option ro", err);
    return 0;
}

int oci_judge_mount(const struct oci_mount *m, bool mapped, struct err *err)
{
    if (m->type == OCI_MOUNT_OTHER)
        return refuse(m, "this type of file system is not among those that a sandbox may have",
                      "bind, tmpfs, proc, sysfs (ro), devpts, mqueue and cgroup (ro) are; mount "
                      "others outside and bind "
                      "them",
                      err);
    if (m->odd) {
        err_set(err, ERR_REFUSED, "config: mount on %.150s: option %.60s is not on the list",
                m->dest, m->odd);
        err_at(err, BOUNDARY_FILESYSTEM);
        return err_hint(err, "%s",
                        strcmp(m->odd, "rslave") == 0
                            ? "Docker adds it for a folder in which its own data lie: name a "
                              "narrower one; mounts of a sandbox are private"
                            : "mounts of a sandbox are private and are not shared, remounted or "
                              "mapped; docs/oci.md lists the options");
    }
    if (climbs(m->dest))
        return refuse(m, "its destination climbs", "write the path without ..", err);
    if (m->type == OCI_MOUNT_BIND && (!m->source || !*m->source))
        return refuse(m, "a bind mount without a source", "name a file or folder", err);
    if (m->type == OCI_MOUNT_PROC)
        return judge_kernel_view(m, "/proc", err);
    if (m->type == OCI_MOUNT_SYSFS)
        return judge_kernel_view(m, "/sys", err);
    /* With ids of its own Docker leaves ro out, for the sake of runtimes that could not remount it
     * there. It is read-only all the same (mount_child.c); elsewhere it is a wish, and is told. */
    if (m->type == OCI_MOUNT_CGROUP && !m->read_only && !mapped)
        return refuse(m, "a writable cgroup file system could lift the sandbox's limits",
                      "add the option ro", err);
    return 0;
}
