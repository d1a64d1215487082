/* The plan verb: resource limits that the kernel keeps by itself. */
#include "lifecycle/keep.h"

#include "os/weaken.h"

#include <errno.h>
#include <sys/resource.h>
#include <unistd.h>

/* K-14: descriptors that are on their way in UNIX sockets are counted by user, for all sandboxes of
 * an ordinary user and for brig together, and each sender is held to its own RLIMIT_NOFILE. The
 * code can fill the count up to its limit and one message (253) beyond; what brig sends must still
 * pass. So all of brig has this much more than the code, init included, which sends from inside. */
#define FILES_RESERVE 512
#define FILES_LEAST   64

static void rlimit(struct plan *plan, const char *name, int resource, uint64_t soft, uint64_t hard)
{
    struct rlimit now = {RLIM_INFINITY, RLIM_INFINITY};
    getrlimit(resource, &now);
    /* Never more than the caller has. */
    if (hard > now.rlim_max)
        hard = now.rlim_max;
    if (soft > hard)
        soft = hard;
    plan_add(plan,
             &(struct op){.kind = OP_RLIMIT, .a = name, .num = {(uint64_t)resource, soft, hard}});
}

static int plan_pids(struct lifecycle *l, struct plan *plan, struct err *err)
{
    uint64_t others = 1;
    if (l->cgroup && (l->group.controllers & CGROUP_PIDS))
        return 0;
    bool own_count = keep_counts_own_tasks(l);
    /* Init and the guardian are there already when a sandbox is made, and are not when a plan is
     * only shown. */
    uint64_t missing = (l->init_pid <= 0) + (l->guarded && l->guardian.pid <= 0);
    if (!own_count) {
        errno = -sample_user_tasks(getuid(), &others);
        if (errno)
            return err_sys(err, "count the tasks of this user in /proc");
        others += missing;
    }
    /* The kernel counts for each user: of two, each has half, so that both together stay below. */
    l->rlimit_pids = (l->policy->root_beside ? l->policy->pids / 2 : l->policy->pids) + others;
    if (!guard_left_out(GUARD_PIDS))
        rlimit(plan, "nproc", RLIMIT_NPROC, l->rlimit_pids, l->rlimit_pids);
    return 0;
}

static void plan_memory(struct lifecycle *l, struct plan *plan)
{
    if (!lifecycle_counts_memory(l) && !l->reserves && !guard_left_out(GUARD_MEMORY)) {
        /* The sampler ends the run with the right verdict; this only stops what would outrun it. */
        l->rlimit_data = l->policy->memory > UINT64_MAX / 4 ? UINT64_MAX : l->policy->memory * 4;
        rlimit(plan, "data", RLIMIT_DATA, l->rlimit_data, l->rlimit_data);
    }
    rlimit(plan, "stack", RLIMIT_STACK, 8u << 20, 64u << 20);
    rlimit(plan, "memlock", RLIMIT_MEMLOCK, 8u << 20, 8u << 20);
    rlimit(plan, "core", RLIMIT_CORE, l->core_files, l->core_files);
}

static void plan_cpu(struct lifecycle *l, struct plan *plan)
{
    if (l->policy->cpu_time_ms != POLICY_UNLIMITED && !guard_left_out(GUARD_CPU_TIME)) {
        /* Per process, in whole seconds: the net below the sampler, which looks at the sum. */
        uint64_t seconds = (l->policy->cpu_time_ms + 999) / 1000;
        rlimit(plan, "cpu", RLIMIT_CPU, seconds + 1, seconds + 2);
    }
    rlimit(plan, "nice", RLIMIT_NICE, 0, 0);
    rlimit(plan, "rtprio", RLIMIT_RTPRIO, 0, 0);
}

/* Where brig may not have as much as the code asks for and the reserve, the code gets less. */
uint64_t limits_open_files(uint64_t wanted)
{
    struct rlimit now = {RLIM_INFINITY, RLIM_INFINITY};
    getrlimit(RLIMIT_NOFILE, &now);
    uint64_t most = now.rlim_max;
    uint64_t left = most > FILES_RESERVE + FILES_LEAST ? most - FILES_RESERVE : FILES_LEAST;
    if (left > most)
        left = most;
    return wanted < left ? wanted : left;
}

void limits_reserve_files(uint64_t code)
{
    struct rlimit now;
    if (getrlimit(RLIMIT_NOFILE, &now) < 0 || now.rlim_cur >= code + FILES_RESERVE)
        return;
    now.rlim_cur = now.rlim_max < code + FILES_RESERVE ? now.rlim_max : code + FILES_RESERVE;
    setrlimit(RLIMIT_NOFILE, &now);
}

static void plan_files(struct lifecycle *l, struct plan *plan)
{
    if (!guard_left_out(GUARD_OPEN_FILES))
        plan_add(plan, &(struct op){
                           .kind = OP_RLIMIT,
                           .a = "nofile",
                           .num = {RLIMIT_NOFILE, l->open_files, l->open_files, 1 /* the code */}});
    rlimit(plan, "sigpending", RLIMIT_SIGPENDING, 4096, 4096);
    rlimit(plan, "msgqueue", RLIMIT_MSGQUEUE, 819200, 819200);
    if ((!l->namespaced || l->review) && !l->sizes_inside && !guard_left_out(GUARD_DISK))
        rlimit(plan, "fsize", RLIMIT_FSIZE, l->policy->disk, l->policy->disk);
}

void lifecycle_plan_guest(const struct policy *p, struct plan *plan)
{
    const struct {
        const char *name;
        int resource;
        uint64_t limit;
    } rows[] = {{"nofile", RLIMIT_NOFILE, p->open_files < (1u << 20) ? p->open_files : 1u << 20},
                {"nproc", RLIMIT_NPROC, p->pids},
                {"core", RLIMIT_CORE, 0},
                {"memlock", RLIMIT_MEMLOCK, 8u << 20}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        plan_add(plan,
                 &(struct op){.kind = OP_RLIMIT,
                              .a = rows[i].name,
                              .num = {(uint64_t)rows[i].resource, rows[i].limit, rows[i].limit}});
}

int lifecycle_plan(struct lifecycle *l, enum plan_stage stage, struct plan *plan, struct err *err)
{
    /* Landlock is what scopes them: without it a signal to all would reach all of the user's. */
    bool scoped = l->scoped_signals && !guard_left_out(GUARD_LANDLOCK);
    bool left = guard_left_out(GUARD_TEARDOWN) || guard_left_out(GUARD_SUPERVISOR);
    if (stage == STAGE_BIRTH && l->namespaced && !guard_left_out(GUARD_SUPERVISOR))
        plan_op(plan, OP_DIE_WITH_PARENT);
    if (stage == STAGE_BIRTH && !l->namespaced)
        plan_num(plan, OP_SUBREAPER, (l->private_uid || scoped) && !left, 0, 0);
    if (stage == STAGE_RESTRICT && l->stem)
        rlimit(plan, "core", RLIMIT_CORE, l->core_files, l->core_files);
    if (stage == STAGE_RESTRICT && !l->stem) {
        plan_memory(l, plan);
        plan_cpu(l, plan);
        plan_files(l, plan);
        if (plan_pids(l, plan, err) < 0)
            return err_at(err, BOUNDARY_LIFECYCLE);
    }
    return 0;
}
