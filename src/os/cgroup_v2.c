/* cgroup v2: one folder for all controllers. */
#include "os/cgroup_internal.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define LEAF "brig-supervisor"

static int limit_memory(const char *dir, const struct cgroup_limits *limits, struct err *err)
{
    if (cgroup_write_u64(dir, "memory.max", limits->memory) < 0)
        return err_sys(err, "set the memory limit in %s", dir);
    /* Absent where the kernel has no swap. */
    if (cgroup_write_file(dir, "memory.swap.max", "0", 1) < 0 && errno != ENOENT)
        return err_sys(err, "switch swapping off in %s", dir);
    /* A run that lost one process at random is in no state worth keeping; a sandbox that serves
     * many is. Absent before 4.19. */
    if (!limits->oom_one && cgroup_write_file(dir, "memory.oom.group", "1", 1) < 0 &&
        errno != ENOENT)
        return err_sys(err, "set memory.oom.group in %s", dir);
    return 0;
}

static int limit_cpu(const char *dir, uint64_t cpus_milli, struct err *err)
{
    struct cgroup_bandwidth want = cgroup_bandwidth_of(cpus_milli);
    char text[48];
    int len = snprintf(text, sizeof text, "%" PRIu64 " %" PRIu64, want.quota_us, want.period_us);
    if (cgroup_write_file(dir, "cpu.max", text, (size_t)len) < 0)
        return err_sys(err, "set the CPU limit in %s", dir);
    return 0;
}

static int v2_limit(const struct cgroup_group *g, const struct cgroup_limits *limits,
                    struct err *err)
{
    const char *dir = g->dir[SLOT_V2];
    int r = limits->memory ? limit_memory(dir, limits, err) : 0;
    if (r == 0 && limits->pids && cgroup_write_u64(dir, "pids.max", limits->pids) < 0)
        r = err_sys(err, "set the task limit in %s", dir);
    if (r == 0 && limits->cpus_milli)
        r = limit_cpu(dir, limits->cpus_milli, err);
    return r;
}

/* A write to cgroup.procs waits for a grace period even when nothing moves, so look first. */
static int v2_attach(const struct cgroup_group *g, pid_t pid, struct err *err)
{
    const char *dir = g->dir[SLOT_V2];
    if (cgroup_lists_pids(dir, &pid, 1) == 1)
        return 0;
    if (cgroup_write_u64(dir, "cgroup.procs", (uint64_t)pid) < 0)
        return err_sys(err, "move process %d to %s", (int)pid, dir);
    return 0;
}

static void v2_usage(const struct cgroup_group *g, struct cgroup_usage *ret)
{
    char text[2048];
    const char *dir = g->dir[SLOT_V2];
    ret->memory_now = cgroup_read_u64(dir, "memory.current");
    ret->sockets = 0; /* part of it */
    ret->memory_peak = cgroup_read_u64(dir, "memory.peak");
    cgroup_read_file(dir, "memory.events", text, sizeof text);
    ret->oom_kills = cgroup_keyed_u64(text, "oom_kill");
    ret->pids_now = cgroup_read_u64(dir, "pids.current");
    cgroup_read_file(dir, "pids.events", text, sizeof text);
    ret->pids_max_hits = cgroup_keyed_u64(text, "max");
    cgroup_read_file(dir, "cpu.stat", text, sizeof text);
    ret->cpu_usec = cgroup_keyed_u64(text, "usage_usec");
    ret->throttled_usec = cgroup_keyed_u64(text, "throttled_usec");
}

static int verify_memory(const char *dir, uint64_t bytes, struct err *err)
{
    int r = cgroup_expect_u64(dir, "memory.max", cgroup_page_floor(bytes), err);
    if (r < 0)
        return r;
    char text[64];
    if (cgroup_read_file(dir, "memory.swap.max", text, sizeof text) < 0)
        return errno == ENOENT ? 0 : err_sys(err, "read the swap limit of %s", dir);
    return cgroup_expect_u64(dir, "memory.swap.max", 0, err);
}

static int verify_cpu(const char *dir, uint64_t cpus_milli, struct err *err)
{
    struct cgroup_bandwidth want = cgroup_bandwidth_of(cpus_milli);
    char expected[48], text[64];
    snprintf(expected, sizeof expected, "%" PRIu64 " %" PRIu64 "\n", want.quota_us, want.period_us);
    if (cgroup_read_file(dir, "cpu.max", text, sizeof text) < 0)
        return err_sys(err, "read %s/cpu.max", dir);
    if (strcmp(text, expected) == 0)
        return 0;
    return err_set(err, ERR_ATTEST, "%s/cpu.max is not as written", dir);
}

static int v2_verify(const struct cgroup_group *g, const struct cgroup_limits *limits,
                     struct err *err)
{
    const char *dir = g->dir[SLOT_V2];
    int r = limits->memory ? verify_memory(dir, limits->memory, err) : 0;
    if (r == 0 && limits->pids)
        r = cgroup_expect_u64(dir, "pids.max", limits->pids, err);
    if (r == 0 && limits->cpus_milli)
        r = verify_cpu(dir, limits->cpus_milli, err);
    return r;
}

const struct cgroup_ops cgroup_v2_ops = {
    .limit = v2_limit,
    .attach = v2_attach,
    .usage = v2_usage,
    .verify = v2_verify,
};

/* The leaf stays: we live in it, and the service manager removes it together with the scope. */
int cgroup_v2_enter_leaf(const char *scope, struct err *err)
{
    char leaf[CGROUP_PATH_MAX + sizeof LEAF];
    snprintf(leaf, sizeof leaf, "%s/" LEAF, scope);
    if (mkdir(leaf, 0755) < 0 && errno != EEXIST)
        return err_sys(err, "mkdir %s", leaf);
    if (cgroup_write_file(leaf, "cgroup.procs", "0", 1) < 0)
        return err_sys(err, "move brig to %s", leaf);
    if (cgroup_write_file(scope, "cgroup.subtree_control", "+memory +pids", 13) < 0)
        return err_sys(err, "enable memory and pids in %s", scope);
    /* Optional: whether a CPU limit was promised is checked when it is written. */
    (void)cgroup_write_file(scope, "cgroup.subtree_control", "+cpu", 4);
    return 0;
}
