/* Where are this process's groups in the file system? Pure text work on /proc/self/cgroup and
 * /proc/self/mountinfo, one line at a time: no I/O, no heap. */
#pragma once

#include "os/cgroup.h"

#define CGROUP_PATHS_V2    CGROUP_V1_HIERARCHIES
#define CGROUP_PATHS_SLOTS (CGROUP_V1_HIERARCHIES + 1)

struct cgroup_place {
    char own[CGROUP_PATH_MAX];   /* path inside the hierarchy; empty = this process is in none */
    char mount[CGROUP_PATH_MAX]; /* mount point; empty = the hierarchy is mounted nowhere we can see
                                  */
    char
        dir[CGROUP_PATH_MAX]; /* our group in the file system; empty = outside of what is mounted */
};

struct cgroup_paths {
    struct cgroup_place place[CGROUP_PATHS_SLOTS]; /* memory, pids, cpu, cpuacct, then v2 */
};

/* Feed every line of /proc/self/cgroup first, then every line of /proc/self/mountinfo. */
void cgroup_paths_membership(struct cgroup_paths *paths, const char *line);
void cgroup_paths_mount(struct cgroup_paths *paths, const char *line);
