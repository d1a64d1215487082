/* cgroups, v2 first and v1 as well: find where this process may make child groups, make one for a
 * sandbox, set limits, read usage, kill, remove. Only groups that this module made are ever written
 * to. */
#pragma once

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum cgroup_version {
    CGROUP_NONE = 0,
    CGROUP_V1 = 1,
    CGROUP_V2 = 2,
};

enum cgroup_controller { /* bits */
                         CGROUP_MEMORY = 1,
                         CGROUP_PIDS = 2,
                         CGROUP_CPU = 4,
                         CGROUP_CPUACCT = 8, /* v1 only; v2 counts CPU time without a controller */
};

#define CGROUP_V1_HIERARCHIES 4
#define CGROUP_PATH_MAX       480

/* What this process can use. `why` says in one sentence why a controller or everything is missing,
 * `how` gives the command or the step that would enable it. */
struct cgroup_host {
    enum cgroup_version version;
    unsigned controllers; /* usable in a child group */
    char parent[CGROUP_V1_HIERARCHIES]
               [CGROUP_PATH_MAX]; /* v2: [0] only; v1: by controller bit order */
    int failed;                   /* errno: it could not be told */
    char why[256];
    char how[256];
    bool own_scope; /* v2: the parent is our own group, delegated to us, and we are alone in it */
};
/* version is CGROUP_NONE where nothing is available. Does no writes. */
void cgroup_discover(struct cgroup_host *ret);

/* For a process that will start others: where the service manager has handed its own group over,
 * move to a leaf of it while it is still alone, so that groups can be made beside that leaf. Does
 * nothing elsewhere. */
int cgroup_take_scope(struct err *err);

struct cgroup_limits { /* 0 = leave alone */
    uint64_t memory;   /* bytes; swap is switched off with it */
    bool oom_one;      /* out of memory: one process is killed, not all of them */
    uint64_t pids;
    uint64_t cpus_milli; /* 1000 = one CPU */
    bool cpu_time; /* CPU time must be readable while the sandbox runs (joins cpuacct on v1) */
};

/* One sandbox's group. Plain data with fixed sizes: the guardian process reads it after the
 * supervisor died. */
struct cgroup_group {
    enum cgroup_version version;
    unsigned controllers;
    char dir[CGROUP_V1_HIERARCHIES][CGROUP_PATH_MAX]; /* absolute; empty = not used */
    bool made[CGROUP_V1_HIERARCHIES];
    bool own_scope; /* cgroup_make first moves this process to a leaf, to free its group for
                       children */
};

/* Only fills in the paths (so that the guardian knows them before anything exists). `name` is a
 * sandbox id: [a-z0-9-] only. */
int cgroup_plan(const struct cgroup_host *host, const struct cgroup_limits *limits,
                const char *name, struct cgroup_group *ret, struct err *err);
/* mkdir and write the limits. On failure nothing of the group is left. */
int cgroup_make(struct cgroup_group *g, const struct cgroup_limits *limits, struct err *err);
/* v1: the buffers of TCP and UDP have an account of their own, which is open-ended unless a limit
 * is set; and what of a limit of memory is for them. */
#define CGROUP_V1_SOCKETS_FILE "memory.kmem.tcp.limit_in_bytes"
uint64_t cgroup_v1_for_sockets(uint64_t bytes);

/* v2: a directory descriptor for CLONE_INTO_CGROUP (caller closes), or -1 on v1. */
int cgroup_clone_fd(const struct cgroup_group *g, struct err *err);
/* v1: descriptors of the files into which a task writes "0" to move itself; that is the only way
 * that does not wait for a grace period of about 10 ms. Returns how many (the caller closes them),
 * 0 on v2. */
int cgroup_join_fds(const struct cgroup_group *g, int fds[CGROUP_V1_HIERARCHIES], struct err *err);
/* v1: move a single-threaded task into every hierarchy, through `tasks`. v2: no-op if the task is
 * already there. */
int cgroup_attach(const struct cgroup_group *g, pid_t pid, struct err *err);

struct cgroup_usage { /* UINT64_MAX = not known */
    uint64_t memory_now;
    uint64_t sockets; /* bytes in buffers of sockets that memory_now does not have (v1) */
    uint64_t memory_peak;
    uint64_t oom_kills;
    uint64_t pids_now;
    uint64_t pids_max_hits; /* how often fork was refused */
    uint64_t cpu_usec;
    uint64_t throttled_usec;
};
void cgroup_usage(const struct cgroup_group *g, struct cgroup_usage *ret);
/* Of that memory, what holds contents of files; UINT64_MAX: not known. */
uint64_t cgroup_memory_cache(const struct cgroup_group *g);

/* What of it the kernel gives up by itself before anything is short: contents of files that are on
 * a disk. 0: none, or not known. */
uint64_t cgroup_memory_spare(const struct cgroup_group *g);

/* Attest: are all of `pids` in every one of our groups, and do the limit files read back as
 * written? */
int cgroup_verify(const struct cgroup_group *g, const struct cgroup_limits *limits,
                  const pid_t *pids, unsigned count, struct err *err);

/* SIGKILL every task in the group. v2: cgroup.kill (or a loop on kernels before 5.14); v1: a loop
 * over `tasks` until it stays empty. Bounded: gives up after `deadline_ms`. */
int cgroup_kill(const struct cgroup_group *g, unsigned deadline_ms, struct err *err);
/* v2: cgroup.freeze; v1: freezer is not joined, so unsupported there. */
int cgroup_freeze(const struct cgroup_group *g, bool freeze, struct err *err);
/* Remove the folders; retries while the kernel still counts dying tasks, up to deadline_ms.
 * Idempotent. */
int cgroup_remove(struct cgroup_group *g, unsigned deadline_ms, struct err *err);

/* A sandbox of an earlier run, whose supervisor and guardian were both killed: kill and remove what
 * is left of its group. True if there was any. */
bool cgroup_clean(const struct cgroup_host *host, const char *name);

/* The same two for the guardian: raw system calls only, no heap, no errno, no stdio (it shares the
 * dead supervisor's memory). In cgroup_child.c. True: after so long there are still tasks in it. */
bool cgroup_kill_and_remove_child(const struct cgroup_group *g, unsigned kill_ms);
