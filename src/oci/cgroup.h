/* A container's own group in every hierarchy that the host has mounted (v1), or in the one (v2). It
 * is made new, so that nothing else is ever in it; removing it is safe to repeat. Where the
 * configuration names none, it lies in a group around all containers, which goes with the last. */
#pragma once

#include "base/err.h"
#include "oci/config.h"

#include <stdbool.h>
#include <sys/types.h>

#define OCI_HIERARCHIES_MAX 20u
#define OCI_CGROUP_PARENT   "brig-oci"

struct oci_hierarchy {
    char mount[256];
    char controllers[128]; /* "cpu,cpuacct", "name=systemd"; empty: v2 */
    char dir[1536];        /* the container's group */
};

struct oci_cgroup {
    struct oci_hierarchy item[OCI_HIERARCHIES_MAX];
    unsigned count;
    bool v2;     /* the one hierarchy */
    bool scoped; /* what is around it belongs to a service manager (manager.h) */
    bool made;
};

/* The path of a group from the root of its hierarchy. */
int oci_cgroup_absolute(const char *path, char out[static 1024], struct err *err);
/* Finds the hierarchies, and where the group of that (absolute) path lies. Nothing is made. */
int oci_cgroup_find(const char *path, struct oci_cgroup *ret, struct err *err);
/* Refuses groups that somebody is in. */
int oci_cgroup_is_free(const struct oci_cgroup *g, struct err *err);
int oci_cgroup_make(struct oci_cgroup *g, struct err *err);
/* What it has of the groups around it: done by oci_cgroup_make, but for a scope on v2 that the
 * caller leads somebody out of first. With a controller switched on there, nobody could leave it
 * for a group inside. */
void oci_cgroup_settle(const struct oci_cgroup *g);
/* `most`: memory and swap together, whatever the configuration says; 0: it decides. */
int oci_cgroup_limit(const struct oci_cgroup *g, const struct oci_resources *r, int64_t most,
                     struct err *err);
int oci_cgroup_enter(const struct oci_cgroup *g, pid_t pid, struct err *err);
/* Who is in it, at most `max`; how many. */
size_t oci_cgroup_pids(const struct oci_cgroup *g, pid_t *pids, size_t max);
int oci_cgroup_freeze(const struct oci_cgroup *g, bool on, struct err *err);
bool oci_cgroup_frozen(const struct oci_cgroup *g);
/* A signal to everybody in it. */
void oci_cgroup_kill(const struct oci_cgroup *g, int sig);
void oci_cgroup_remove(struct oci_cgroup *g);
/* One number of a file; -1: there is none, INT64_MAX: no limit. */
int64_t oci_cgroup_number(const struct oci_cgroup *g, const char *controller, const char *file);
/* v2: the number behind a word of a flat file. */
int64_t oci_cgroup_word(const struct oci_cgroup *g, const char *file, const char *word);
/* CPU time of all that was in it; -1: nobody counts. */
int64_t oci_cgroup_cpu_ns(const struct oci_cgroup *g);
