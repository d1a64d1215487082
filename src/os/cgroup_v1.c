/* cgroup v1: one folder per controller, each in its own hierarchy. */
#include "os/cgroup_internal.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* A part of the memory is set aside for them, so that both together stay within it. */
uint64_t cgroup_v1_for_sockets(uint64_t bytes)
{
    uint64_t part = bytes / 16, least = 256u << 10, most = 64u << 20;
    return cgroup_page_floor(part < least ? least : part > most ? most : part);
}

static uint64_t for_all_else(uint64_t bytes)
{
    return cgroup_page_floor(bytes) - cgroup_v1_for_sockets(bytes);
}

static int limit_memory(const char *dir, uint64_t limit, struct err *err)
{
    uint64_t bytes = for_all_else(limit);
    if (cgroup_write_u64(dir, "memory.limit_in_bytes", bytes) < 0)
        return err_sys(err, "set the memory limit in %s", dir);
    if (cgroup_write_u64(dir, CGROUP_V1_SOCKETS_FILE, cgroup_v1_for_sockets(limit)) < 0)
        return err_sys(err, "set the limit of socket buffers in %s", dir);
    /* memory + swap together; absent where the kernel does not account swap. Must come second: the
     * kernel refuses a sum below its part. */
    if (cgroup_write_u64(dir, "memory.memsw.limit_in_bytes", bytes) < 0 && errno != ENOENT)
        return err_sys(err, "set the swap limit in %s", dir);
    if (cgroup_write_file(dir, "memory.swappiness", "0", 1) < 0)
        return err_sys(err, "switch swapping off in %s", dir);
    return 0;
}

/* v1 refuses a child's quota above an ancestor's. The tighter one is then in force already, which
 * is what the caller wants: no more than this. */
static bool ancestor_is_tighter(const char *dir, uint64_t cpus_milli)
{
    char path[CGROUP_PATH_MAX];
    memcpy(path, dir, sizeof path);
    for (char *slash = strrchr(path, '/'); slash; slash = strrchr(path, '/')) {
        *slash = '\0';
        uint64_t quota = cgroup_read_u64(path, "cpu.cfs_quota_us"); /* "-1" reads as no limit */
        uint64_t period = cgroup_read_u64(path, "cpu.cfs_period_us");
        if (period == UINT64_MAX)
            return false;
        if (quota != UINT64_MAX && quota * 1000 <= cpus_milli * period)
            return true;
    }
    return false;
}

static int limit_cpu(const char *dir, uint64_t cpus_milli, struct err *err)
{
    struct cgroup_bandwidth want = cgroup_bandwidth_of(cpus_milli);
    if (want.period_us != CGROUP_CPU_PERIOD_US &&
        cgroup_write_u64(dir, "cpu.cfs_period_us", want.period_us) < 0)
        return err_sys(err, "set the CPU period in %s", dir);
    if (cgroup_write_u64(dir, "cpu.cfs_quota_us", want.quota_us) == 0)
        return 0;
    int saved = errno;
    if (saved == EINVAL && ancestor_is_tighter(dir, cpus_milli))
        return 0;
    errno = saved;
    return err_sys(err, "set the CPU quota in %s", dir);
}

static int v1_limit(const struct cgroup_group *g, const struct cgroup_limits *limits,
                    struct err *err)
{
    int r = 0;
    if (limits->memory)
        r = limit_memory(g->dir[SLOT_MEMORY], limits->memory, err);
    if (r == 0 && limits->pids && cgroup_write_u64(g->dir[SLOT_PIDS], "pids.max", limits->pids) < 0)
        r = err_sys(err, "set the task limit in %s", g->dir[SLOT_PIDS]);
    if (r == 0 && limits->cpus_milli)
        r = limit_cpu(g->dir[SLOT_CPU], limits->cpus_milli, err);
    return r;
}

static int v1_attach(const struct cgroup_group *g, pid_t pid, struct err *err)
{
    char text[16];
    int len = snprintf(text, sizeof text, "%d", (int)pid);
    for (int i = 0; i < CGROUP_V1_HIERARCHIES; i++) {
        if (!cgroup_slot_is_first(g, i))
            continue;
        if (cgroup_write_file(g->dir[i], "tasks", text, (size_t)len) < 0)
            return err_sys(err, "move task %d to %s", (int)pid, g->dir[i]);
    }
    return 0;
}

static uint64_t to_usec(uint64_t nsec)
{
    return nsec == UINT64_MAX ? UINT64_MAX : nsec / 1000;
}

static void v1_usage(const struct cgroup_group *g, struct cgroup_usage *ret)
{
    char text[512];
    const char *memory = g->dir[SLOT_MEMORY], *pids = g->dir[SLOT_PIDS];
    ret->memory_now = cgroup_read_u64(memory, "memory.usage_in_bytes");
    ret->sockets = cgroup_read_u64(memory, "memory.kmem.tcp.usage_in_bytes");
    ret->memory_peak = cgroup_read_u64(memory, "memory.max_usage_in_bytes");
    cgroup_read_file(memory, "memory.oom_control", text, sizeof text);
    ret->oom_kills = cgroup_keyed_u64(text, "oom_kill");
    ret->pids_now = cgroup_read_u64(pids, "pids.current");
    cgroup_read_file(pids, "pids.events", text, sizeof text);
    ret->pids_max_hits = cgroup_keyed_u64(text, "max");
    if (g->dir[SLOT_CPUACCT][0])
        ret->cpu_usec = to_usec(cgroup_read_u64(g->dir[SLOT_CPUACCT], "cpuacct.usage"));
    if (g->dir[SLOT_CPU][0]) {
        cgroup_read_file(g->dir[SLOT_CPU], "cpu.stat", text, sizeof text);
        ret->throttled_usec = to_usec(cgroup_keyed_u64(text, "throttled_time"));
    }
}

static int verify_memory(const char *dir, uint64_t bytes, struct err *err)
{
    uint64_t want = for_all_else(bytes);
    int r = cgroup_expect_u64(dir, "memory.limit_in_bytes", want, err);
    if (r == 0)
        r = cgroup_expect_u64(dir, CGROUP_V1_SOCKETS_FILE, cgroup_v1_for_sockets(bytes), err);
    if (r < 0)
        return r;
    if (cgroup_read_u64(dir, "memory.memsw.limit_in_bytes") == want)
        return 0;
    char text[64];
    if (cgroup_read_file(dir, "memory.memsw.limit_in_bytes", text, sizeof text) < 0)
        return errno == ENOENT ? 0 : err_sys(err, "read the swap limit of %s", dir);
    return cgroup_expect_u64(dir, "memory.memsw.limit_in_bytes", want, err);
}

static int verify_cpu(const char *dir, uint64_t cpus_milli, struct err *err)
{
    struct cgroup_bandwidth want = cgroup_bandwidth_of(cpus_milli);
    uint64_t quota = cgroup_read_u64(dir, "cpu.cfs_quota_us");
    if (quota == UINT64_MAX && ancestor_is_tighter(dir, cpus_milli))
        return 0;
    int r =
        quota == want.quota_us ? 0 : cgroup_expect_u64(dir, "cpu.cfs_quota_us", want.quota_us, err);
    return r < 0 ? r : cgroup_expect_u64(dir, "cpu.cfs_period_us", want.period_us, err);
}

static int v1_verify(const struct cgroup_group *g, const struct cgroup_limits *limits,
                     struct err *err)
{
    int r = 0;
    if (limits->memory)
        r = verify_memory(g->dir[SLOT_MEMORY], limits->memory, err);
    if (r == 0 && limits->pids)
        r = cgroup_expect_u64(g->dir[SLOT_PIDS], "pids.max", limits->pids, err);
    if (r == 0 && limits->cpus_milli)
        r = verify_cpu(g->dir[SLOT_CPU], limits->cpus_milli, err);
    return r;
}

const struct cgroup_ops cgroup_v1_ops = {
    .limit = v1_limit,
    .attach = v1_attach,
    .usage = v1_usage,
    .verify = v1_verify,
};
