/* What the sampler saw, and the verdict at the end. */
#include "lifecycle/lifecycle.h"

#include "base/clock.h"
#include "lifecycle/disk.h"
#include "lifecycle/keep.h"
#include "lifecycle/sample.h"
#include "os/weaken.h"

#include <sys/vfs.h>
#include <unistd.h>

/* What cannot be looked at, or lies where no look finds it, for so long ends the run: a limit is
 * not switched off because somebody could not look. */
#define UNSEEN_MAX_US 1000000u
/* How long a look may take before the run is ended, by itself; and with the time in which others
 * had the processors. */
#define SILENT_MAX_US 5000000u
#define LATE_MAX_US   60000000u
/* So few tasks of the code cannot keep the processors from the one who looks. */
#define FEW_TASKS 8u
/* Between two samples counts at most so much of it: the supervisor may have been stopped. */
#define STEP_MAX_US 250000u
/* Counting takes at most a fourth of a processor. Not of the time: on a busy machine, where a
 * sample waits more than it works, it must not come later for that. */
#define REST_TIMES 3u

unsigned lifecycle_sample_ms(const struct lifecycle *l)
{
    /* If sampling is all that keeps a limit, sample often. */
    bool only_sampled = !l->cgroup || (!l->namespaced && l->policy->workspace) ||
                        (l->sampler && l->sampler->locks_due);
    unsigned usual = only_sampled ? 25 : 100, rest = (unsigned)(l->sample_us * REST_TIMES / 1000);
    return rest > usual ? rest : usual;
}

static void note(struct lifecycle *l, enum limit limit)
{
    if (l->hit == LIMIT_NONE)
        l->hit = limit;
}

static uint64_t beyond(uint64_t now, uint64_t before)
{
    return now > before ? now - before : 0;
}

/* What the code writes to a file system of the host: too much of it is a reason to end the run. */
static enum limit judge_folder(struct lifecycle *l, const struct disk_usage *now,
                               const struct disk_usage *before)
{
    const struct looked *s = &l->looked;
    if (beyond(now->inodes, before->inodes) + s->deleted_inodes > l->policy->inodes &&
        !guard_left_out(GUARD_INODES))
        return l->hit = LIMIT_INODES;
    bool over = beyond(now->bytes, before->bytes) + s->deleted_bytes >= l->policy->disk;
    if ((over || s->too_big) && !guard_left_out(GUARD_DISK))
        return l->hit = LIMIT_DISK;
    return LIMIT_NONE;
}

/* The private folder of the process tier, and what a review holds. */
static enum limit judge_disk(struct lifecycle *l)
{
    static const struct disk_usage nothing;
    const struct disk_usage review = {.bytes = l->review_bytes, .inodes = l->review_inodes};
    enum limit hit = LIMIT_NONE;
    if (!l->namespaced && l->work_fd >= 0)
        hit = judge_folder(l, &l->looked.work, &nothing);
    return hit || l->review_fd < 0 ? hit : judge_folder(l, &l->looked.review, &review);
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

/* So few sockets cannot hold much: their buffers are not worth a look each time. */
#define FEW_SOCKETS 64u

/* Memory that the cgroup does not count: buffers of sockets on v1, of netlink sockets everywhere.
 */
static int uncounted(const struct lifecycle *l, const struct cgroup_usage *u, uint64_t *ret)
{
    uint64_t sockets = 0, netlink = 0;
    *ret = u->sockets == UINT64_MAX ? 0 : u->sockets;
    int result = l->namespaced && l->sampler ? sample_sockets(l->init_pid, &sockets) : 0;
    if (l->sampler && sockets > l->sampler->sockets_before + FEW_SOCKETS)
        result = sample_netlink(l->init_pid, &netlink);
    *ret += netlink;
    return result;
}

/* 0, or a negative errno: not all was seen. */
static int look_at_cgroup(struct lifecycle *l, struct sampled *s)
{
    struct cgroup_usage u;
    uint64_t beside;
    cgroup_usage(&l->group, &u);
    int result = uncounted(l, &u, &beside);
    if (u.oom_kills != UINT64_MAX)
        l->usage.oom_kills = u.oom_kills - l->oom_seen;
    if (u.memory_peak != UINT64_MAX) {
        l->usage.memory_peak = u.memory_peak;
        l->usage.memory_exact = true;
    }
    l->usage.memory_now = u.memory_now == UINT64_MAX ? s->memory : u.memory_now;
    if (beside && u.memory_now != UINT64_MAX)
        s->memory = u.memory_now + beside;
    if (s->memory > l->policy->memory)
        s->memory = beyond(s->memory, cgroup_memory_spare(&l->group));
    if (u.cpu_usec != UINT64_MAX)
        s->cpu_usec = u.cpu_usec;
    if (u.pids_max_hits != UINT64_MAX && u.pids_max_hits > 0)
        note(l, LIMIT_PIDS);
    return result;
}

static bool over(uint64_t value, uint64_t limit_ms)
{
    return limit_ms != POLICY_UNLIMITED && !guard_left_out(GUARD_CPU_TIME) &&
           value >= limit_ms * 1000;
}

/* An rlimit refuses without telling anybody: being at it is the sign. Where the kernel counts
 * others of the same user with the sandbox, the count of the code's own tasks is what ends it. */
static enum limit look_at_rlimits(struct lifecycle *l, const struct sampled *s)
{
    bool own_count = keep_counts_own_tasks(l);
    uint64_t tasks = s->tasks, most = l->rlimit_pids ? l->rlimit_pids : l->policy->pids + 1;
    if (!own_count && l->rlimit_pids && sample_user_tasks(getuid(), &tasks) < 0)
        tasks = s->tasks; /* it is only a sign: what ends the run is below */
    if (tasks >= most)
        note(l, LIMIT_PIDS);
    if (l->rlimit_data && s->data_max >= l->rlimit_data - l->rlimit_data / 8)
        note(l, LIMIT_MEMORY);
    bool over_pids = !own_count && s->tasks > l->policy->pids + 1 && !guard_left_out(GUARD_PIDS);
    return over_pids ? LIMIT_PIDS : LIMIT_NONE;
}

/* What the kernel holds for the code and no look sees, or a look takes for less than it is, is
 * bounded by what the host can spare. */
static bool exhausts_host(const struct lifecycle *l)
{
    struct host_memory host;
    bool counted = lifecycle_counts_memory(l);
    if ((counted && !l->layered) || sample_host_memory(&host) < 0)
        return false; /* it could be read before; memory that is seen counts all the same */
    uint64_t lost = beyond(l->host_before.left, host.left);
    uint64_t kernel = beyond(host.unreclaimed, l->host_before.unreclaimed);
    /* Where a cgroup counts all but the kernel's lists, the loss must be of their kind: others use
     * memory of the host too, and the code does not answer for them. */
    if (counted && kernel < lost)
        lost = kernel;
    return host.left < host.all / 16 && lost > l->policy->memory;
}

static bool over_memory(const struct lifecycle *l, const struct sampled *s, uint64_t disk)
{
    if (l->usage.oom_kills > 0)
        return true;
    if (guard_left_out(GUARD_MEMORY))
        return false;
    /* Beside what a cgroup counts, not on top of it: that is often as much as the limit lets it be,
     * of which the kernel can take back most. */
    uint64_t beside = l->looked.lists + locks_bytes(l->looked.locks);
    uint64_t counted = lifecycle_counts_memory(l) ? s->memory : s->memory + disk + beside;
    return counted > l->policy->memory || beside > l->policy->memory || exhausts_host(l);
}

static bool for_long(uint64_t *lasts, bool is, uint64_t step, uint64_t most)
{
    *lasts = is ? *lasts + step : 0;
    return *lasts > most;
}

/* LC-6. Of the limits that depend on looking, the one that is in doubt. */
static enum limit in_doubt(const struct lifecycle *l)
{
    const struct policy *p = l->policy;
    bool pids = l->cgroup && (l->group.controllers & CGROUP_PIDS);
    if (lifecycle_strict_memory(l))
        return LIMIT_MEMORY;
    if (l->looks_disk)
        return LIMIT_DISK;
    if (l->layered || locks_in_doubt(l) ||
        (!lifecycle_counts_memory(l) && p->memory != POLICY_UNLIMITED))
        return LIMIT_MEMORY;
    if (!(l->cgroup && l->limits.cpu_time) && p->cpu_time_ms != POLICY_UNLIMITED)
        return LIMIT_CPU_TIME;
    bool counted = pids || keep_counts_own_tasks(l) || p->pids == POLICY_UNLIMITED;
    return counted ? LIMIT_NONE : LIMIT_PIDS;
}

static bool is_left_out(enum limit limit)
{
    return guard_left_out(limit == LIMIT_MEMORY     ? GUARD_MEMORY
                          : limit == LIMIT_CPU_TIME ? GUARD_CPU_TIME
                          : limit == LIMIT_PIDS     ? GUARD_PIDS
                                                    : GUARD_DISK);
}

/* LC-6. On a busy machine a look comes late that sees everything: time in which it only waits for a
 * processor is not held against the code, unless the code may be what keeps the processors busy. */
static bool is_silent_for_long(struct lifecycle *l, bool silent, uint64_t tasks, uint64_t step)
{
    struct sampler *s = l->sampler;
    uint64_t by_itself = silent && tasks <= FEW_TASKS ? aside_silent_for(l, step) : step;
    bool late = for_long(&s->late_us, silent, step, LATE_MAX_US);
    return for_long(&s->silent_us, silent, by_itself, SILENT_MAX_US) || late;
}

static enum limit look_at_doubts(struct lifecycle *l, bool blind, bool silent, uint64_t tasks)
{
    struct sampler *s = l->sampler;
    enum limit limit = in_doubt(l);
    uint64_t now = clock_us(), step = s->last_us ? now - s->last_us : 0;
    if (step > STEP_MAX_US)
        step = STEP_MAX_US;
    s->last_us = now;
    /* Lists of folders alone are no reason to stop who hides and does nothing wrong, for a number
     * that nobody gave. */
    bool asked = l->looks_disk || policy_field_is_chosen(l->policy, FIELD_MEMORY);
    /* A look that was for locks alone says nothing of the other limits. */
    bool counts = l->looks || locks_in_doubt(l);
    blind |= asked && counts && l->looked.blind;
    bool doubt = for_long(&s->blind_us, blind, step, UNSEEN_MAX_US);
    doubt |= for_long(&s->flight_us, asked && l->looks && l->looked.in_flight, step, UNSEEN_MAX_US);
    doubt |= is_silent_for_long(l, counts && silent, tasks, step);
    return doubt && !is_left_out(limit) ? limit : LIMIT_NONE;
}

/* What pipes, sockets and shared memory without a file can hold counts as if they were full.
 * Sockets in flight are in no table of descriptors, and in the network's count. */
static int add_buffers(const struct lifecycle *l, uint64_t *memory)
{
    const struct sampler *s = l->sampler;
    uint64_t used = 0;
    if (!lifecycle_strict_memory(l))
        return 0;
    int result = l->namespaced ? sample_sockets(l->init_pid, &used) : 0;
    uint64_t of_code = beyond(used, s->sockets_before);
    if (of_code < l->looked.sockets)
        of_code = l->looked.sockets;
    *memory += l->looked.pipes * s->pipe_bytes + of_code * s->socket_bytes +
               l->looked.shared * LIFECYCLE_SHARED_MAX;
    return result;
}

/* LC-11 */
static void note_cpu(struct lifecycle *l, uint64_t code_usec)
{
    if (code_usec > l->usage.code_usec)
        l->usage.code_usec = code_usec;
    l->usage.cpu_usec = l->usage.code_usec + helped_look(l);
}

static void note_usage(struct lifecycle *l, const struct sampled *s, uint64_t memory)
{
    note_cpu(l, s->cpu_usec);
    l->usage.tasks_now = s->tasks;
    if (!lifecycle_counts_memory(l))
        l->usage.memory_now = memory;
    if (s->tasks > l->usage.pids_peak)
        l->usage.pids_peak = s->tasks;
    if (!l->usage.memory_exact && memory > l->usage.memory_peak)
        l->usage.memory_peak = memory;
    if (s->open_files_max >= l->open_files)
        note(l, LIMIT_OPEN_FILES);
}

static enum limit sample(struct lifecycle *l)
{
    struct sampled s;
    uint64_t disk;
    bool locks = l->sampler && locks_due(l), looks = l->sampler && (l->looks || locks);
    bool silent = looks && aside_look(l) < 0;
    look_at_disk(l, &disk);
    bool blind = sample_tasks(l, &s) < 0;
    if (looks) {
        blind |= add_buffers(l, &s.memory) < 0;
        s.memory += beyond(l->looked.memory_files, s.shared); /* what of them is not mapped now */
        if (l->looked.open_files_max > s.open_files_max)
            s.open_files_max = l->looked.open_files_max;
    }
    if (l->cgroup)
        blind |= look_at_cgroup(l, &s) < 0;
    note_usage(l, &s, s.memory + disk);
    enum limit hit = l->cgroup ? LIMIT_NONE : look_at_rlimits(l, &s);
    if (over_memory(l, &s, disk)) {
        l->over_memory = true;
        hit = LIMIT_MEMORY;
    } else if (hit == LIMIT_NONE && over(l->usage.cpu_usec, l->policy->cpu_time_ms)) {
        hit = LIMIT_CPU_TIME;
    }
    if (hit == LIMIT_NONE)
        hit = judge_disk(l);
    if (hit == LIMIT_NONE && l->sampler)
        hit = look_at_doubts(l, blind, silent, s.tasks);
    if (hit != LIMIT_NONE)
        l->hit = hit;
    return hit;
}

enum limit lifecycle_sample(struct lifecycle *l)
{
    uint64_t before = clock_cpu_us();
    enum limit hit = sample(l);
    l->sample_us = clock_cpu_us() - before;
    return hit;
}

/* LC-6. Nothing follows this look that could make up for it: whether the limit was kept is then not
 * known, which is neither that it was nor that it was not. */
static void measure_last(struct lifecycle *l)
{
    bool seen = aside_measure(l) == 0 && !l->looked.blind;
    l->unmeasured = !seen && !guard_left_out(GUARD_DISK);
}

void lifecycle_settle(struct lifecycle *l, uint64_t rusage_cpu_usec, uint64_t rusage_peak)
{
    struct sampled s = {0};
    uint64_t disk;
    look_at_disk(l, &disk);
    if (l->cgroup)
        (void)look_at_cgroup(l, &s);
    note_cpu(l, rusage_cpu_usec > s.cpu_usec ? rusage_cpu_usec : s.cpu_usec);
    if (!l->usage.memory_exact && rusage_peak > l->usage.memory_peak)
        l->usage.memory_peak = rusage_peak;
    enum limit first = l->hit;
    if ((!l->namespaced && l->work_fd >= 0) || l->review_fd >= 0)
        measure_last(l);
    judge_disk(l);
    if (first != LIMIT_NONE)
        l->hit = first;
    if (l->usage.oom_kills > 0) {
        l->over_memory = true;
        l->hit = LIMIT_MEMORY;
    } else if (l->hit == LIMIT_NONE && over(l->usage.cpu_usec, l->policy->cpu_time_ms)) {
        l->hit = LIMIT_CPU_TIME;
    }
}

void lifecycle_write_enforced(const struct lifecycle *l, struct evidence *out)
{
    static const char *const versions[] = {"none", "v1", "v2"};
    evidence_string(out, "cgroup", versions[l->cgroup ? l->group.version : 0]);
    if (!l->cgroup && l->host.why[0])
        evidence_string(out, "cgroup_missing", l->host.why);
    keepers_write(l, out);
    evidence_bool(out, "guardian", l->guarded);
}
