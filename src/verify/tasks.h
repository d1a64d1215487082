/* The tasks of an engine on the host. On a tier whose code is behind an engine the code has no
 * tasks of its own there, and no name that it could give them. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define TASKS_MAX 256

struct host_task {
    pid_t pid;
    uint64_t start; /* a number may be given away again; both together are not */
};

struct tasks {
    struct host_task list[TASKS_MAX];
    unsigned count;
    uint64_t pid_ns; /* that all of them are in; 0: the host's */
    int pid_ns_fd;   /* if it is one: open, so that its number is not given to a stranger's */
};

/* The engine below this supervisor, first, and all that is below the engine. None: count is 0. What
 * was found before, or zeros, is in *ret. */
void tasks_find(struct tasks *ret, pid_t supervisor);
/* How many of them, and of those in their namespace, live; killed if asked for. */
unsigned tasks_alive(const struct tasks *t, bool end);
/* Kills the task that is the engine's kernel; false: there is none. */
bool tasks_end_sentry(const struct tasks *t);
bool task_lives(const struct host_task *t);
void tasks_done(struct tasks *t);
