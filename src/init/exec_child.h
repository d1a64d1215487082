/* Starting the code: fork, wait for the word, execve. */
#pragma once

#include "os/execute_child.h"
#include "plan/apply.h"

#include <sys/types.h>

struct started {
    pid_t pid;
    int go_fd; /* closing it without writing makes the child give up */
};

/* The single steps, for processes that are started in another way. Only exec_search returns on
 * failure alone. */
int exec_session(struct apply_state *st, struct err *err); /* a session, and its terminal if any */
/* Limits of the code that are not init's. */
int exec_limits(const struct apply_state *st, struct err *err);
int exec_search(struct apply_state *st, struct err *err);

int exec_start(struct apply_state *st, struct started *ret, struct err *err);
