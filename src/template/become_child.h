/* From a process that borrows the template's memory to init and the clone. */
#pragma once

#include "plan/apply.h"
#include "plan/clone.h"

#include <sys/types.h>

struct clone_job {
    struct clone_request request;
    int fds[CLONE_FDS_MAX];
    unsigned fd_count;
    pid_t template_pid;
    char **envp; /* for the clone */
};

/* Returns 1, and only in the clone. */
int become_child(struct clone_job *j);
