/* Locks of files: when to count them, and what they hold.
 *
 * The kernel keeps each lock of a range in memory that it charges nobody for, neither the process
 * nor a cgroup, and a process may lock every second byte of each of its files: gigabytes, under any
 * limit. /proc tells which locks a process has, by descriptor, and to read that of every descriptor
 * at every sample would cost more than it is worth. But they lie in what the kernel holds and
 * cannot take back, which is one number for the whole host. Only when that has grown by a good part
 * of this sandbox's limit, and the code has worked meanwhile, a look counts them (sample_files.c,
 * on an errand). The growth may well be somebody else's: what ends a run is the count of its own.
 *
 * Locks of open files (F_OFD_SETLK) would stay where no descriptor tells of them; the filter
 * answers as a kernel without them. */
#include "base/cleanup.h"
#include "lifecycle/lifecycle.h"
#include "lifecycle/sample.h"
#include "os/weaken.h"

#define LOCK_BYTES 192u /* struct file_lock, of Linux 6.18; others differ by a few */
/* Below this nobody is hurt. */
#define GROWTH_MIN (UINT64_C(8) << 20)
/* It takes more CPU time than this to make so many. */
#define WORK_US 10000u

uint64_t locks_bytes(uint64_t count)
{
    return count * LOCK_BYTES;
}

static uint64_t beyond(uint64_t now, uint64_t before)
{
    return now > before ? now - before : 0;
}

/* Where a cgroup counts it. Elsewhere CPU time may vanish with processes: then every sample asks.
 */
static bool has_worked(struct lifecycle *l)
{
    uint64_t now = l->usage.code_usec;
    if (l->cgroup && l->limits.cpu_time && now < l->sampler->locks_cpu + WORK_US)
        return false;
    l->sampler->locks_cpu = now;
    return true;
}

static bool kernel_has_grown(struct lifecycle *l)
{
    struct sampler *s = l->sampler;
    struct host_memory host;
    uint64_t most = l->policy->memory / 4 > GROWTH_MIN ? l->policy->memory / 4 : GROWTH_MIN;
    if (sample_host_memory(&host) < 0)
        return true;
    s->kernel_grown = beyond(host.unreclaimed, l->host_before.unreclaimed);
    if (host.unreclaimed < s->kernel_low)
        s->kernel_low = host.unreclaimed;
    if (host.unreclaimed - s->kernel_low < most)
        return false;
    s->kernel_low = host.unreclaimed;
    return true;
}

bool locks_due(struct lifecycle *l)
{
    struct sampler *s = l->sampler;
    if (l->policy->memory == POLICY_UNLIMITED || guard_left_out(GUARD_MEMORY))
        return false;
    /* A sandbox that holds many locks is counted at every sample. */
    bool many = locks_bytes(l->looked.locks) > l->policy->memory / 4;
    s->locks_due = s->locks_due || many || (has_worked(l) && kernel_has_grown(l));
    return s->locks_due;
}

bool locks_in_doubt(const struct lifecycle *l)
{
    return l->sampler && l->sampler->locks_due && l->sampler->kernel_grown > l->policy->memory;
}

void locks_counted(struct lifecycle *l, const struct looked *before)
{
    if (!l->looked.counts_locks) {
        l->looked.locks = before->locks;
        l->looked.locks_most = before->locks_most;
        l->looked.locks_pid = before->locks_pid;
        return;
    }
    l->sampler->locks_due = l->looked.blind && l->sampler->kernel_grown > l->policy->memory;
}
