/* The attest verb: what is mounted, seen from outside, against what was planned. */
#include "base/text.h"
#include "filesystem/filesystem.h"
#include "filesystem/proc_view.h"
#include "os/weaken.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

/* The planned mount that this one is, or lies in. */
static struct expected_mount *covering(struct filesystem *fs, const char *dest, bool *exact)
{
    struct expected_mount *best = NULL;
    size_t best_len = 0;
    for (unsigned i = 0; i < fs->mount_count; i++) {
        struct expected_mount *m = &fs->mounts[i];
        size_t len = strlen(m->dest);
        if (len > 1 && path_within(dest, m->dest) && len > best_len) {
            best = m;
            best_len = len;
        } else if (strcmp(dest, "/") == 0 && len == 1) {
            best = m;
        }
    }
    *exact = best && strcmp(best->dest, dest) == 0;
    return best;
}

static int wrong(const char *dest, const char *what, struct err *err)
{
    err_set(err, ERR_ATTEST, "mount %s of the sandbox is %s", dest, what);
    return err_at(err, BOUNDARY_FILESYSTEM);
}

/* FS-3 */
static int check_flags(const struct proc_mount *m, uint64_t flags, struct err *err)
{
    if (!m->nosuid)
        return wrong(m->dest, "not nosuid", err);
    if (!m->nodev && !(flags & BIND_DEVICE))
        return wrong(m->dest, "not nodev", err);
    if (!m->read_only && !(flags & BIND_WRITABLE) && !guard_unattested(GUARD_READ_ONLY))
        return wrong(m->dest, "not read-only", err);
    if (!m->noexec && (flags & BIND_NOEXEC))
        return wrong(m->dest, "not noexec", err);
    if (m->shared)
        return wrong(m->dest, "shared with other namespaces", err);
    return 0;
}

/* FS-13: by its flags alone a folder of the host's that can be written would look like a layer over
 * it. */
static int check_type(const struct proc_mount *m, const struct expected_mount *want,
                      struct err *err)
{
    char what[64];
    if (!want->type || strcmp(m->type, want->type) == 0)
        return 0;
    snprintf(what, sizeof what, "of type %s, not %s", m->type, want->type);
    return wrong(m->dest, what, err);
}

int attest_mount(struct filesystem *fs, const struct proc_mount *m, struct err *err)
{
    bool exact;
    struct expected_mount *want = covering(fs, m->dest, &exact);
    if (!want)
        return wrong(m->dest, "not planned", err);
    /* FS-8: in the host's own view, and where the policy says so, there may be mounts below, with
     * the same flags; nowhere else. */
    if (exact)
        want->seen = true;
    else if (want->flags & BIND_ALONE)
        return wrong(m->dest, "not planned", err);
    else if (strcmp(want->dest, "/proc") == 0)
        fs->covers_seen += m->read_only && strcmp(m->type, "tmpfs") == 0;
    if (exact && check_type(m, want, err) < 0)
        return err_number(err);
    return check_flags(m, want->flags, err);
}

static int check_mount(void *context, const struct proc_mount *m, struct err *err)
{
    return attest_mount(context, m, err);
}

/* The sandbox's own file stands there, on the cover: it was looked at as a mount. */
static bool is_own(const struct filesystem *fs, const char *name)
{
    for (unsigned i = 0; i < fs->mount_count; i++)
        if (text_begins(fs->mounts[i].dest, "/proc/") && strcmp(fs->mounts[i].dest + 6, name) == 0)
            return true;
    return false;
}

static bool stays(const struct filesystem *fs, const struct dirent *e)
{
    return e->d_type == DT_LNK || is_own(fs, e->d_name) ||
           proc_view_keeps(e->d_name, fs->proc == PROC_OWN, fs->own.clock);
}

/* The views own and system: every entry of the host's that does not stay must be covered inside. */
static int check_covers(struct filesystem *fs, struct err *err)
{
    unsigned want = 0;
    DIR *proc = opendir("/proc");
    if (!proc)
        return err_sys(err, "list /proc");
    /* The kernel lists its own entries before the tasks. */
    for (struct dirent *e; (e = readdir(proc)) && !(e->d_name[0] >= '1' && e->d_name[0] <= '9');)
        want += !stays(fs, e);
    closedir(proc);
    return fs->covers_seen >= want ? 0
                                   : wrong("/proc", "not covered where it shows the kernel", err);
}

static int check_mounts(struct filesystem *fs, pid_t pid, struct err *err)
{
    fs->covers_seen = 0;
    for (unsigned i = 0; i < fs->mount_count; i++)
        fs->mounts[i].seen = false;
    int result = procfs_mounts(pid, check_mount, fs, err);
    for (unsigned i = 0; result >= 0 && i < fs->mount_count; i++)
        if (!fs->mounts[i].seen)
            result = wrong(fs->mounts[i].dest, "missing", err);
    return result;
}

/* The probe says something only if it works before there is a rule. */
static int unprobed(int why, struct err *err)
{
    errno = why;
    err_sys(err, "Landlock cannot be probed: the probe fails already without it");
    err->code = ERR_ATTEST;
    return err_at(err, BOUNDARY_FILESYSTEM);
}

/* FS-4 */
static int check_landlock(const struct filesystem *fs, const struct ctl_evidence *evidence,
                          struct err *err)
{
    if (!fs->landlock_fs || guard_unattested(GUARD_LANDLOCK))
        return 0;
    if (evidence->landlock_before == 0 && evidence->landlock_after == EACCES)
        return 0;
    if (evidence->landlock_before)
        return unprobed(evidence->landlock_before, err);
    err_set(err, ERR_ATTEST, "Landlock is not in force (probe: %d before, %d after)",
            evidence->landlock_before, evidence->landlock_after);
    return err_at(err, BOUNDARY_FILESYSTEM);
}

static void write_grants(const struct filesystem *fs, struct evidence *out)
{
    jw_key(out->w, "grants");
    jw_array_begin(out->w);
    for (unsigned i = 0; i < fs->grant_count; i++) {
        jw_object_begin(out->w);
        evidence_string(out, "source", fs->grants[i].source);
        evidence_string(out, "dest", fs->grants[i].dest);
        evidence_bool(out, "writable", fs->grants[i].writable);
        if (fs->grants[i].review)
            evidence_string(out, "review", fs->namespaced ? "overlay" : "copy");
        jw_object_end(out->w);
    }
    jw_array_end(out->w);
}

int filesystem_attest(struct filesystem *fs, pid_t pid, const struct ctl_evidence *evidence,
                      struct evidence *out, struct err *err)
{
    static const char *const views[] = {
        [PROC_PID] = "pid", [PROC_OWN] = "own", [PROC_SYSTEM] = "system"};
    bool unattested = guard_unattested(GUARD_ROOT) || guard_unattested(GUARD_NS_MOUNT);
    if ((fs->private_root || fs->namespaced) && !unattested && check_mounts(fs, pid, err) < 0)
        return err_number(err);
    if (fs->namespaced && !fs->whole_proc && fs->proc != PROC_PID &&
        !guard_unattested(GUARD_PROC) && !guard_unattested(GUARD_NS_PID) &&
        check_covers(fs, err) < 0)
        return err_number(err);
    if (check_landlock(fs, evidence, err) < 0)
        return err_number(err);
    evidence_string(out, "root", fs->namespaced ? fs->policy->root : "host, by Landlock only");
    if (fs->namespaced)
        evidence_bool(out, "writable_root", fs->policy->writable_root);
    evidence_uint(out, "mounts_checked", fs->mount_count);
    evidence_uint(out, "landlock_abi", fs->landlock_fs ? (uint64_t)fs->host.landlock_abi : 0);
    evidence_bool(out, "landlock_probe_denied", fs->landlock_fs != 0);
    if (fs->namespaced)
        evidence_string(out, "proc", views[fs->proc]);
    evidence_string(out, "workspace",
                    !fs->policy->workspace ? "none"
                    : fs->namespaced       ? "tmpfs"
                                           : "private folder");
    evidence_bool(out, "workspace_exec", fs->policy->exec);
    write_grants(fs, out);
    return 0;
}
