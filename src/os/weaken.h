/* The guards of a sandbox, one by one, and the switch by which a test build leaves out exactly one.
 *
 * A release cannot: without BRIG_WEAKEN, which only the extra programs of tests/weak are
 * compiled with, guard_left_out() is the constant false, and what depends on it is not in the
 * program. The same holds for every other switch of the tests (FI-2): nothing in the environment
 * takes a guard away from a release, or makes it die. `brig verify` names with each attack the
 * guards without which it succeeds. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* GUARD(ID, "name", "what is missing without it") */
#define GUARDS(GUARD)                                                                              \
    GUARD(SECCOMP, "seccomp", "the system call filter")                                            \
    GUARD(LANDLOCK, "landlock", "the second filesystem layer")                                     \
    GUARD(NO_NEW_PRIVS, "no-new-privs", "the no_new_privs flag")                                   \
    GUARD(CAPABILITIES, "capabilities", "dropping all capabilities")                               \
    GUARD(GROUPS, "groups", "dropping the caller's groups (as root)")                              \
    GUARD(NS_USER, "namespace-user", "the user namespace (as root)")                               \
    GUARD(NS_MOUNT, "namespace-mount", "the mount namespace")                                      \
    GUARD(NS_PID, "namespace-pid", "the pid namespace")                                            \
    GUARD(NS_NET, "namespace-net", "the network namespace")                                        \
    GUARD(NS_IPC, "namespace-ipc", "the ipc namespace")                                            \
    GUARD(NS_UTS, "namespace-uts", "the uts namespace")                                            \
    GUARD(NS_CGROUP, "namespace-cgroup", "the cgroup namespace")                                   \
    GUARD(ROOT, "root", "the private root")                                                        \
    GUARD(READ_ONLY, "read-only", "the read-only flag of what is not to be written")               \
    GUARD(PROC, "proc", "the narrow view of /proc")                                                \
    GUARD(DESCRIPTORS, "descriptors", "closing inherited descriptors")                             \
    GUARD(ENVIRONMENT, "environment", "starting with an empty environment")                        \
    GUARD(RULES, "rules", "the decision of brig-proxy by the rules")                               \
    GUARD(ADDRESS, "address", "brig-proxy's check of the addresses that names lead to")            \
    GUARD(ORIGIN, "origin", "binding a secret to its origin")                                      \
    GUARD(REDACTION, "redaction", "taking secrets out of answers")                                 \
    GUARD(MEMORY, "limit-memory", "the limit of memory")                                           \
    GUARD(PIDS, "limit-pids", "the limit of tasks")                                                \
    GUARD(OPEN_FILES, "limit-open-files", "the limit of open files")                               \
    GUARD(DISK, "limit-disk", "the limit of bytes in the workspace")                               \
    GUARD(INODES, "limit-inodes", "the limit of files in the workspace")                           \
    GUARD(OUTPUT, "limit-output", "the limit of output")                                           \
    GUARD(TIMEOUT, "limit-timeout", "the deadline")                                                \
    GUARD(CPU_TIME, "limit-cpu-time", "the limit of CPU time")                                     \
    GUARD(TEARDOWN, "teardown", "killing what the code left running (process tier)")               \
    GUARD(SUPERVISOR, "supervisor", "dying with the supervisor")                                   \
    GUARD(WASM_PATHS, "wasm-paths", "resolving a module's paths beneath what it was given")        \
    GUARD(WASM_RIGHTS, "wasm-rights", "the rights of a module's descriptors")                      \
    GUARD(WASM_TABLE, "wasm-descriptors", "a module's own table of descriptors")                   \
    GUARD(WASM_MEMORY, "wasm-memory", "the check of a module's addresses and lengths")             \
    GUARD(WASM_IMPORTS, "wasm-imports", "the check of what a module imports")                      \
    GUARD(WASM_NOEXEC, "wasm-noexec", "giving up executable memory in a module's runner")

/* Guards whose absence takes more luck, or more time, to show than a row of `brig verify` may have:
 * their controls are in tests/escape. */
#define GUARDS_BESIDES(BESIDES)                                                                    \
    BESIDES(SOCKET_OPTIONS, "socket-options", "the list of socket options")                        \
    BESIDES(PIPES, "pipes", "refusing the calls that wait with a pipe locked")                     \
    BESIDES(ERRANDS, "errands", "a child of its own for what touches things of the code's")

enum guard {
#define GUARD(id, name, what) GUARD_##id,
    GUARDS(GUARD) GUARD_COUNT,
    GUARD_LAST = GUARD_COUNT - 1,
    GUARDS_BESIDES(GUARD) GUARD_END,
#undef GUARD
};

#define GUARD_BIT(id) (UINT64_C(1) << GUARD_##id)

#ifdef BRIG_WEAKEN
/* What a test asks of a test build, by a variable of the environment: NULL if nothing. */
const char *weaken_setting(const char *name);
/* Named by the variable BRIG_WEAKEN, alone or in a list with commas. */
bool guard_left_out(enum guard g);
/* The attestation that would find it missing looks away; not if BRIG_WEAKEN_ATTESTED is set. */
bool guard_unattested(enum guard g);
#else
static inline const char *weaken_setting(const char *name)
{
    (void)name;
    return 0;
}
static inline bool guard_left_out(enum guard g)
{
    (void)g;
    return false;
}
static inline bool guard_unattested(enum guard g)
{
    (void)g;
    return false;
}
#endif
