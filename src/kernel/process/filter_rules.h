/* What the parts of the filter share: the rules and groups that calls.def names, and the verdicts
 * that they come down to once the options are known. */
#pragma once

#include "kernel/process/filter.h"

/* How a call is judged. The text is what docs/seccomp.md says. */
#define FILTER_RULES(RULE)                                                                         \
    RULE(ALLOW, "allow")                                                                           \
    RULE(SEEN, "deny, seen")                                                                       \
    RULE(ABSENT, "absent (ENOSYS)")                                                                \
    RULE(UNJOINED, "not for these descriptors (EINVAL)")                                           \
    RULE(CLONE, "allow if no new namespace; else deny, seen; where descriptors are looked at, no " \
                "thread with a table of its own (deny, quiet)")                                    \
    RULE(PRETEND, "pretended: nothing is done")                                                    \
    RULE(UNSHARE, "allow if no new namespace; else deny, seen; where descriptors are looked at, "  \
                  "no table of its own (deny, quiet)")                                             \
    RULE(CLOSE_RANGE, "allow; where descriptors are looked at, no table of its own (deny, quiet)") \
    RULE(MMAP, "allow if not MAP_HUGETLB (deny, quiet) and, where memory is strict, at most 1 "    \
               "MiB if shared without a file (deny, seen)")                                        \
    RULE(MADVISE, "allow if not MADV_MERGEABLE (EINVAL)")                                          \
    RULE(COUNTED, "allow; deny, quiet, where memory is strict")                                    \
    RULE(SOCKET, "allow if the family is open, see below; else deny, seen")                        \
    RULE(SOCKETPAIR, "allow if AF_UNIX, and a datagram pair only with unix sockets; else deny, "   \
                     "seen")                                                                       \
    RULE(SOCKET_USE,                                                                               \
         "allow if unix sockets or an own network, but not on no descriptor where the "            \
         "code is a module; else deny, seen")                                                      \
    RULE(SOCKET_IO, "allow; on no descriptor, where the code is a module: deny, seen")             \
    RULE(CONNECT, "brokered if the network is; else allow if unix sockets or an own network, "     \
                  "shown to the supervisor where hosts are allowed; else deny, seen")              \
    RULE(SENDTO, "allow, but not MSG_FASTOPEN where the network is brokered (EOPNOTSUPP); on no "  \
                 "descriptor, where the code is a module: deny, seen")                             \
    RULE(SENDMSG, "allow, but not MSG_FASTOPEN where the network is brokered (EOPNOTSUPP)")        \
    RULE(SOCKOPT, "allow if the option is listed below; SO_LINGER is pretended; else as on a "     \
                  "kernel without it (ENOPROTOOPT)")                                               \
    RULE(IOCTL, "allow if not TIOCSTI, TIOCLINUX, TIOCCONS, TIOCSETD (deny, seen) or, where "      \
                "signals could leave, FIOSETOWN, SIOCSPGRP or, without an own network, questions " \
                "about interfaces (deny, quiet)")                                                  \
    RULE(FCNTL, "allow if not F_NOTIFY, F_SETLEASE or a command newer than F_SET_FILE_RW_HINT "    \
                "or, where signals could leave, F_SETOWN, F_SETOWN_EX, F_SETSIG or, where "        \
                "memory is strict, F_SETPIPE_SZ (deny, quiet) or, where memory has a limit, "      \
                "F_OFD_SETLK, F_OFD_SETLKW (EINVAL)")                                              \
    RULE(PRCTL, "allow if not PR_SET_MEMORY_MERGE (EINVAL) or PR_SET_MM, PR_SCHED_CORE (deny, "    \
                "quiet)")                                                                          \
    RULE(PERSONALITY, "allow if 0, 8, 0x20000, 0x20008, 0x40000 or a query; else deny, seen")      \
    RULE(SECCOMP, "allow if no new listener; else deny, quiet")                                    \
    RULE(MKNOD, "allow if FIFO, socket or plain file; else deny, seen")                            \
    RULE(MKNODAT, "allow if FIFO, socket or plain file; else deny, seen")                          \
    RULE(OWN_PID, "allow if own pids, or pid 0; else deny, seen")                                  \
    RULE(SETRLIMIT, "allow; RLIMIT_CORE is pretended")                                             \
    RULE(PRLIMIT, "allow if own pids, or pid 0, else deny, seen; RLIMIT_CORE is pretended, or "    \
                  "deny, quiet, with the question how it was")                                     \
    RULE(PRIORITY, "allow if own pids, or the caller and its group; else deny, seen")              \
    RULE(IOPRIO, "allow if own pids, or the caller and its group; else deny, seen")                \
    RULE(KILL, "allow if own pids, scoped signals, or pid 0; else brokered")                       \
    RULE(SIGNAL, "allow if own pids or scoped signals; else brokered")                             \
    RULE(PIDFD_SIGNAL, "allow if own pids or scoped signals; else absent (ENOSYS)")                \
    RULE(PIDFD_OPEN, "allow if own pids; else absent (ENOSYS)")                                    \
    RULE(IPC, "allow if own ipc; else deny, seen")                                                 \
    RULE(MEMFD, "allow if memory is counted, or to an engine that is a kernel in user space, but " \
                "not MFD_HUGETLB (deny, quiet); else absent (ENOSYS)")                             \
    RULE(TRACE, "allow to an engine that is a kernel in user space; else deny, seen")              \
    RULE(SHM, "allow if own ipc and memory is counted; else deny, seen")                           \
    RULE(QUEUE, "allow if own ipc, and not where memory is strict; else deny, seen")               \
    RULE(META, "allow if own view or own uid; else brokered")                                      \
    RULE(CHMOD, "allow if own view or own uid, and no set-id bits where host folders are "         \
                "writable (deny, seen); else brokered")                                            \
    RULE(CHMODAT, "allow if own view or own uid, and no set-id bits where host folders are "       \
                  "writable (deny, seen); else brokered")                                          \
    RULE(CREAT, "allow if no set-id bits where host folders are writable; else deny, seen")        \
    RULE(ATTR, "allow if own view or own uid; else deny, quiet")                                   \
    RULE(OWNER, "pretended where root installs packages, but not for the other user of the "       \
                "sandbox; else allow if own view or own uid; else deny, quiet")                    \
    RULE(OWNERAT, "pretended where root installs packages, but not for the other user of the "     \
                  "sandbox; else allow if own view or own uid; else deny, quiet")                  \
    RULE(XATTR, "allow if own view or own uid; else not supported (EOPNOTSUPP)")                   \
    RULE(WATCH, "allow if own view; else deny, quiet")                                             \
    RULE(WATCH_ADD, "allow if own view and no reading is watched; with IN_ACCESS, IN_OPEN or "     \
                    "IN_CLOSE_NOWRITE brokered, without these; else deny, quiet")                  \
    RULE(TRUNCATE, "allow if own view, own uid or Landlock guards it; else deny, seen")            \
    RULE(OPEN, "allow, but not read-only with O_TRUNC where nothing else guards truncation, and "  \
               "no set-id bits where host folders are writable (deny, seen); brokered for "        \
               "/dev/shm where it is private")                                                     \
    RULE(OPENAT, "allow, but not read-only with O_TRUNC where nothing else guards truncation, "    \
                 "and no set-id bits where host folders are writable (deny, seen); brokered for "  \
                 "/dev/shm where it is private")                                                   \
    RULE(NAME, "allow; brokered for /dev/shm where it is private")                                 \
    RULE(NAMEAT, "allow; brokered for /dev/shm where it is private")                               \
    RULE(OPENAT2, "allow if truncation is guarded and no host folder is writable; else absent "    \
                  "(ENOSYS)")

enum filter_rule {
#define RULE(id, text) RULE_##id,
    FILTER_RULES(RULE)
#undef RULE
        RULE_COUNT,
};

/* What a call belongs to: decides the words of a denial. Groups that are never seen need none. */
enum filter_group {
    GROUP_IO,
    GROUP_FILES,
    GROUP_MEMORY,
    GROUP_PROCESS,
    GROUP_TIME,
    GROUP_IDENTITY,
    GROUP_INFO,
    GROUP_OBSOLETE, /* no program of today calls it */
    GROUP_NEW,      /* newer than what libraries can count on: they have a way without */
    GROUP_NUMA,
    GROUP_PROBE,
    GROUP_SIGNALS,
    GROUP_SOCKET,
    GROUP_IPC,
    GROUP_NAMESPACE,
    GROUP_MOUNT,
    GROUP_HANDLE,
    GROUP_DEVICE,
    GROUP_WATCH,
    GROUP_ADMIN,
    GROUP_CLOCK,
    GROUP_MODULE,
    GROUP_TRACE,
    GROUP_KEYS,
    GROUP_SURFACE,
    GROUP_LIMITS,
    GROUP_TERMINAL,
    GROUP_COUNT,
};

struct filter_entry {
    const char *name;
    int x86_64, aarch64; /* numbers; -1 if there is none */
    enum filter_rule rule;
    enum filter_group group;
    const char *why;
};

/* sockopts.def: which of them a filter with these options lets be set. */
enum sockopt_who { WHO_ANY, WHO_OWN, WHO_COUNTED, WHO_PRETENDED };
struct filter_sockopt {
    const char *level_name;
    uint32_t level, first, last;
    enum sockopt_who who;
    const char *names, *why;
};
extern const struct filter_sockopt filter_sockopts[];
extern const size_t filter_sockopts_len;

extern const struct filter_entry filter_table[];
extern const size_t filter_table_len;
/* The call's number there, -1 if there is none. */
int filter_number(const struct filter_entry *e, uint32_t arch);
/* NULL if there is no such call. */
const struct filter_entry *filter_find(uint32_t arch, int nr);

/* The ends of every path through the program. */
enum filter_verdict {
    VERDICT_ALLOW,
    VERDICT_SEEN,    /* EPERM; the supervisor is told where there is one */
    VERDICT_FOREIGN, /* another architecture's entry: ENOSYS; the supervisor is told */
    VERDICT_QUIET,   /* EPERM */
    VERDICT_ABSENT,  /* ENOSYS */
    VERDICT_NOPROTO, /* EPROTONOSUPPORT, as on a kernel without that protocol */
    VERDICT_NOTSUP,  /* EOPNOTSUPP, as on a file system without attributes */
    VERDICT_NOOPT,   /* ENOPROTOOPT, as on a kernel without that socket option */
    VERDICT_INVALID, /* EINVAL, as of descriptors that the call is not for */
    VERDICT_PRETEND, /* nothing is done, and the caller is told that it was */
    VERDICT_REPORT,  /* the supervisor looks at the path; the call goes on */
    VERDICT_COUNT,
};
uint32_t filter_return(enum filter_verdict verdict, const struct filter_options *options);

/* Where a number leads: a verdict, or, from VERDICT_COUNT on, the argument check of a rule. */
typedef unsigned filter_target;
#define TARGET_CHECK(rule) ((filter_target)VERDICT_COUNT + (rule))
#define TARGET_COUNT       TARGET_CHECK(RULE_COUNT)

/* An argument check: a short piece of program, written forwards with symbolic ends. */
#define CHECK_MAX_STEPS  56
#define CHECK_MAX_LABELS 8
#define CHECK_NEXT       0                         /* go on with the next step */
#define CHECK_TO(label)  (1 + (label))             /* a label of this check, further down */
#define CHECK_END(end)   (-1 - (int)VERDICT_##end) /* a verdict */

struct check_step {
    uint16_t code;
    uint32_t k;
    int yes, no; /* CHECK_…, for jumps */
};

struct filter_check {
    struct check_step steps[CHECK_MAX_STEPS];
    size_t count;
    size_t labels[CHECK_MAX_LABELS]; /* step that follows the label */
};
void filter_check_write(enum filter_rule rule, uint32_t arch, const struct filter_options *options,
                        struct filter_check *ret);

/* Numbers from `first` to before the next range's first. Sorted; the first begins at 0, and a
 * zeroed one follows the last. */
struct filter_range {
    uint32_t first;
    filter_target target;
};
int filter_compile(uint32_t arch, const struct filter_range *ranges, size_t count,
                   const struct filter_options *options, struct filter_program *ret,
                   struct err *err);
