/* The attest verb: identity, capabilities, filter, namespaces and descriptors of init and of the
 * process that will become the code, read from the host's /proc. */
#include "kernel/kernel.h"

#include "os/peek.h"
#include "os/weaken.h"
#include "plan/control.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static int wrong(struct err *err, const char *what, uint64_t found)
{
    err_set(err, ERR_ATTEST, "the sandbox's %s is not as planned (found %" PRIu64 ")", what, found);
    return err_at(err, BOUNDARY_KERNEL);
}

/* K-7 */
static int check_identity(const struct kernel *k, const struct proc_status *s, bool as_root,
                          struct err *err)
{
    uid_t uid = as_root ? k->root_uid : k->host_uid;
    gid_t gid = as_root ? k->root_gid : k->host_gid;
    for (int i = 0; i < 4; i++) {
        if (s->uid[i] != uid || s->uid[i] == 0)
            return wrong(err, "uid", s->uid[i]);
        if (s->gid[i] != gid)
            return wrong(err, "gid", s->gid[i]);
    }
    /* An ordinary user cannot drop groups; root must have. */
    if (k->privileged && s->group_count != 0 && !guard_unattested(GUARD_GROUPS))
        return wrong(err, "number of supplementary groups", s->group_count);
    return 0;
}

static int check_privileges(const struct kernel *k, const struct proc_status *s, struct err *err)
{
    uint64_t caps = s->cap_inh | s->cap_prm | s->cap_eff | s->cap_amb;
    bool capable = guard_unattested(GUARD_CAPABILITIES);
    if ((caps & ~k->keep_caps) && !capable)
        return wrong(err, "capability set", caps);
    /* Without a user namespace an ordinary user cannot empty the bounding set, and no-new-privs
     * makes it moot. */
    bool can_empty = tier_namespaced(k->tier) || k->privileged;
    if (can_empty && (s->cap_bnd & ~k->keep_caps) && !capable && !guard_unattested(GUARD_GROUPS))
        return wrong(err, "capability bounding set", s->cap_bnd);
    if (s->no_new_privs != 1 && !guard_unattested(GUARD_NO_NEW_PRIVS))
        return wrong(err, "no_new_privs flag", (uint64_t)s->no_new_privs);
    if (s->seccomp != 2 && !k->stem && !guard_unattested(GUARD_SECCOMP))
        return wrong(err, "seccomp mode", (uint64_t)s->seccomp);
    if (s->threads != 1)
        return wrong(err, "number of threads", (uint64_t)s->threads);
    return 0;
}

static int check_task_as(const struct kernel *k, pid_t pid, bool as_root, struct proc_status *s,
                         struct err *err)
{
    if (procfs_status(pid, s, err) < 0 || check_identity(k, s, as_root, err) < 0 ||
        check_privileges(k, s, err) < 0)
        return err_number(err);
    return 0;
}

static int check_task(const struct kernel *k, pid_t pid, struct proc_status *s, struct err *err)
{
    return check_task_as(k, pid, false, s, err);
}

static bool ns_unattested(int ns)
{
    static const enum guard guards[NS_COUNT] = {
        [NS_USER] = GUARD_NS_USER,    [NS_MNT] = GUARD_NS_MOUNT, [NS_PID] = GUARD_NS_PID,
        [NS_NET] = GUARD_NS_NET,      [NS_IPC] = GUARD_NS_IPC,   [NS_UTS] = GUARD_NS_UTS,
        [NS_CGROUP] = GUARD_NS_CGROUP};
    return guard_unattested(guards[ns]);
}

/* K-8 */
static int check_namespaces(struct kernel *k, pid_t pid, uint64_t inside[NS_COUNT], struct err *err)
{
    if (!tier_namespaced(k->tier))
        return 0;
    /* Ours stay as they are. */
    if (!k->own[0] && procfs_namespaces(0, k->own, err) < 0)
        return err_number(err);
    if (procfs_namespaces(pid, inside, err) < 0)
        return err_number(err);
    for (int ns = 0; ns < NS_COUNT; ns++)
        if (!ns_unattested(ns) && (inside[ns] == k->own[ns] || inside[ns] == k->foreign[ns])) {
            err_set(err, ERR_ATTEST, "the sandbox shares the %s namespace with the %s",
                    proc_ns_name(ns), inside[ns] == k->own[ns] ? "host" : "template");
            return err_at(err, BOUNDARY_KERNEL);
        }
    return 0;
}

static int check_map(const struct kernel *k, pid_t pid, const char *which, uint32_t host_id,
                     uint32_t root_id, struct err *err)
{
    char found[128], want[KERNEL_MAP_SIZE];
    if (procfs_id_map(pid, which, found, sizeof found, err) < 0)
        return err_number(err);
    kernel_map_text(k, host_id, root_id, want);
    if (strcmp(found, want) == 0)
        return 0;
    err_set(err, ERR_ATTEST, "the sandbox's %s is \"%s\", planned \"%s\"", which, found, want);
    return err_at(err, BOUNDARY_KERNEL);
}

static int check_maps(const struct kernel *k, pid_t pid, struct err *err)
{
    if (!tier_namespaced(k->tier) || guard_unattested(GUARD_NS_USER))
        return 0;
    if (check_map(k, pid, "uid_map", k->host_uid, k->root_uid, err) < 0)
        return err_number(err);
    return check_map(k, pid, "gid_map", k->host_gid, k->root_gid, err);
}

/* An engine holds what it was handed besides, and nothing else. */
static uint64_t planned_fds(const struct kernel *k)
{
    uint64_t handed = k->machine && !k->machine->later ? (1u << KERNEL_HANDED) - 1 : 0;
    return 7 | handed << INIT_FD_TREES;
}

static int check_fds(const struct kernel *k, pid_t pid, struct err *err)
{
    uint64_t inherited;
    if (guard_unattested(GUARD_DESCRIPTORS))
        return 0;
    if (peek_inherited_fds(&k->users_fd, pid, &inherited, err) < 0)
        return err_at(err, BOUNDARY_KERNEL);
    return inherited == planned_fds(k) ? 0 : wrong(err, "set of inherited descriptors", inherited);
}

static void write_evidence(const struct kernel *k, const struct proc_status *s,
                           struct evidence *out)
{
    char uid_map[KERNEL_MAP_SIZE];
    evidence_string(out, "tier", tier_name(k->tier));
    if (tier_row(k->tier)->engine)
        evidence_string(out, "engine", tier_row(k->tier)->engine);
    evidence_uint(out, "host_uid", k->host_uid);
    if (k->beside)
        evidence_uint(out, "host_uid_of_root", k->root_uid);
    if (tier_namespaced(k->tier)) {
        kernel_map_text(k, k->host_uid, k->root_uid, uid_map);
        evidence_string(out, "uid_map", uid_map);
        evidence_string(out, "namespaces", "user mnt pid net ipc uts cgroup");
    } else {
        evidence_string(out, "namespaces", "none");
    }
    evidence_uint(out, "capabilities", s->cap_eff | s->cap_prm | s->cap_amb);
    evidence_bool(out, "no_new_privs", s->no_new_privs == 1);
    evidence_string(out, "seccomp", k->stem ? "none" : "filter");
    evidence_uint(out, "seccomp_instructions", k->filter.len);
    evidence_bool(out, "refused_calls_seen", !k->unseen);
    evidence_string(out, "descriptors",
                    k->machine && !k->machine->later ? "0 1 2 kvm kernel initramfs plan" : "0 1 2");
    if (k->machine) {
        evidence_string(out, "guest_kernel", k->machine->release);
        evidence_string(out, "guest_kernel_sha256", k->machine->kernel_hash);
        evidence_string(out, "guest_initramfs_sha256", k->machine->initramfs_hash);
        evidence_uint(out, "guest_memory", k->machine->memory);
        evidence_uint(out, "guest_cpus", k->machine->cpus);
        evidence_bool(out, "guest_cloned", k->machine->cloned);
    }
    if (k->sentry) {
        evidence_string(out, "runsc", k->sentry->path);
        evidence_string(out, "runsc_version", k->sentry->version);
        evidence_string(out, "runsc_sha256", k->sentry->hash);
        evidence_string(out, "runsc_platform", k->sentry->platform);
        evidence_bool(out, "runsc_named", k->sentry->named);
    }
    evidence_bool(out, "unix_sockets", k->options.unix_sockets);
}

/* The code's connections pass through the supervisor: without a listener, or without the right to
 * take them over, there would be none, and the policy promises some. */
static int check_broker(const struct kernel *k, pid_t pid, struct err *err)
{
    if (!k->options.brokered_net && (!k->options.watched_net || k->watch_only))
        return 0;
    if (!k->unseen)
        return k->options.brokered_net ? broker_connect_probe(pid, err) : 0;
    err_set(err, ERR_UNSUPPORTED,
            "there is no network for a sandbox here: somebody else already listens to this "
            "process' system calls (a sandbox around this one)");
    err_at(err, BOUNDARY_NETWORK);
    return err_hint(err, "run brig outside of the other sandbox, or without a network");
}

int kernel_attest(struct kernel *k, pid_t init, pid_t pid, struct evidence *out, struct err *err)
{
    struct proc_status s;
    uint64_t inside[NS_COUNT];
    if (check_task(k, init, &s, err) < 0)
        return err_wrap(err, "init");
    if (pid != init && check_task(k, pid, &s, err) < 0)
        return err_number(err);
    /* In a session init itself is looked at: what it starts later inherits exactly this. */
    if (pid != init && s.ppid != init)
        return wrong(err, "parent", (uint64_t)s.ppid);
    /* For a clone, init's namespaces were checked together with the clone's. */
    if ((!k->foreign[0] && check_namespaces(k, pid, inside, err) < 0) ||
        check_maps(k, pid, err) < 0 || check_fds(k, pid, err) < 0)
        return err_number(err);
    if (check_broker(k, pid, err) < 0)
        return err_number(err);
    write_evidence(k, &s, out);
    return 0;
}

/* What was read of init's mounts, network and identity maps is true of another process only if it
 * has the same. */
static int check_same(const uint64_t of_init[NS_COUNT], const uint64_t of_clone[NS_COUNT],
                      const char *who, struct err *err)
{
    for (int ns = 0; ns < NS_COUNT; ns++)
        if (of_init[ns] != of_clone[ns]) {
            err_set(err, ERR_ATTEST, "%s has another %s namespace than init", who,
                    proc_ns_name(ns));
            return err_at(err, BOUNDARY_KERNEL);
        }
    return 0;
}

/* 0 to 2, the two of the channel, and the pipe by which it is let go. */
#define CLONE_FDS 0x3fu

int kernel_attest_clone(struct kernel *k, pid_t init, pid_t pid, bool waiting, struct err *err)
{
    struct proc_status s;
    /* Initialised to different values, so that namespaces that were not read never count as the
     * same. */
    uint64_t fds, of_init[NS_COUNT] = {0}, of_clone[NS_COUNT] = {1};
    if (check_task(k, pid, &s, err) < 0)
        return err_wrap(err, "the clone");
    if (s.ppid != init)
        return wrong(err, "clone's parent", (uint64_t)s.ppid);
    if (check_namespaces(k, init, of_init, err) < 0 ||
        check_namespaces(k, pid, of_clone, err) < 0 ||
        check_same(of_init, of_clone, "the clone", err) < 0)
        return err_wrap(err, "the clone");
    if (!waiting)
        return 0;
    if (procfs_fds(pid, &fds, err) < 0)
        return err_at(err, BOUNDARY_KERNEL);
    return fds == CLONE_FDS ? 0 : wrong(err, "clone's set of descriptors", fds);
}

int kernel_attest_beside(struct kernel *k, pid_t init, pid_t pid, struct err *err)
{
    struct proc_status s;
    uint64_t of_init[NS_COUNT] = {0}, of_it[NS_COUNT] = {1};
    if (check_task_as(k, pid, true, &s, err) < 0)
        return err_wrap(err, "root's part of init");
    if (s.ppid != init)
        return wrong(err, "parent of root's part of init", (uint64_t)s.ppid);
    if (check_namespaces(k, init, of_init, err) < 0 || check_namespaces(k, pid, of_it, err) < 0 ||
        check_same(of_init, of_it, "root's part of init", err) < 0 || check_fds(k, pid, err) < 0)
        return err_number(err);
    return 0;
}
