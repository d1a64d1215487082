/* The messages between the supervisor and init, over one SEQPACKET socket pair.
 *
 * Everything that init says after it let the code run is hostile input: the supervisor checks types
 * and ranges, and trusts the kernel (pidfd, wait status, credentials attached to a message) for
 * what matters. */
#pragma once

#include "base/err.h"

#include <stdint.h>

enum ctl_type {
    CTL_NONE = 0,
    /* init → supervisor */
    CTL_FAIL,      /* set-up failed: err */
    CTL_LISTENER,  /* with a descriptor: the seccomp listener; value = 0, or an errno and no
                      descriptor */
    CTL_SOCKET,    /* with a descriptor: a listener made inside; value = kind << 16 | port */
    CTL_TTY,       /* with a descriptor: the master side of the private terminal */
    CTL_READY,     /* from the process that will become the code: everything is in force */
    CTL_EXEC_FAIL, /* from the same process: execve failed: err */
    CTL_EXIT,      /* the code ended: value = wait status */
    /* supervisor → init */
    CTL_PLAN,   /* the plan is written and sealed: apply it */
    CTL_MAPPED, /* identity maps are written: go on with the set-up */
    CTL_GO,     /* attested: let the code run */
    CTL_SIGNAL, /* send signal `value` to the code's process group */
    CTL_FREEZE, /* SIGSTOP (value 1) or SIGCONT (value 0) to every task */
    CTL_KILL,   /* SIGKILL every task but init, reap them, exit */
    CTL_TYPE_COUNT,
};

/* What the probe around landlock_restrict_self saw, part of CTL_READY. */
struct ctl_evidence {
    int32_t landlock_before; /* 0, or the errno of opening the probe before */
    int32_t landlock_after;  /* must be EACCES where Landlock is planned */
};

struct ctl_msg {
    uint32_t type;
    int32_t value;
    struct ctl_evidence evidence;
    struct err err;
};

/* Descriptors that init starts with; everything else is closed. */
enum {
    INIT_FD_CTL = 3,
    INIT_FD_PLAN = 4,
    INIT_FD_TREES = 5, /* detached mounts for OP_BIND, in order */
};
#define INIT_TREES_MAX 64

/* What ps shows for init. */
#define INIT_NAME "brig-init"
