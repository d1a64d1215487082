/* What a warden asks of a template process: one packet on the template's socket (its "door"), with
 * descriptors, for one clone. The template answers nothing itself: the clone speaks on the control
 * socket that came with the request, like any other init. */
#pragma once

#include <stdint.h>

#define CLONE_MAGIC 0x31636c6fu

struct clone_request {
    uint32_t magic;
    uint32_t inside_uid;               /* in the clone's own user namespace; the gid is the same */
    uint32_t outside_uid, outside_gid; /* as the template's user namespace names them */
    uint32_t join_count;               /* cgroup files into which the clone writes "0" */
    uint32_t tree_count;               /* detached mounts for OP_BIND */
};

/* The descriptors of a request, in this order; after them the join files, then the trees. */
enum {
    CLONE_FD_CTL,
    CLONE_FD_PLAN,
    CLONE_FD_IMAGE, /* of init */
    CLONE_FD_STDIN,
    CLONE_FD_STDOUT,
    CLONE_FD_STDERR,
    CLONE_FD_REQUESTS, /* the interpreter's descriptor 3 */
    CLONE_FD_ANSWERS,  /* and 4 */
    CLONE_FD_MORE,
};
#define CLONE_FDS_MAX 128

/* How the image is told that it takes over a child that is already there: "brig-init adopt PID
 * BEFORE AFTER FILES", the last but one and the one before being struct ctl_evidence, FILES the
 * limit of descriptors of what it starts. */
#define CLONE_ADOPT "adopt"
