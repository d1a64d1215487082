/* What the view `own` of /proc shows: the limits of the policy, and what was used of them by the
 * last look at the sandbox. */
#include "base/cleanup.h"
#include "base/clock.h"
#include "sandbox/internal.h"

#include <sched.h>
#include <stdio.h>
#include <sys/sysinfo.h>
#include <time.h>

/* The averages of the load, and the file, are good enough at this pace. */
#define REFRESH_US 900000u

static unsigned usable_cpus(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) < 0)
        return 1;
    int count = CPU_COUNT(&set);
    return count > 0 ? (unsigned)count : 1;
}

unsigned sandbox_cpus(const struct policy *p)
{
    unsigned all = usable_cpus();
    if (p->cpus_milli == POLICY_UNLIMITED || p->cpus_milli / 1000 >= all)
        return all;
    return (unsigned)((p->cpus_milli + 999) / 1000);
}

static uint64_t shown_memory(const struct policy *p)
{
    struct sysinfo si;
    uint64_t all = sysinfo(&si) < 0 ? UINT64_MAX : (uint64_t)si.totalram * si.mem_unit;
    return p->memory < all ? p->memory : all;
}

/* Without a clock of its own, the start times of its processes are told by the machine's. */
static uint64_t boot_time(bool clock)
{
    struct timespec up = {0}, now = {0};
    clock_gettime(CLOCK_REALTIME, &now);
    if (!clock)
        clock_gettime(CLOCK_BOOTTIME, &up);
    return (uint64_t)(now.tv_sec - up.tv_sec);
}

int sandbox_own_begin(struct sandbox *s, struct err *err)
{
    const struct policy *p = s->request->policy;
    if (!filesystem_has_own(&s->filesystem))
        return 0;
    bool clock = s->kernel.own_clock;
    s->own.born_us = s->own.seen_us = clock_us();
    s->own.numbers = (struct proc_numbers){
        .cpus = sandbox_cpus(p), .memory = shown_memory(p), .booted = boot_time(clock), .tasks = 1};
    if (s->own.numbers.cpus < usable_cpus()) {
        /* nproc and OpenMP ask for the CPUs that they may run on, which is all of them, unless the
         * environment says how many they are to use; Go and Python (from 3.13 on) likewise. Pinning
         * would make them agree by itself, but the limit is on time: sandboxes that share one CPU
         * would wait for each other while the next one is idle. */
        static const char *const names[] = {"OMP_NUM_THREADS", "GOMAXPROCS", "PYTHON_CPU_COUNT"};
        char count[16];
        snprintf(count, sizeof count, "%u", s->own.numbers.cpus);
        for (size_t i = 0; i < ARRAY_LEN(names); i++)
            credentials_set(&s->credentials, names[i], count);
    }
    int result = filesystem_own(&s->filesystem, &s->own.numbers, clock, err);
    return result < 0 ? err_at(err, BOUNDARY_FILESYSTEM) : 0;
}

/* The kernel counts who waits for a CPU; from outside, what was used is a good stand-in. */
static void move_load(struct sandbox *s, uint64_t now, uint64_t cpu_usec)
{
    uint64_t passed = now - s->own.seen_us;
    if (passed < PROC_LOAD_STEP_US)
        return;
    uint64_t steps = (passed + PROC_LOAD_STEP_US / 2) / PROC_LOAD_STEP_US;
    uint64_t used = cpu_usec > s->own.cpu_usec ? cpu_usec - s->own.cpu_usec : 0;
    proc_own_load(s->own.numbers.load, used * PROC_LOAD_ONE / passed, steps);
    s->own.seen_us = now;
    s->own.cpu_usec = cpu_usec;
}

void sandbox_own_refresh(struct sandbox *s)
{
    const struct lifecycle *l = &s->lifecycle;
    struct proc_numbers *n = &s->own.numbers;
    uint64_t now = clock_us(), alive = now - s->own.born_us;
    if (s->filesystem.own.fd[PROC_FILE_MEMINFO] < 0 ||
        (n->alive_usec && alive < n->alive_usec + REFRESH_US))
        return;
    uint64_t cache = l->cgroup ? cgroup_memory_cache(&l->group) : 0;
    n->alive_usec = alive;
    n->used = l->usage.memory_now;
    n->cache = cache == UINT64_MAX ? 0 : cache;
    n->spare = l->cgroup ? cgroup_memory_spare(&l->group) : 0;
    n->cpu_usec = l->usage.code_usec;
    n->tasks = l->usage.tasks_now;
    move_load(s, now, n->cpu_usec);
    filesystem_own_refresh(&s->filesystem, n);
}
