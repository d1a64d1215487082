/* The system call filter: a table of calls with a verdict and a reason each, compiled to a
 * binary-tree BPF program. Built on the host; init only loads the finished bytes.
 *
 * K-1  What is not in the table gets ENOSYS, as on an older kernel, so that libraries fall back.
 * K-2  Dangerous calls get EPERM and are seen by the supervisor (user notification); they never
 * kill.
 * K-3  Only the native 64-bit entry is open: i386 and x32 numbers on x86-64, and 32-bit ARM numbers
 * on aarch64, are denied whatever they are.
 * K-4  A verdict depends on register values only, never on memory behind a pointer. */
#pragma once

#include "base/err.h"

#include <linux/filter.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The architectures that the table knows, by the numbers that the kernel itself gives them
 * (AUDIT_ARCH_X86_64, AUDIT_ARCH_AARCH64). A filter can be built for either on either machine; only
 * the native one can be loaded. */
#define FILTER_X86_64  0xC000003Eu
#define FILTER_AARCH64 0xC00000B7u
#if defined(__x86_64__)
#define FILTER_NATIVE FILTER_X86_64
#elif defined(__aarch64__)
#define FILTER_NATIVE FILTER_AARCH64
#else
#error "no system call table for this architecture"
#endif
/* Set in the number of calls that come by the x32 entry of x86-64. */
#define FILTER_X32_BIT 0x40000000u

struct filter_options {
    bool isolated_pids; /* own pid namespace: pid arguments cannot reach the host */
    bool isolated_ipc;  /* own ipc namespace: System V and POSIX IPC are private */
    bool isolated_net;  /* own, empty network namespace: INET sockets lead nowhere */
    bool brokered_net;  /* the host's network, without isolated_net: TCP sockets can be made, and
                           every connect is the supervisor's */
    bool watched_net;   /* with isolated_net: each connect is shown to the supervisor and goes on */
    bool unix_sockets;  /* socket(AF_UNIX) allowed; socketpair of streams always is */
    bool scoped_signals;  /* Landlock keeps signals inside (ABI 6); else signalling others is
                             brokered */
    bool own_view;        /* own mount namespace: paths of the host cannot be named */
    bool own_uid;         /* a host uid that owns nothing: permissions protect the host's files */
    bool one_owner;       /* root inside, of a writable root: there is nobody to give a file to */
    uint32_t other_owner; /* the same with a second user, who has this id; 0: there is none */
    bool scoped_truncate; /* Landlock guards truncation (ABI 3) */
    bool host_writable;   /* host folders can be written: a set-id file there would outlive the
                             sandbox */
    bool counted_memory; /* a memory cgroup counts what has no file and no process: memfds, System V
                            objects, shared memory, what lies in pipes */
    bool strict_memory;  /* it has a limit of the caller's that is only watched: what hides from a
                            look is refused */
    uint32_t shared_max; /* then: bytes of one piece of shared memory without a file */
    bool looked_at;      /* the descriptors of each process are looked at from outside */
    bool private_shm;    /* what names /dev/shm is done in a private folder, by the supervisor */
    bool report;         /* calls that name a path are shown to the supervisor and then go on */
    bool learn;          /* the same, for more calls */
    bool tracer;         /* the code is an engine that stops and steers processes of its own, and
                            shares memory with them that has no file: what they run is not the
                            sandbox's first process, but code behind it */
    bool module;         /* the code is an engine that runs a module, which has no sockets: the
                            engine tells of what a module tried by a call on no descriptor */
    bool notify;         /* a supervisor listens; otherwise dangerous calls get EPERM unseen */
};

#define FILTER_MAX_INSNS 1024

struct filter_program {
    struct sock_filter code[FILTER_MAX_INSNS];
    uint16_t len;
};

/* For the machine that it runs on. */
int filter_build(const struct filter_options *options, struct filter_program *ret, struct err *err);
int filter_build_for(uint32_t arch, const struct filter_options *options,
                     struct filter_program *ret, struct err *err);

/* What a program says about a call, computed as the kernel would (SECCOMP_RET_…). Tells a report
 * from a refusal: the notification alone does not. */
struct seccomp_data;
uint32_t filter_run(const struct filter_program *program, const struct seccomp_data *data);

/* A call is an architecture and a number, as a notification tells them. Of another architecture
 * than the two above, none of the following is true. */

/* True if the call names a path and is among those reported. */
bool filter_is_reported(uint32_t arch, int nr);

/* True if the call names a file or makes a socket: what learn mode looks at. */
bool filter_is_learned(uint32_t arch, int nr);

/* NULL if the architecture or the number is unknown. */
const char *filter_call_name(uint32_t arch, int nr);

/* The setting that would allow a refused call. */
enum filter_fix {
    FIX_NONE,
    FIX_TIER, /* on the process tier: the container tier has its own */
    FIX_UNIX_SOCKETS,
    FIX_COUNT,
};

/* What a notified call was, for the list of denials. All strings are static or in `what`. */
struct filter_denial {
    enum boundary_id boundary;
    char what[80];    /* "mount", "socket(AF_PACKET)", "clone(CLONE_NEWUSER)", "i386 call 11" */
    const char *rule; /* "kernel.seccomp: …" in a few words */
    const char *hint; /* what would allow it, or what to do instead */
    enum filter_fix fix;
};
void filter_describe(uint32_t arch, int nr, const uint64_t args[6], struct filter_denial *ret);

/* Of the code of an engine that runs modules, after filter_describe: what the module tried. */
void filter_describe_module(struct filter_denial *d);

/* True if the call is one of the signal calls that the supervisor must broker (process tier without
 * scoped signals) instead of refusing. */
bool filter_is_brokered_signal(uint32_t arch, int nr);

/* True if the call changes a file's metadata, which Landlock does not guard: on the process tier of
 * an ordinary user the supervisor does it instead, in the sandbox's own places only. */
bool filter_is_brokered_meta(uint32_t arch, int nr);

/* True for inotify_add_watch. With FILTER_READ_EVENTS in its mask the supervisor makes the call. */
bool filter_is_brokered_watch(uint32_t arch, int nr);
#define FILTER_READ_EVENTS 0x31u /* IN_ACCESS, IN_CLOSE_NOWRITE, IN_OPEN */

/* True for calls that open, link or remove a name: where there is no own view the supervisor looks
 * whether it lies in /dev/shm, and does it in the sandbox's own folder then. */
bool filter_is_brokered_shm(uint32_t arch, int nr);

/* True for connect, which the supervisor makes itself where the network is brokered. */
bool filter_is_brokered_connect(uint32_t arch, int nr);

/* For docs/seccomp.md, generated from the same table. */
struct filter_call {
    const char *name;
    int nr;              /* -1 if the architecture has no such call */
    const char *verdict; /* "allow", "allow if …", "deny, seen", "deny, quiet" */
    const char *why;
};
size_t filter_call_count(void);
void filter_call_at(uint32_t arch, size_t i, struct filter_call *ret);
