/* What the files of stems share: stem.c has their life, stem_process.c and stem_machine.c what
 * waits in them. */
#pragma once

#include "images/store.h"
#include "sandbox/clone.h"
#include "sandbox/internal.h"
#include "warden/complaint.h"
#include "warden/stem.h"

struct stem_warden {
    const struct stem_kind *kind;
    const struct template *template;
    struct policy policy;
    struct run_request request;
    struct sandbox *s;
    int sock, door;
    int status; /* our end of the pipe that tells whether its program could be executed */
    struct stem_files files;    /* a process */
    const struct parked *park;  /* a machine */
    struct image image;         /* its root, where that is one */
    int errors;                 /* what its monitor complains of */
    pid_t pid;                  /* of its monitor, as the sandbox counts */
    struct complaint complaint; /* of its monitor */
};

struct stem_kind {
    const char *name; /* for messages */
    struct policy (*policy)(const struct template *t);
    /* Before the sandbox is made. */
    int (*prepare)(struct stem_warden *w, struct err *err);
    /* The sandbox has its walls: what is started in it. */
    int (*start)(struct stem_warden *w, struct err *err);
    /* init said something. 1: it is done; negative: it failed. */
    int (*hear)(struct stem_warden *w, const struct ctl_msg *msg, struct err *err);
    /* When it was done and the sandbox is gone. */
    int (*finish)(struct stem_warden *w, struct err *err);
};
extern const struct stem_kind stem_process, stem_machine;

/* NULL: it can be one; else why not. */
const char *stem_process_unfit(const struct template *t, struct err *err);

/* The template's policy, without what only a user's code needs. */
struct policy stem_policy(const struct template *t);
/* Has init start what the block says. A pipe for `status` is made. */
int stem_spawn(struct stem_warden *w, struct plan *block, int fds[static SPAWN_FDS], unsigned count,
               struct err *err);
