/* Where the source of a mount lies, and what is mounted below it: a recursive copy brings that
 * along. */
#include "base/cleanup.h"
#include "base/text.h"
#include "oci/build.h"
#include "os/procfs.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>

/* File systems through which the host itself is configured or looked into. */
static const struct {
    uint32_t magic;
    const char *name; /* as mountinfo has it */
} kernel_views[] = {
    {0x9fa0, "proc"},           {0x62656572, "sysfs"},
    {0x27e0eb, "cgroup"},       {0x63677270, "cgroup2"},
    {0x64626720, "debugfs"},    {0x74726163, "tracefs"},
    {0x73636673, "securityfs"}, {0xcafe4a11, "bpf"},
    {0xde5e81e4, "efivarfs"},   {0x62656570, "configfs"},
    {0x6165676c, "pstore"},     {0xf97cff8c, "selinuxfs"},
    {0x6e736673, "nsfs"},       {0x1cd1, "devpts"},
    {0x50495045, "pipefs"},     {0x42494e4d, "binfmt_misc"},
    {0x65735543, "fusectl"},    {0x6e667364, "nfsd"},
    {0x67596969, "rpc_pipefs"}, {0x07655821, "resctrl"},
};

/* The place itself, and for the first group all below it. Below the folders of services engines
 * keep files of containers: what listens there is looked for by its name (sockets.c). */
static const char *const closed[] = {"/proc",        "/sys",          "/boot",
                                     "/etc/brig",    "/etc/shadow",   "/etc/gshadow",
                                     "/etc/sudoers", "/run/brig-oci", "/var/lib/brig"};
static const char *const too_wide[] = {
    "/",         "/dev",         "/run",        "/var/run",    "/etc",      "/var",
    "/var/lib",  "/root",        "/run/podman", "/run/docker", "/run/crio", "/run/containerd",
    "/run/dbus", "/run/systemd", "/run/user",
};

int oci_refuse_source(const char *path, const char *why, const char *hint, struct err *err)
{
    err_set(err, ERR_REFUSED, "config: mount of %.200s: %s", path, why);
    err_at(err, BOUNDARY_FILESYSTEM);
    return err_hint(err, "%s", hint);
}

/* "/run/user/1000" */
static bool is_users_own(const char *path)
{
    return path_below(path, "/run/user") && !strchr(path + sizeof "/run/user", '/');
}

int oci_judge_place(const char *path, struct err *err)
{
    static const char hint[] = "name a narrower folder";
    for (size_t i = 0; i < ARRAY_LEN(closed); i++)
        if (strcmp(path, closed[i]) == 0 || path_below(path, closed[i]))
            return oci_refuse_source(path, "this place never enters a sandbox", hint, err);
    for (size_t i = 0; i < ARRAY_LEN(too_wide); i++)
        if (strcmp(path, too_wide[i]) == 0 || is_users_own(path))
            return oci_refuse_source(path, "it holds the host's own sockets, devices or secrets",
                                     hint, err);
    return 0;
}

/* A list of access rights counts as somebody. */
static bool only_roots(const char *folder)
{
    struct stat sb;
    if (stat(folder, &sb) < 0 || sb.st_uid != 0 || (sb.st_mode & S_IXOTH))
        return false;
    return (!(sb.st_mode & S_IXGRP) || sb.st_gid == 0) &&
           getxattr(folder, "system.posix_acl_access", NULL, 0) <= 0;
}

bool oci_within_reach(const char *path)
{
    char folder[PATH_MAX];
    snprintf(folder, sizeof folder, "%s", path);
    for (char *slash; (slash = strrchr(folder, '/'));) {
        *slash = '\0';
        if (*folder && only_roots(folder))
            return false;
    }
    return true;
}

int oci_judge_view(const char *path, uint32_t magic, struct err *err)
{
    for (size_t i = 0; i < ARRAY_LEN(kernel_views); i++)
        if (magic == kernel_views[i].magic)
            return oci_refuse_source(path, "it shows the host's kernel",
                                     "mount proc, sysfs or cgroup as a type of its own, read-only",
                                     err);
    return 0;
}

/* devtmpfs has the number of tmpfs, and is told by its name only. What root inside does to the
 * modes of the nodes there would hold for the host. */
static bool is_view(const char *type)
{
    if (strcmp(type, "devtmpfs") == 0)
        return true;
    for (size_t i = 0; i < ARRAY_LEN(kernel_views); i++)
        if (strcmp(type, kernel_views[i].name) == 0)
            return true;
    return false;
}

struct looking {
    struct oci_source *source;
    bool recursive;
};

static int judge_mount_of_host(void *ctx, const struct mount_place *m, struct err *err)
{
    const struct looking *l = ctx;
    struct oci_source *s = l->source;
    static const char why[] = "it shows the host's kernel, or its devices";
    bool below = l->recursive && path_below(m->place, s->path);
    if (m->id == s->mount && s->folder && is_view(m->type))
        return oci_refuse_source(s->path, why, "mount what is needed as a type of its own", err);
    if (!below)
        return 0;
    if (is_view(m->type))
        return oci_refuse_source(m->place, why,
                                 "it would come along with the folder above it: use bind in the "
                                 "place of rbind, or name a narrower folder",
                                 err);
    s->nosuid &= m->nosuid;
    return oci_judge_place(m->place, err);
}

int oci_judge_mounts(struct oci_source *s, bool recursive, struct err *err)
{
    struct looking l = {s, recursive};
    return procfs_each_mount(judge_mount_of_host, &l, err);
}
