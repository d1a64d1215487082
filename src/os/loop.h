/* The event loop: epoll, timers, and things to do before the next wait. One thread. */
#pragma once

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct loop;

/* The part of a round that one client group may use. When it is used up, the group's other events
 * wait for the next round; nobody else has to wait. */
struct loop_share {
    uint64_t round, used_us;
};

struct loop_task {
    struct loop_task *next;
    void (*fn)(struct loop_task *t);
    bool queued;
};
/* Embedded in what it serves. */
struct loop_io {
    int fd;
    uint32_t events; /* EPOLLIN, EPOLLOUT; 0: registered but silent */
    void (*fn)(struct loop_io *io, uint32_t events);
    bool added;
    uint32_t armed;           /* the loop's own: what the kernel was told */
    struct loop_share *share; /* or NULL: served in any case. Outlives the call of fn */
    struct loop *file_of;     /* the loop's own: set for a file, which epoll does not take */
    struct loop_task turn;
};
struct loop_timer {
    uint64_t due_ms; /* 0: not set */
    size_t at;       /* place in the heap */
    void (*fn)(struct loop_timer *t);
    struct loop_share
        *share; /* as of an io: when it is used up, fn has its turn in a later round */
};

int loop_new(struct loop **ret, struct err *err);
void loop_free(struct loop *l);
/* Adds or changes. What is always ready (a regular file, /dev/null) is served once in each round.
 */
int loop_watch(struct loop *l, struct loop_io *io, uint32_t events);
void loop_forget(struct loop *l, struct loop_io *io);
void loop_close(struct loop *l, struct loop_io *io); /* its descriptor too; also where it is -1 */
void loop_timer_set(struct loop *l, struct loop_timer *t, uint64_t after_ms);
void loop_timer_cancel(struct loop *l, struct loop_timer *t);
/* Runs once, after the callbacks of this round: the place to free what a callback may still hold.
 */
void loop_defer(struct loop *l, struct loop_task *t);
void loop_undefer(struct loop *l,
                  struct loop_task *t);     /* it will not run; no harm if it was not to */
uint64_t loop_now_ms(const struct loop *l); /* monotonic, of this round */
/* For what is done outside of an io's fn: is it used up, and so much was used. NULL never is. */
bool loop_share_spent(const struct loop *l, const struct loop_share *s);
void loop_share_use(const struct loop *l, struct loop_share *s, uint64_t usec);
/* Called after each round with how long it took, waiting not included. */
void loop_on_round(struct loop *l, void (*fn)(void *ctx, uint64_t usec), void *ctx);
int loop_run(struct loop *l); /* until loop_stop */
void loop_stop(struct loop *l);
/* For tests: time passes as they say. The loop then never waits. */
void loop_set_clock(struct loop *l, uint64_t (*now_ms)(void));
