/* BOUNDARY 5: how long the code lives and how much it may use.
 *
 * Limits come from cgroups where they can be had; where not, from rlimits, the tmpfs size and a
 * supervisor that samples and kills. The receipt says which. Every limit has a verdict.
 *
 * LC-1  The sandbox dies with its supervisor, by the kernel's doing (container tier) or the
 * guardian's. LC-2  Nothing stays after any death. LC-4  No limit is silently absent: what could
 * not be enforced is named in the receipt. */
#pragma once

#include "audit/evidence.h"
#include "base/err.h"
#include "lifecycle/guardian.h"
#include "lifecycle/state.h"
#include "os/cgroup.h"
#include "os/errand.h"
#include "plan/plan.h"
#include "plan/stage.h"
#include "policy/policy.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum limit {
    LIMIT_NONE,
    LIMIT_TIMEOUT,
    LIMIT_CPU_TIME,
    LIMIT_MEMORY,
    LIMIT_PIDS,
    LIMIT_DISK,
    LIMIT_INODES,
    LIMIT_OPEN_FILES,
    LIMIT_OUTPUT,
};
const char *limit_name(enum limit l); /* NULL for none */

struct usage {
    uint64_t cpu_usec;
    uint64_t memory_peak;
    uint64_t oom_kills; /* that ended the run; in a session, that nobody was told of yet */
    uint64_t outlived;  /* processes killed for want of memory, while the session went on */
    uint64_t pids_peak;
    bool memory_exact; /* from a cgroup, not sampled */
};

struct lifecycle {
    const struct policy *policy;
    bool namespaced;
    bool private_uid; /* a host uid of its own */
    bool scoped_signals;
    bool stem;   /* a template process: its limits would be the most that its clones could have */
    bool cloned; /* init is the child of a template process, not of the supervisor */
    pid_t clone_pid; /* the interpreter that came with it, which must be in the cgroups; or 0 */
    struct cgroup_host host;
    struct cgroup_limits limits;
    struct cgroup_group group;
    bool cgroup;
    struct guardian guardian;
    /* Of the supervisor, to be left alone when the code is killed: brig-proxy, the notary; or 0. */
    pid_t helpers[GUARDIAN_HELPERS];
    bool guarded;
    bool stuck; /* some of it cannot be killed: nobody waits for it any more */

    bool session;         /* init serves; the code is what it starts */
    uint64_t open_files;  /* RLIMIT_NOFILE of the code */
    uint64_t rlimit_pids; /* RLIMIT_NPROC as set, 0 if none */
    uint64_t rlimit_data; /* RLIMIT_DATA as set, 0 if none */
    uint64_t deadline_us; /* 0 = none */
    bool over_memory;     /* ended because memory ran out */
    uint64_t oom_seen;    /* relieve.c: the cgroup's kills that the session has outlived */
    int dying_fd;      /* the process that was killed for want of memory, until it is gone; or -1 */
    uint64_t dying_us; /* since when */
    enum limit hit;    /* the first limit that ended or cut the run */
    struct usage usage;

    /* For sampling, opened before the code runs. */
    int proc_fd; /* the sandbox's own /proc (container tier), else -1 */
    int work_fd; /* its writable place, else -1 */
    dev_t work_dev;
    bool review;
    int review_fd; /* review mode: the folder that holds what the code writes, else -1 */
    uint64_t review_bytes, review_inodes; /* what was there before */
    pid_t init_pid;
    struct errand looker;   /* aside.c */
    uint64_t look_us;       /* when it was last asked */
    uint64_t silent_us;     /* how long it has not answered */
    uint64_t deleted_bytes; /* its last answer */
};

struct lifecycle_request {
    const struct policy *policy;
    bool namespaced;
    bool private_uid;
    uid_t host_uid;
    const char *sandbox_id;
    const char *private_dir;
    bool scoped_signals;
    bool watched; /* usage is asked for while it lives */
    bool stem;
    bool cloned;
    bool review; /* a folder of the host holds what the code writes; lifecycle_watch_review follows
                  */
};

void lifecycle_init(struct lifecycle *l);
int lifecycle_open(struct lifecycle *l, const struct lifecycle_request *request, struct err *err);
int lifecycle_plan(struct lifecycle *l, enum plan_stage stage, struct plan *plan, struct err *err);
/* A cgroup counts all memory of the sandbox. */
bool lifecycle_counts_memory(const struct lifecycle *l);
/* Guardian first, then the cgroups that it would remove. */
int lifecycle_prepare(struct lifecycle *l, struct err *err);
/* init exists, and put itself into its cgroups (v1) or was born there (v2): tell the guardian. */
int lifecycle_adopt(struct lifecycle *l, pid_t init_pid, struct err *err);
/* The folder is measured while the code runs; too much of it ends the run. */
void lifecycle_watch_review(struct lifecycle *l, int fd, uint64_t bytes, uint64_t inodes);
int lifecycle_attest(struct lifecycle *l, pid_t pid, struct evidence *out, struct err *err);
/* The code starts now. */
void lifecycle_started(struct lifecycle *l);
/* Called every sample_ms: looks at usage; returns the limit that demands an end, or LIMIT_NONE. */
enum limit lifecycle_sample(struct lifecycle *l);
unsigned lifecycle_sample_ms(const struct lifecycle *l);
/* A session, for which lifecycle_sample returned LIMIT_MEMORY. True: it goes on, since a process
 * was killed for that or is about to go (usage.outlived counts them). False: there is none whose
 * end would help. */
bool lifecycle_relieve(struct lifecycle *l);
/* Everything in the sandbox must die now (process tier, or a container whose init does not). */
void lifecycle_kill(struct lifecycle *l);
/* After the last task ended, before teardown: final usage and the verdict. */
void lifecycle_settle(struct lifecycle *l, uint64_t rusage_cpu_usec, uint64_t rusage_peak);
/* Closes what was open for sampling. */
void lifecycle_unwatch(struct lifecycle *l);
/* Negative if a cgroup is left. */
int lifecycle_teardown(struct lifecycle *l, struct err *err);
void lifecycle_write_enforced(const struct lifecycle *l, struct evidence *out);

/* limits.c: how many descriptors the code gets, and that brig has so many more. */
uint64_t limits_open_files(uint64_t wanted);
void limits_reserve_files(uint64_t code);

/* sample.c */
struct sampled {
    uint64_t memory;
    uint64_t cpu_usec;
    uint64_t tasks;
    uint64_t open_files_max;
    uint64_t deleted_bytes; /* of deleted files that are still open (process tier) */
    uint64_t data_max;      /* largest data segment of one process */
};
void sample_tasks(const struct lifecycle *l, struct sampled *ret);
/* deleted_bytes alone. Looks at what the tasks have open: for aside.c. */
void sample_deleted(const struct lifecycle *l, struct sampled *ret);
/* aside.c: the same on an errand, as of the last look that came back. False: there was no answer
 * for so long that the limit is not kept by looking any more. */
void aside_init(struct lifecycle *l);
bool aside_deleted(struct lifecycle *l, uint64_t *ret);
void aside_done(struct lifecycle *l);
/* How many tasks the user already has (RLIMIT_NPROC counts them all where there is no user
 * namespace). */
uint64_t sample_user_tasks(uid_t uid);
