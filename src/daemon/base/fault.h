/* Named places at which the daemon can be made to die or to stop, for the crash tests. Only the
 * programs of tests/weak have them: in a release a point is nothing at all, and the variable
 * BRIG_FAULT is not asked for. */
#pragma once

#include "base/buf.h"
#include "base/err.h"

#include <stdbool.h>

/* X(ID, "name") */
#define FAULT_POINTS(X)                                                                            \
    X(LAUNCH_BEFORE, "box.launch.before") /* its row is written, the launcher knows nothing */     \
    X(LAUNCH_SENT, "box.launch.sent")     /* the launcher forks */                                 \
    X(LAUNCHED, "box.launched")           /* the warden's socket is here */                        \
    X(READY, "box.ready")                 /* attested, nobody's yet */                             \
    X(CLAIM_BEFORE, "box.claim.before")   /* taken, the warden knows nothing */                    \
    X(CLAIM_SENT, "box.claim.sent")       /* the warden applies what the request asked for */      \
    X(CLAIMED, "box.claimed")             /* it runs, the client has not been told */              \
    X(SPAWN_SENT, "process.spawn.sent")   /* init forks */                                         \
    X(SPAWNED, "process.spawned")         /* it runs, the client has not been told */              \
    X(EXITED, "process.exited")           /* reaped, the client has not been told */               \
    X(EXECUTE_SENT, "execution.sent")     /* the interpreter has the code */                       \
    X(EXECUTE_SAID, "execution.said")     /* in the middle of its answer */                        \
    X(EXECUTE_ENDED, "execution.ended")   /* its last word is here */                              \
    X(FILE_SENT, "file.sent")             /* init forks a worker */                                \
    X(FILE_STARTED, "file.started")       /* the pipes are here */                                 \
    X(FREEZE_SENT, "box.freeze.sent")     /* between running and paused */                         \
    X(END_BEFORE, "box.end.before")       /* somebody wants it to end */                           \
    X(END_SENT, "box.end.sent")           /* the warden tears down */                              \
    X(ENDED, "box.ended")                 /* torn down, its warden still there */                  \
    X(GONE, "box.gone")                   /* nothing is left but its row */                        \
    X(POOL_LAUNCH, "pool.launch")         /* a replacement is on its way */                        \
    X(DRAIN, "daemon.drain")              /* asked to stop */                                      \
    X(DRAINED, "daemon.drained")          /* all boxes are gone, the records not yet on disk */

enum fault_id {
#define X(id, name) FAULT_##id,
    FAULT_POINTS(X)
#undef X
        FAULT_COUNT,
};

#ifdef BRIG_WEAKEN
/* "NAME", "NAME:kill", "NAME:pause", each with "@N" for the N-th time. pause: two seconds, in which
 * whoever tests ends another part. The name is written to stderr when the point is reached. NULL:
 * off. */
int fault_init(const char *spec, struct err *err);
void fault_hit(enum fault_id id);
extern bool fault_armed;
/* One name per line. */
void fault_list(struct buf *out);

static inline void fault_point(enum fault_id id)
{
    if (__builtin_expect(fault_armed, 0))
        fault_hit(id);
}
#else
static inline int fault_init(const char *spec, struct err *err)
{
    (void)spec;
    (void)err;
    return 0;
}
static inline void fault_point(enum fault_id id)
{
    (void)id;
}
#endif
