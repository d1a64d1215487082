/* Starting the code: fork, wait for the word, execve. */
#pragma once

#include "plan/apply.h"

#include <sys/types.h>

struct started {
    pid_t pid;
    int go_fd; /* closing it without writing makes the child give up */
};

int exec_start(struct apply_state *st, struct started *ret, struct err *err);
