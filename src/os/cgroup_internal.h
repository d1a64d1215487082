/* Shared by the cgroup_*.c files only. */
#pragma once

#include "os/cgroup.h"

#include <stddef.h>
#include <string.h>

/* Places in the arrays of struct cgroup_host and struct cgroup_group, in the order of the
 * controller bits. */
enum cgroup_slot {
    SLOT_MEMORY = 0,
    SLOT_PIDS = 1,
    SLOT_CPU = 2,
    SLOT_CPUACCT = 3,
    SLOT_V2 = 0, /* v2 has one hierarchy for all */
};

#define CGROUP_CPU_PERIOD_US 100000

/* CPU bandwidth as the kernel wants it. It refuses quotas under 1 ms, so tiny shares get its
 * longest period. */
struct cgroup_bandwidth {
    uint64_t quota_us;
    uint64_t period_us;
};
struct cgroup_bandwidth cgroup_bandwidth_of(uint64_t cpus_milli);

/* ---- cgroup_io.c: control files through stack buffers ---- */

/* Whole content, NUL-terminated, cut at size - 1. Returns the length or -1 with errno. */
int cgroup_open_control(const char *dir, const char *file, int flags);
long cgroup_read_file(const char *dir, const char *file, char *buf, size_t size);
/* The first number; "max" and anything unreadable give UINT64_MAX. */
uint64_t cgroup_read_u64(const char *dir, const char *file);
/* The number after "key " at the start of a line, else UINT64_MAX. */
uint64_t cgroup_keyed_u64(const char *text, const char *key);
/* 0 or -1 with errno. */
int cgroup_write_file(const char *dir, const char *file, const char *text, size_t len);
int cgroup_write_u64(const char *dir, const char *file, uint64_t value);
/* Is `word` in a list separated by blanks? */
bool cgroup_has_word(const char *list, const char *word);
/* Does cgroup.procs list these? The index of the first that is missing, `count` if none is; -1 with
 * errno when it cannot be read. */
int cgroup_lists_pids(const char *dir, const pid_t *pids, unsigned count);
/* Does the limit in `file` read back as `want`? */
int cgroup_expect_u64(const char *dir, const char *file, uint64_t want, struct err *err);
/* The kernel counts memory in pages and rounds a limit down. */
uint64_t cgroup_page_floor(uint64_t bytes);

/* ---- one table per version ---- */

struct cgroup_ops {
    int (*limit)(const struct cgroup_group *g, const struct cgroup_limits *limits, struct err *err);
    int (*attach)(const struct cgroup_group *g, pid_t pid, struct err *err);
    void (*usage)(const struct cgroup_group *g, struct cgroup_usage *ret);
    int (*verify)(const struct cgroup_group *g, const struct cgroup_limits *limits,
                  struct err *err);
};
extern const struct cgroup_ops cgroup_v1_ops;
extern const struct cgroup_ops cgroup_v2_ops;

/* Several v1 controllers may share one mount ("cpu,cpuacct"): true for the first slot of each
 * folder. */
static inline bool cgroup_slot_is_first(const struct cgroup_group *g, int slot)
{
    if (!g->dir[slot][0])
        return false;
    for (int i = 0; i < slot; i++)
        if (strcmp(g->dir[i], g->dir[slot]) == 0)
            return false;
    return true;
}

/* Make room for children in a group that was delegated to this process: v2 wants processes in
 * leaves only. */
int cgroup_v2_enter_leaf(const char *scope, struct err *err);

/* ---- cgroup_child.c: raw system calls only ---- */

/* 0 when empty or gone, -ETIMEDOUT, or another -errno. */
int cgroup_kill_child(const struct cgroup_group *g, unsigned deadline_ms);
/* 0 when gone. */
int cgroup_rmdir_child(const char *dir, unsigned deadline_ms);
