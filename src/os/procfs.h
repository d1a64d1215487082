/* What /proc says about a task: read once, checked by the boundaries' attest functions. */
#pragma once

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct proc_status {
    uid_t uid[4]; /* real, effective, saved, file system */
    gid_t gid[4];
    unsigned group_count;
    uint64_t cap_inh, cap_prm, cap_eff, cap_bnd, cap_amb;
    int no_new_privs;
    int seccomp;
    int seccomp_filters; /* -1 before kernel 5.9 */
    pid_t ppid;
    int threads;
};
/* The first child of a task that has one thread; 0: none, or the kernel does not tell. */
pid_t procfs_child(pid_t pid);
int procfs_status(pid_t pid, struct proc_status *ret, struct err *err);
/* All of a file "status", relative to dir: in `few`, or in *ret_many, which the caller frees. NULL
 * and errno. */
#define PROC_STATUS_SIZE 4096
const char *procfs_status_text(int dir, const char *path, char few[static PROC_STATUS_SIZE],
                               char **ret_many);
/* Pure part, for tests. */
int procfs_status_parse(const char *text, struct proc_status *ret);

/* A line of /proc/PID/stat. */
struct proc_stat {
    char name[65]; /* the process chose it: may have blanks and parentheses in it */
    pid_t ppid, pgrp;
    uint64_t own, reaped; /* CPU time in ticks: its threads', its waited-for children's */
    uint64_t tasks, start;
    bool ready;  /* its first thread runs, or waits for nothing but a processor */
    bool ended;  /* its first thread has */
    bool ending; /* it has begun to: it runs no code any more */
};
bool procfs_stat_parse(const char *text, struct proc_stat *ret);
/* False: there is no such task. */
bool procfs_stat(pid_t pid, struct proc_stat *ret);

enum proc_ns {
    NS_USER,
    NS_MNT,
    NS_PID,
    NS_NET,
    NS_IPC,
    NS_UTS,
    NS_CGROUP,
    NS_COUNT,
};
const char *proc_ns_name(enum proc_ns ns);
/* Inode numbers of the namespaces; pid 0 means this process. */
int procfs_namespaces(pid_t pid, uint64_t ret[NS_COUNT], struct err *err);

struct proc_mount {
    char dest[512]; /* octal escapes undone */
    char type[32];
    dev_t dev; /* of the file system, which stat does not always tell */
    bool read_only, nosuid, nodev, noexec;
    bool shared; /* propagates to or from somewhere */
};
typedef int proc_mount_fn(void *context, const struct proc_mount *m, struct err *err);
int procfs_mounts(pid_t pid, proc_mount_fn *each, void *context, struct err *err);
int procfs_mount_line(char *line, struct proc_mount *ret);
/* The mount that a descriptor of this process lies on; 0: unknown. */
uint64_t procfs_mount_of(int fd);
/* Every mount of this process's view, however many there are. */
struct mount_place {
    uint64_t id, parent; /* the one that it hangs on */
    const char *place, *type;
    dev_t dev;
    bool nosuid;
};
typedef int mount_place_fn(void *ctx, const struct mount_place *m, struct err *err);
int procfs_each_mount(mount_place_fn *fn, void *ctx, struct err *err);

/* Descriptors that survive execve, as a bit set of 0 to 63; fails if there is a higher one. */
int procfs_inherited_fds(pid_t pid, uint64_t *ret, struct err *err);
/* All of them, in the same way. */
int procfs_fds(pid_t pid, uint64_t *ret, struct err *err);

/* The pid behind a pidfd of ours; 0: it is gone, or not visible in this pid namespace. */
pid_t procfs_pidfd(int pidfd);

/* /proc/PID/limits as text; unlike prlimit(2) it needs no privilege over a process with another
 * uid. */
#define PROC_LIMITS_SIZE 2048
int procfs_limits(pid_t pid, char text[static PROC_LIMITS_SIZE], struct err *err);
/* Soft and hard value of one line ("Max open files"); UINT64_MAX for unlimited. Negative if it is
 * not there. */
int procfs_limit(const char *text, const char *name, uint64_t *soft, uint64_t *hard);

/* The text of /proc/PID/uid_map or gid_map with runs of blanks folded. */
int procfs_id_map(pid_t pid, const char *which, char *out, size_t size, struct err *err);
