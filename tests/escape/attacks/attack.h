/* Shared by all attack programs: a probe is one attempt at something the sandbox must refuse. Each
 * probe runs in a child of its own and its outcome is one line, so that the same table can be run
 * outside (the control, where probes must work) and inside (where they must not).
 *
 *     ROW <tab> NAME <tab> OUTCOME
 *
 * Outcome: OK, an errno name, SIGNAL n, NOFORK, or ONLY and the architecture that has such a thing
 */
#pragma once

#include <stddef.h>

struct probe {
    const char *row;
    const char *name;
    int (*run)(void); /* 0: the attack worked; otherwise an errno */
    long nr;          /* used when run is NULL: a bare system call with harmless arguments */
    long arg[6];
    const char *only; /* not made: what it needs exists on this other architecture alone */
};

/* Entries of such tables. */
#define PROBE(row_, name_, function_)                                                              \
    {                                                                                              \
        .row = (row_), .name = (name_), .run = (function_)                                         \
    }
#define PROBE_CALL(row_, name_, ...)                                                               \
    {                                                                                              \
        .row = (row_), .name = #name_, .nr = SYS_##name_, .arg = { __VA_ARGS__ }                   \
    }
#define PROBE_ONLY(row_, name_, architecture_)                                                     \
    {                                                                                              \
        .row = (row_), .name = (name_), .only = (architecture_)                                    \
    }

void probe_print(const char *row, const char *name, int outcome);
void probe_run(const struct probe *probe);
void probes_run(const struct probe *probes, size_t count);

/* 0 or the errno of a libc-style result. */
int outcome(long result);
/* Can this path be opened so? 0 or an errno. */
int try_open(const char *path, int flags);
/* A fresh name in the place for temporary files. */
void scratch_path(char *out, size_t size, const char *what);
/* Waits until this file has so many bytes: what others do is under way. Gives up after a while. */
void await_size(const char *path, long long bytes);
/* Writes all of it or gives up. */
void say(const char *text);

extern const struct probe kernel_probes[];
extern const size_t kernel_probe_count;
extern const struct probe kernel_calls[];
extern const size_t kernel_call_count;
extern const struct probe socket_probes[];
extern const size_t socket_probe_count;

/* Sub-commands: argv[0] is the name of the sub-command. */
typedef int command(int argc, char **argv);
command cmd_posture, cmd_fds, cmd_exewrite, cmd_tiocsti, cmd_sweep, cmd_compat, cmd_startup;
command cmd_peer, cmd_victim, cmd_init, cmd_killinit;
command cmd_search, cmd_direct, cmd_rowrite, cmd_climb, cmd_links, cmd_remount, cmd_nodes,
    cmd_xattrs, cmd_exec, cmd_ipc, cmd_await, cmd_sockets, cmd_controls;
command cmd_forkbomb, cmd_forkchain, cmd_orphans, cmd_memory, cmd_spin, cmd_stubborn, cmd_daemons,
    cmd_descriptors, cmd_quotas, cmd_fill, cmd_inodes, cmd_flood, cmd_holdout, cmd_linger, cmd_beat,
    cmd_touch, cmd_die;
command cmd_reach, cmd_listen, cmd_environ;
