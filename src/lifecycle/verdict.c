/* What the sampler saw, and the verdict at the end. */
#include "lifecycle/lifecycle.h"

#include "base/clock.h"
#include "lifecycle/disk.h"
#include "os/weaken.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

unsigned lifecycle_sample_ms(const struct lifecycle *l)
{
    /* Where looking is all there is, look often. */
    bool only_sampled = !l->cgroup || (!l->namespaced && l->policy->workspace);
    return only_sampled ? 25 : 100;
}

static void note(struct lifecycle *l, enum limit limit)
{
    if (l->hit == LIMIT_NONE)
        l->hit = limit;
}

/* Process tier: the private folder lies on a file system of the host, so that too much of it is a
 * reason to end the run. */
static enum limit measure_private_dir(struct lifecycle *l, bool running)
{
    struct disk_usage u;
    uint64_t deleted = 0;
    if (l->namespaced || l->work_fd < 0)
        return LIMIT_NONE;
    /* First, so that a file that is deleted meanwhile is not counted twice. */
    bool measurable = !running || aside_deleted(l, &deleted);
    measurable = disk_measure(l->work_fd, &u) && measurable;
    if (measurable && u.inodes > l->policy->inodes && !guard_left_out(GUARD_INODES))
        return l->hit = LIMIT_INODES;
    if ((!measurable || u.bytes + deleted >= l->policy->disk) && !guard_left_out(GUARD_DISK))
        return l->hit = LIMIT_DISK;
    return LIMIT_NONE;
}

/* What the code writes in review mode lies on a disk of the host's. */
static enum limit measure_review(struct lifecycle *l)
{
    struct disk_usage u;
    if (l->review_fd < 0)
        return LIMIT_NONE;
    bool measurable = disk_measure(l->review_fd, &u);
    if (measurable && u.inodes > l->review_inodes &&
        u.inodes - l->review_inodes > l->policy->inodes)
        return l->hit = LIMIT_INODES;
    if (!measurable || (u.bytes > l->review_bytes && u.bytes - l->review_bytes >= l->policy->disk))
        return l->hit = LIMIT_DISK;
    return LIMIT_NONE;
}

/* A full tmpfs is a verdict, not a reason to kill: the code sees ENOSPC and may cope. */
static void look_at_disk(struct lifecycle *l, uint64_t *used)
{
    struct statfs s;
    *used = 0;
    /* On the process tier it may be a tmpfs too, but then it is everybody's. */
    if (!l->namespaced || l->work_fd < 0 || fstatfs(l->work_fd, &s) < 0 ||
        s.f_type != 0x01021994 /* tmpfs */)
        return;
    *used = (uint64_t)(s.f_blocks - s.f_bfree) * (uint64_t)s.f_bsize;
    if (s.f_bfree == 0)
        note(l, LIMIT_DISK);
    else if (s.f_files && s.f_ffree == 0)
        note(l, LIMIT_INODES);
}

static void look_at_cgroup(struct lifecycle *l, struct sampled *s)
{
    struct cgroup_usage u;
    cgroup_usage(&l->group, &u);
    if (u.oom_kills != UINT64_MAX)
        l->usage.oom_kills = u.oom_kills - l->oom_seen;
    if (u.memory_peak != UINT64_MAX) {
        l->usage.memory_peak = u.memory_peak;
        l->usage.memory_exact = true;
    }
    if (u.cpu_usec != UINT64_MAX)
        s->cpu_usec = u.cpu_usec;
    if (u.pids_max_hits != UINT64_MAX && u.pids_max_hits > 0)
        note(l, LIMIT_PIDS);
}

static bool over(uint64_t value, uint64_t limit_ms)
{
    return limit_ms != POLICY_UNLIMITED && !guard_left_out(GUARD_CPU_TIME) &&
           value >= limit_ms * 1000;
}

/* An rlimit refuses without telling anybody: being at it is the sign. */
static void look_at_rlimits(struct lifecycle *l, const struct sampled *s)
{
    bool own_count = l->namespaced || l->private_uid;
    uint64_t tasks = own_count || !l->rlimit_pids ? s->tasks : sample_user_tasks(getuid());
    uint64_t most = l->rlimit_pids ? l->rlimit_pids : l->policy->pids + 1;
    if (tasks >= most)
        note(l, LIMIT_PIDS);
    if (l->rlimit_data && s->data_max >= l->rlimit_data - l->rlimit_data / 8)
        note(l, LIMIT_MEMORY);
}

enum limit lifecycle_sample(struct lifecycle *l)
{
    struct sampled s;
    uint64_t disk;
    look_at_disk(l, &disk);
    sample_tasks(l, &s);
    if (l->cgroup)
        look_at_cgroup(l, &s);
    if (s.cpu_usec > l->usage.cpu_usec)
        l->usage.cpu_usec = s.cpu_usec;
    if (s.tasks > l->usage.pids_peak)
        l->usage.pids_peak = s.tasks;
    if (!l->usage.memory_exact && s.memory + disk > l->usage.memory_peak)
        l->usage.memory_peak = s.memory + disk;
    if (s.open_files_max >= l->open_files)
        note(l, LIMIT_OPEN_FILES);
    if (!l->cgroup)
        look_at_rlimits(l, &s);
    if (l->usage.oom_kills > 0 ||
        (!l->cgroup && s.memory + disk > l->policy->memory && !guard_left_out(GUARD_MEMORY))) {
        l->over_memory = true;
        l->hit = LIMIT_MEMORY;
        return LIMIT_MEMORY;
    }
    if (over(s.cpu_usec, l->policy->cpu_time_ms)) {
        l->hit = LIMIT_CPU_TIME;
        return LIMIT_CPU_TIME;
    }
    enum limit hit = measure_private_dir(l, true);
    return hit ? hit : measure_review(l);
}

void lifecycle_settle(struct lifecycle *l, uint64_t rusage_cpu_usec, uint64_t rusage_peak)
{
    struct sampled s = {0};
    uint64_t disk;
    look_at_disk(l, &disk);
    if (l->cgroup)
        look_at_cgroup(l, &s);
    if (rusage_cpu_usec > l->usage.cpu_usec)
        l->usage.cpu_usec = rusage_cpu_usec;
    if (s.cpu_usec > l->usage.cpu_usec)
        l->usage.cpu_usec = s.cpu_usec;
    if (!l->usage.memory_exact && rusage_peak > l->usage.memory_peak)
        l->usage.memory_peak = rusage_peak;
    enum limit first = l->hit;
    if (measure_private_dir(l, false) == LIMIT_NONE)
        measure_review(l);
    if (first != LIMIT_NONE)
        l->hit = first;
    if (l->usage.oom_kills > 0) {
        l->over_memory = true;
        l->hit = LIMIT_MEMORY;
    } else if (l->hit == LIMIT_NONE && over(l->usage.cpu_usec, l->policy->cpu_time_ms)) {
        l->hit = LIMIT_CPU_TIME;
    }
}

static void limit_line(struct evidence *out, const char *name, uint64_t value, const char *by)
{
    char text[96];
    if (value == POLICY_UNLIMITED)
        snprintf(text, sizeof text, "unlimited");
    else
        snprintf(text, sizeof text, "%" PRIu64 " by %s", value, by);
    evidence_string(out, name, text);
}

/* LC-4 */
void lifecycle_write_enforced(const struct lifecycle *l, struct evidence *out)
{
    static const char *const versions[] = {"none", "v1", "v2"};
    const struct policy *p = l->policy;
    bool memory = l->cgroup && (l->group.controllers & CGROUP_MEMORY);
    bool pids = l->cgroup && (l->group.controllers & CGROUP_PIDS);
    bool cpu = l->cgroup && (l->group.controllers & CGROUP_CPU);
    const char *no_cpu = p->cgroup == NEED_OFF ? "nothing: lifecycle.cgroup is off"
                                               : "nothing: no cgroup cpu controller";
    evidence_string(out, "cgroup", versions[l->cgroup ? l->group.version : 0]);
    if (!l->cgroup && l->host.why[0])
        evidence_string(out, "cgroup_missing", l->host.why);
    limit_line(out, "memory", p->memory,
               memory ? "cgroup, swap off"
                      : "sampling, and RLIMIT_DATA of four times as much per process");
    limit_line(out, "pids", p->pids, pids ? "cgroup" : "RLIMIT_NPROC");
    limit_line(out, "cpus_milli", p->cpus_milli, cpu ? "cgroup" : no_cpu);
    limit_line(out, "timeout_ms", p->timeout_ms, "supervisor");
    limit_line(out, "cpu_time_ms", p->cpu_time_ms, "sampling and RLIMIT_CPU per process");
    limit_line(out, "open_files", l->open_files, "RLIMIT_NOFILE per process");
    if (p->workspace) {
        limit_line(out, "disk", p->disk,
                   l->namespaced ? "tmpfs" : "sampling and RLIMIT_FSIZE per file");
        limit_line(out, "inodes", p->inodes, l->namespaced ? "tmpfs" : "sampling");
    }
    if (l->review)
        limit_line(out, "review_disk", p->disk, "sampling and RLIMIT_FSIZE per file");
    limit_line(out, "output", p->output, "supervisor");
    evidence_bool(out, "guardian", l->guarded);
}
