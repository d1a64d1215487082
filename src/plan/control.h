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
    CTL_TTY,       /* with a descriptor: the master side of the private terminal; of a session, over
                      SPAWN_TERMINAL */
    CTL_PROC_FILE, /* with a descriptor: one of the sandbox's own files of /proc; value = which */
    CTL_WORK,      /* with a descriptor: the writable tmpfs, whose content is wanted at the end */
    CTL_PROC,      /* with a descriptor: a /proc of the sandbox's that hides nothing */
    CTL_READY,     /* from the process that will become the code: everything is in force */
    CTL_EXEC_FAIL, /* from the same process: execve failed: err */
    CTL_EXIT,      /* the code ended: value = wait status */
    CTL_ANSWER,    /* session: `request` was carried out (pid = of what CTL_SPAWN started; with a
                      descriptor where one was asked for), or was not: err */
    CTL_EXITED,    /* session: `pid`, which CTL_SPAWN started, ended; value = wait status */
    CTL_BORN,      /* a clone, before its set-up; with a descriptor: its own pidfd */
    CTL_DOOR,      /* with a descriptor: the control socket of root's part of init */
    CTL_CLONED,    /* from the interpreter of a clone, which waits: `pid` */
    /* supervisor → init */
    CTL_PLAN,   /* the plan is written and sealed: apply it */
    CTL_MAPPED, /* identity maps are written: go on with the set-up */
    CTL_GO,     /* attested: let the code run */
    CTL_SIGNAL, /* send signal `value` to the code's process group; session: to `pid`, which
                   CTL_SPAWN started, or, if negative, to its group */
    CTL_FREEZE, /* SIGSTOP (value 1) or SIGCONT (value 0) to every task */
    CTL_KILL,   /* SIGKILL every task but init, reap them, exit */
    /* supervisor → init in session mode; each is answered with CTL_ANSWER */
    CTL_SPAWN,   /* with descriptors, see below: start a process */
    CTL_FILE,    /* with descriptors, see below: work on files */
    CTL_HIDE,    /* it was attested for the last time, code of others comes after the answer */
    CTL_CONNECT, /* value = port: connect to it inside, and hand the socket out; over a socket that
                    comes along, if one does */
    CTL_TYPE_COUNT,
};

/* What comes with a request. The block is a sealed plan of OP_ARG, OP_ENV, OP_CWD, OP_TTY and
 * OP_KEEP_STATUS (CTL_SPAWN), or as files/files.h says (CTL_FILE). */
enum {
    SPAWN_BLOCK,
    SPAWN_STATUS, /* a pipe: its end means that the program was executed, a struct err why not.
                     With OP_KEEP_STATUS the program itself says so */
    SPAWN_STDIN,  /* this and the next two: not with OP_TTY */
    SPAWN_TERMINAL = SPAWN_STDIN, /* with OP_TTY, and the last then: a socket, by which CTL_TTY is
                                     sent to the pump that carries its bytes */
    SPAWN_TERMINAL_FDS,
    SPAWN_STDOUT = SPAWN_STDIN + 1,
    SPAWN_STDERR,
    SPAWN_REQUESTS, /* becomes descriptor 3; may be left out, with the next */
    SPAWN_ANSWERS,  /* becomes descriptor 4; may be left out */
    SPAWN_FDS,
};
enum {
    FILE_BLOCK,
    FILE_OUT, /* the answer */
    FILE_IN,  /* what is to be written; may be left out */
    FILE_FDS,
};
#define CTL_FDS_MAX 7

/* What the probe around landlock_restrict_self saw, part of CTL_READY. */
struct ctl_evidence {
    int32_t landlock_before; /* 0, or the errno of opening the probe before */
    int32_t landlock_after;  /* must be EACCES where Landlock is planned */
};

struct ctl_msg {
    uint32_t type;
    int32_t value;
    uint32_t request; /* session: chosen by the asker, given back in the answer; never 0 */
    int32_t pid;      /* session: as the sandbox counts them */
    struct ctl_evidence evidence;
    struct err err;
};

/* Descriptors that init starts with; everything else is closed. */
enum {
    INIT_FD_CTL = 3,
    INIT_FD_PLAN = 4,
    /* Of an init that took over a clone: lets the clone go; ends when the clone has nothing left to
     * close. */
    INIT_FD_GO = INIT_FD_PLAN,
    INIT_FD_SETTLED = 5,
    CLONE_FD_GO = 5,   /* of a clone, whose channel has 3 and 4: one byte there lets it go */
    INIT_FD_TREES = 5, /* detached mounts for OP_BIND, in order */
};
#define INIT_TREES_MAX 64

/* Where root's part of init is asked from inside, by a user that is not root; see init/as_root.c.
 */
#define AS_ROOT_SOCKET "/run/brig-root"

/* What ps shows for init. */
#define INIT_NAME "brig-init"
