/* An activity: what a request started and what goes on across rounds of the event loop. A stream of
 * output, an upload, a watched folder, a run of code, a connection to a port inside.
 *
 * It may have a client (the call that waits for its answer), may be tied to a sandbox, may wait for
 * callbacks, and holds memory and other things for one account. Each of these can end first, and
 * several in the same round. Whoever is an activity has this as its first member and says in
 * `activity_ops` what is its own; the rest of its life is written here, once:
 *
 *   begins     activity_new; then activity_serve ties it to a call, activity_enter to a sandbox
 *   waits      activity_wait before it asks for a callback, activity_back in the callback
 *   ends       activity_end: it is done, its client has left, or its sandbox has ended
 *   is freed   after the callbacks of the round, and after the last callback that it waits for
 *
 * AY-1  Its end comes once. `stop` is called then and there, and lets go of everything that could
 *       call it again: timers, descriptors, what runs inside. Only callbacks that were asked for
 *       still come, and activity_back tells them that nobody wants them any more.
 *
 * AY-2  It is freed once, by the loop and never from within another call: whoever ended it, and
 *       whoever is further up, may still look at it.
 *
 * AY-3  What it held is returned to its account when it is freed, all of it and not before.
 *
 * AY-4  A call has one owner. The end hands it back to the code that ends the activity, which
 *       answers it; a call whose client has left answers itself. */
#pragma once

#include "daemon/api/call.h"

struct activity;
struct activity_ops {
    void (*stop)(struct activity *a);     /* AY-1; or NULL */
    void (*done)(struct activity *a);     /* AY-2: frees what hangs on it, not itself; or NULL */
    void (*writable)(struct activity *a); /* its client can take more; or NULL */
    /* Its sandbox has ended: to end it and to answer its call. NULL: it has no call and just ends.
     */
    void (*box_gone)(struct activity *a);
};

struct activity {
    const struct activity_ops *ops;
    struct core *core;
    struct loop *loop;
    struct call *call; /* NULL: nobody waits for an answer */
    struct box *box;   /* NULL: not tied to one, or it has ended */
    struct hold hold;
    bool ended;
    /* Its own: */
    unsigned pending, charged;
    struct box_dependent of_box;
    struct loop_task release;
};

/* `size` zeroed bytes that begin with an activity; they are charged. NULL: no memory, or *err says
 * whose account has no room. */
void *activity_new(size_t size, const struct activity_ops *ops, struct core *core,
                   struct account *account, struct err *err);
/* From here on the call is its: `data` of the call is the activity. */
void activity_serve(struct activity *a, struct call *call);
/* Ends with the sandbox at the latest. */
void activity_enter(struct activity *a, struct box *b);
/* One of these for its account, till it is freed. */
int activity_charge(struct activity *a, enum account_kind kind, struct err *err);
/* A buffer that its account answers for; it ends in `done` at the latest. */
void activity_buf(struct activity *a, struct buf *b, size_t cap);

void activity_wait(struct activity *a);
bool activity_back(struct activity *a); /* false: it has ended; nothing may be begun any more */

/* Hands out the call, to be answered, and goes on without one. */
struct call *activity_detach(struct activity *a);
/* The same, and its end; NULL where there is no call, and when it had ended before. */
struct call *activity_end(struct activity *a);
/* The client has left in a way that only who reads the body hears of. */
void activity_gone(struct activity *a);

/* Those tied to a sandbox, of one kind, beginning with `after` NULL. */
struct activity *activity_next(struct box *b, const struct activity *after,
                               const struct activity_ops *ops);
/* The sandbox while it can be used; NULL: it is about to end, or has. */
struct box *activity_box(const struct activity *a);
