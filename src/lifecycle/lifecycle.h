/* BOUNDARY 5: how long the code lives and how much it may use.
 *
 * Limits come from cgroups where they are available; where not, from rlimits, the tmpfs size and a
 * supervisor that samples and kills. The receipt says which. Every limit has a verdict.
 *
 * LC-1  The sandbox dies with its supervisor, by the kernel's doing (container tier) or the
 * guardian's. LC-2  Nothing stays after any death. LC-4  No limit is silently absent: what could
 * not be enforced is named in the receipt. LC-5  A limit that the kernel cannot keep here is a
 * refusal, unless the policy accepts that it is only watched (keep.c). LC-6  What is watched cannot
 * be hidden from a look, and what cannot be looked at ends the run. LC-7  What could not be removed
 * is said. */
#pragma once

#include "audit/evidence.h"
#include "base/err.h"
#include "lifecycle/disk.h"
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
    uint64_t cpu_usec;  /* all of it */
    uint64_t code_usec; /* of that the code's own; the rest brig's processes used for it */
    uint64_t memory_now, tasks_now; /* by the last look */
    uint64_t memory_peak;
    uint64_t oom_kills; /* that ended the run; in a session, that nobody was told of yet */
    uint64_t outlived;  /* processes killed for want of memory, while the session went on */
    uint64_t pids_peak;
    bool memory_exact; /* from a cgroup, not sampled */
};

/* What sampling found. */
struct looked {
    uint64_t open_files_max;
    uint64_t pipes, sockets, shared;        /* where memory is strict; shared: without a file */
    uint64_t memory_files;                  /* bytes of files without a name that an engine has */
    uint64_t lists;                         /* bytes that lists of merged folders may take */
    bool counts_locks;                      /* this look does; else the number is of an older one */
    uint64_t locks, locks_most;             /* of files; of the process that has most of them */
    pid_t locks_pid;                        /* that process */
    uint64_t folder_max;                    /* as in the sampler */
    uint64_t deleted_bytes, deleted_inodes; /* of files that are deleted, and open or mapped */
    struct disk_usage work, review;         /* in the private folder, in the one of the review */
    bool too_big;                           /* one of them is, to be measured at all */
    bool in_flight;  /* descriptors lie in sockets, and what they hold is in no table */
    bool blind;      /* not all could be looked at */
    uint64_t cpu_us; /* that it took */
};

#define LIFECYCLE_OWN_MAX 32

/* What one process of brig's own has done for the code; helped.c. */
struct helped {
    pid_t pid; /* 0: none */
    uint64_t before_usec, now_usec;
};
#define HELPED 3

struct lifecycle {
    const struct policy *policy;
    bool namespaced;
    bool private_uid; /* a host uid of its own */
    bool scoped_signals;
    bool hides;  /* process tier: its processes could hide from who watches them */
    bool stem;   /* a template process: its limits would be the most that its clones could have */
    bool cloned; /* init is the child of a template process, not of the supervisor */
    pid_t clone_pid; /* the interpreter that came with it, which must be in the cgroups; or 0 */
    struct cgroup_host host;
    struct cgroup_limits limits;
    struct cgroup_group group;
    bool cgroup;
    struct guardian guardian;
    /* To be left alone when the code is killed, or 0. */
    pid_t helpers[GUARDIAN_HELPERS];
    pid_t reviewer; /* who looks at what the code changed, or 0 */
    struct helped helped[HELPED];
    uint64_t helped_usec; /* of those that are gone, of the supervisor itself, and of what it has
                             many of */
    bool guarded;
    bool stuck; /* some of it cannot be killed: nobody waits for it any more */

    bool session;         /* init serves; the code is what it starts */
    uint64_t open_files;  /* RLIMIT_NOFILE of the code */
    uint64_t core_files;  /* RLIMIT_CORE: os/coredump.h */
    uint64_t rlimit_pids; /* RLIMIT_NPROC as set, 0 if none */
    uint64_t rlimit_data; /* RLIMIT_DATA as set, 0 if none */
    uint64_t deadline_us; /* 0 = none */
    bool over_memory;     /* ended because memory ran out */
    uint64_t oom_seen;    /* relieve.c: the cgroup's kills that the session has outlived */
    int dying_fd;      /* the process that was killed for want of memory, until it is gone; or -1 */
    uint64_t dying_us; /* since when */
    enum limit hit;    /* the first limit that ended or cut the run */
    bool unmeasured;   /* what it left on disk: the last look failed */
    struct usage usage;

    /* For sampling, opened before the code runs. */
    struct sampler *sampler;
    bool looks;        /* at the descriptors of the code's processes, from outside */
    bool looks_disk;   /* for files that are deleted and take room on a disk of the host's */
    bool layered;      /* the code sees overlays that it can change: a writable root, a review */
    int proc_fd;       /* the sandbox's own /proc (container tier), else -1 */
    int work_fd;       /* its writable place, else -1 */
    dev_t work_dev;    /* process tier: where the private folder lies */
    bool reserves;     /* as the request says */
    bool memory_files; /* the same, where memory is to be watched */
    bool sizes_inside; /* as the request says */
    bool review;
    int review_fd; /* review mode: the folder that holds what the code writes, else -1 */
    uint64_t review_bytes, review_inodes; /* what was there before */
    const char *review_place;             /* as the code calls it */
    dev_t review_dev;                     /* process tier: of the copy */
    uint64_t review_mount;                /* container tier: the mount of the layers */
    dev_t review_devs[3];                 /* container tier: those that its mappings may show */
    int project_fd;                       /* container tier: what lies below the layer, else -1 */
    pid_t init_pid;
    struct host_memory {
        uint64_t all, left;   /* that it could still give out */
        uint64_t unreclaimed; /* in objects of the kernel's that it cannot take back */
    } host_before;            /* before the code ran */
    uint64_t sample_us;       /* of CPU time that the last sample took */

    /* Processes of brig's own inside, which hide from everybody as init does, and hold nothing of
     * the code's. */
    struct own_task {
        pid_t pid;
        uint64_t start; /* when, by the kernel's clock: numbers are used again */
    } own[LIFECYCLE_OWN_MAX];
    unsigned own_next;

    /* aside.c */
    struct errand looker;
    struct looked looked; /* the last answer */
    uint64_t rest_us;     /* no look before this time */
    bool forgot;          /* the child that samples was replaced, and the new one knows less */
};

struct lifecycle_request {
    uint64_t engine_files; /* descriptors that an engine in the place of the code needs; 0: none */
    const struct policy *policy;
    const int
        *user_ns; /* whence its descriptors can be looked at, as struct errand has it; or NULL */
    bool namespaced;
    bool private_uid;
    uid_t host_uid;
    const char *sandbox_id;
    const char *private_dir;
    bool scoped_signals;
    bool watched; /* usage is asked for while it lives */
    bool stem;
    bool cloned;
    bool reserves; /* an engine that takes address space by the gigabyte and uses little of it: a
                      limit on what is mapped says nothing about it */
    bool memory_files; /* the code's memory is a file of an engine's, mapped while the code runs */
    bool sizes_inside; /* how large a file may be is kept by an engine, whose memory is one */
    bool review; /* a folder of the host holds what the code writes; lifecycle_watch_review follows
                  */
};

void lifecycle_init(struct lifecycle *l);
int lifecycle_open(struct lifecycle *l, const struct lifecycle_request *request, struct err *err);
int lifecycle_plan(struct lifecycle *l, enum plan_stage stage, struct plan *plan, struct err *err);
/* The kernel does not keep this one here. */
bool lifecycle_watches(const struct lifecycle *l, enum policy_field field);
/* True: a sentence about limits that are only watched, to be shown to the caller. */
bool lifecycle_note(const struct lifecycle *l, char *out, size_t size);
/* A cgroup counts all memory of the sandbox. */
static inline bool lifecycle_counts_memory(const struct lifecycle *l)
{
    return l->cgroup && (l->group.controllers & CGROUP_MEMORY);
}

/* init has started a process of brig's own, by this number inside. */
void lifecycle_started_own(struct lifecycle *l, pid_t pid);
/* A limit of the caller's that no cgroup keeps: what can hide from a look is counted for the most
 * that it can hold, or refused. The level's own number does not ask for that: it would stop
 * programs that do nothing wrong. */
static inline bool lifecycle_strict_memory(const struct lifecycle *l)
{
    return !lifecycle_counts_memory(l) && l->policy->memory != POLICY_UNLIMITED &&
           policy_field_is_chosen(l->policy, FIELD_MEMORY);
}

/* The most that one piece of shared memory without a file may hold, where memory is strict. */
/* So much of the CPU is not used by a sandbox whose tasks are all stopped. */
#define LIFECYCLE_STILL_USEC 500000u
#define LIFECYCLE_SHARED_MAX (1u << 20)
/* Where memory is only watched, each buffer of a socket counts as so large and must not become
 * larger; else 0. */
uint64_t lifecycle_socket_buffer(const struct lifecycle *l);
/* Descriptors of the code's processes are looked at from outside: each process must have one table
 * of them. */
bool lifecycle_looks(const struct lifecycle *l);
/* The sandbox's processes are watched in a /proc of theirs that hides nothing: init hands it out.
 */
bool lifecycle_wants_proc(const struct lifecycle *l);
int lifecycle_take_proc(struct lifecycle *l, int *fd, struct err *err);
/* Guardian first, then the cgroups that it would remove. */
int lifecycle_prepare(struct lifecycle *l, struct err *err);
/* init exists, and put itself into its cgroups (v1) or was born there (v2): tell the guardian. */
int lifecycle_adopt(struct lifecycle *l, pid_t init_pid, struct err *err);
/* What the code writes in review mode is measured while it runs; too much of it ends the run. */
struct lifecycle_review {
    int fd;                 /* the folder that holds it */
    uint64_t bytes, inodes; /* what is in it before */
    const char *place;      /* as the code calls it; outlives the run */
    const char *project;    /* what lies below, where it is a layer; else NULL */
};
int lifecycle_watch_review(struct lifecycle *l, const struct lifecycle_review *r, struct err *err);
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
/* Around the code inside of a machine. */
void lifecycle_plan_guest(const struct policy *p, struct plan *plan);
void limits_reserve_files(uint64_t code);

/* sample.c: what the kernel's own counters say of the tasks. */
struct sampled {
    uint64_t memory;
    uint64_t shared; /* of this, what is mapped of shared memory and of files in memory */
    uint64_t cpu_usec;
    uint64_t tasks;
    uint64_t open_files_max;
    uint64_t data_max; /* largest data segment of one process */
};
/* 0, or a negative errno: not all could be read. */
int sample_tasks(const struct lifecycle *l, struct sampled *ret);
/* How many tasks the user already has (RLIMIT_NPROC counts them all where there is no user
 * namespace). */
int sample_user_tasks(uid_t uid, uint64_t *ret);

/* helped.c: what brig's own processes have used for the code by now. Those that have ended are
 * known by their last look. */
uint64_t helped_look(struct lifecycle *l);
/* Of one process, whoever it is, also of one that has ended and was not waited for. UINT64_MAX: it
 * is gone. */
uint64_t helped_time(pid_t pid);

/* locks.c: locks of files are memory of the kernel's that nobody is charged for.
 * True: it is time to count them. */
bool locks_due(struct lifecycle *l);
/* A look has ended. */
void locks_counted(struct lifecycle *l, const struct looked *before);
/* So much may be theirs that not to see them is to have no limit. */
bool locks_in_doubt(const struct lifecycle *l);
uint64_t locks_bytes(uint64_t count);

/* aside.c: sampling that must run in a child. */
void aside_init(struct lifecycle *l);
/* Asks, or hears what was found; l->looked has it. Negative: no answer yet, or none to come. */
int aside_look(struct lifecycle *l);
/* Of the time since it was last asked for, what the look that is under way is late by itself: it
 * was held up by what it looks at, or had much to do. Not that others had the processors. */
uint64_t aside_silent_for(struct lifecycle *l, uint64_t step);
/* The pure part: of a process that is ready to run, or is not, and has run for so long. */
uint64_t aside_silence(bool ready, uint64_t used, uint64_t step);
/* Waits for a last look at what the code has written, when all of it is dead. */
int aside_measure(struct lifecycle *l);
/* Forgets what was found in pipes and sockets, and what is being looked for. */
void aside_again(struct lifecycle *l);
void aside_done(struct lifecycle *l);
