/* The guardian: a second process of the supervisor, sharing its memory but nothing else, whose only
 * work is to clean up when the supervisor is killed: kill what is left of the sandbox, remove its
 * cgroups and its private folder.
 *
 * LC-2  After SIGKILL of the supervisor at any point no process, cgroup or file of the sandbox
 * stays. LC-3  The guardian runs in a session of its own, holds no descriptor but the supervisor's
 * pidfd, and uses raw system calls only: the memory it shares may be in the middle of anything. */
#pragma once

#include "base/err.h"
#include "os/cgroup.h"

#include <stdbool.h>
#include <sys/types.h>

struct guardian {
    /* What to clean, filled in before the thing exists. Read by the guardian after the supervisor's
     * death. */
    struct cgroup_group group;
    volatile pid_t init_pid;
    pid_t supervisor;
    uid_t kill_uid;       /* a host uid that only this sandbox has, 0 if it shares the user's */
    char private_dir[64]; /* to be emptied and removed, or empty */

    pid_t pid;
    int pidfd;
    void *stack;
};

void guardian_init(struct guardian *g);
int guardian_start(struct guardian *g, struct err *err);
/* Everything is already clean: let it go. */
void guardian_dismiss(struct guardian *g);

/* guardian_child.c */
int guardian_main(void *guardian);
/* Kill everything below init_pid, then init itself. */
void guardian_kill_tree(pid_t init_pid);
/* Processes of the supervisor's own that outlive the code. */
enum guardian_helper {
    HELPER_PROXY,
    HELPER_NOTARY,
    HELPER_KEEPER, /* of a proxy that died */
    HELPER_PUMP,
    GUARDIAN_HELPERS
};
/* Has the supervisor a living child but the guardian and the helpers? After an ordinary end it has
 * not. `helpers`: processes of the supervisor's own that outlive the code, or 0. */
bool guardian_has_children(pid_t guardian, const pid_t helpers[GUARDIAN_HELPERS]);
/* For a living supervisor on the process tier: kill everything below it but the guardian and the
 * helpers with what is below them. If init was killed, its orphans came up to the supervisor, the
 * next reaper. False: something does not end. */
bool guardian_kill_children(pid_t supervisor, pid_t guardian,
                            const pid_t helpers[GUARDIAN_HELPERS]);
