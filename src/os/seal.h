/* What a process of brig gives away once it has opened what it needs: identity, capabilities,
 * paths, system calls. Each step is irreversible; one that fails stops the start. In the order in
 * which they must be made:
 *
 *   seal_identity   nobody's uid (as root), no capability, no core file, not traceable, no way back
 *   seal_tie        who has a launcher: dies with it
 *   seal_paths      Landlock: nothing, or one folder
 *   seal_ports      Landlock: nothing
 *   seal_calls      the system calls that are left */
#pragma once

#include "base/err.h"
#include "os/landlock.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* uid and gid are taken when started by root alone. `who` is for messages. */
int seal_identity(uid_t uid, gid_t gid, const char *who, struct err *err);
int seal_tie(const char *who, struct err *err);

/* folder -1: no path at all. Returns 1, or 0 where the kernel has no Landlock. */
int seal_paths(int folder, uint64_t rights, const char *who, struct err *err);

/* No TCP port is bound and none dialled. Returns 1, or 0 where Landlock knows nothing of ports. */
int seal_ports(const char *who, struct err *err);

/* A call where one argument must be one of a few values. */
struct seal_choice {
    int call;
    unsigned argument;
    uint32_t mask; /* bits that do not matter are cleared first */
    uint32_t values[16];
    unsigned count;
    bool more; /* one value, and the next choice, of the same call, is about another argument */
};
/* Allowed, or allowed so; some end the process, since only an attacker would try them (execve,
 * clone, ptrace, bpf, …: the same for everyone). All others fail with EPERM. */
struct seal_calls {
    const int *allowed;
    size_t allowed_count;
    const struct seal_choice *choices;
    size_t choice_count;
};
/* Of two arrays. */
#define SEAL_LISTS(allowed, choices)                                                               \
    (&(const struct seal_calls){(allowed), sizeof(allowed) / sizeof((allowed)[0]), (choices),      \
                                sizeof(choices) / sizeof((choices)[0])})
int seal_calls(const struct seal_calls *calls, const char *who, struct err *err);

/* The end of a sealed process, at once: what others registered for the end is not its to run.
 * Never returns, but is not marked so: before such a call a sanitizer does work of its own, with
 * system calls that the filter does not know. */
void seal_exit(int status);

/* What every process of brig needs to go on and to end. */
#define SEAL_CALLS_LIFE                                                                            \
    SYS_munmap, SYS_mremap, SYS_brk, SYS_madvise, SYS_clock_gettime, SYS_gettimeofday,             \
        SYS_getrandom, SYS_futex, SYS_getpid, SYS_gettid, SYS_rt_sigreturn, SYS_rt_sigprocmask,    \
        SYS_restart_syscall, SYS_exit, SYS_exit_group
/* Connections and pipes that it has or accepts. */
#define SEAL_CALLS_STREAMS                                                                         \
    SYS_read, SYS_write, SYS_readv, SYS_writev, SYS_recvfrom, SYS_recvmsg, SYS_sendto,             \
        SYS_sendmsg, SYS_splice, SYS_pipe2, SYS_close, SYS_accept4, SYS_shutdown, SYS_getsockopt,  \
        SYS_setsockopt
/* As choices. No code: neither a mapping nor a later change of one may be executable. */
#define SEAL_CHOICES_NO_CODE                                                                       \
    {SYS_mmap, 2, PROT_EXEC, {0}, 1},                                                              \
    {                                                                                              \
        SYS_mprotect, 2, PROT_EXEC, {0}, 1                                                         \
    }
