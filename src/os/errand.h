/* Errands: what a process must not do itself because others depend on it, and what it does touches
 * a thing that hostile code controls.
 *
 * The kernel makes whoever looks wait. A descriptor that was taken from a task, or only looked at
 * in /proc, is closed by the looker if its owner closes it at that moment: a TCP socket that
 * lingers then holds the looker for as long as its owner chose, and a large file that is deleted
 * already is taken apart on the looker's time. A page of a task's memory may lie on a file system
 * that does not answer, and so may a path. None of this can be seen beforehand. So somebody else
 * goes: a child that can be killed at any moment.
 *
 * ER-1  The caller waits for an errand no longer than it says.
 * ER-2  Nobody waits for the child's end. The kernel does not linger for a process that is killed;
 * one that it cannot kill stays behind, with nothing but what it was looking at, and there are
 * never more than ERRANDS_LOST of them. (Where that many were killed just now, on a machine that
 * has other things to do, the next ask waits for the first of them, half a second at most.)
 * ER-3  The child has no descriptor of its parent's but those that it is given, and dies with it.
 * ER-4  The last close of what it is given is the child's: it keeps its copies until the parent has
 * closed its own.
 * ER-5  A child that is sent into a user namespace works there or not at all. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define ERRAND_KEEPS 4
#define ERRAND_FDS   2
#define ERRANDS_LOST 8

/* Runs in the child. Both are of the sizes that errand_init was told; the descriptors are those
 * that came with the ask, -1 where there was none, and the function's to close. */
typedef void errand_fn(void *ctx, const void *ask, const int fds[ERRAND_FDS], void *answer);

struct errand {
    errand_fn *fn;
    void *ctx;
    size_t ask_size, answer_size;
    const int *keep[ERRAND_KEEPS]; /* descriptors that the child needs; NULL and -1 are none */
    /* A user namespace that the child enters first; NULL and -1 are none. It must be one that this
     * user made: there the child has every capability, over the ids that are mapped into it and
     * over nothing else. */
    const int *user_ns;
    pid_t pid; /* of the child that waits for the next ask; 0: none */
    int fd;
    bool asked;               /* and has not answered yet (errand_try) */
    pid_t lost[ERRANDS_LOST]; /* killed, and not yet gone when it was last looked */
    uint64_t killed_us;       /* the last of them */
};

void errand_init(struct errand *e, errand_fn *fn, void *ctx, size_t ask_size, size_t answer_size);
/* Optional: have a child ready. What the child knows of its parent's memory is as of now. */
void errand_start(struct errand *e);
/* 0 and the answer; -ETIMEDOUT after so many milliseconds, or another negative errno. The
 * descriptors (NULL: none; -1: none at this place) are closed here in any case: the child has
 * copies by then and keeps them until that is done, so that this is never the last close. */
int errand_ask(struct errand *e, const void *ask, int fds[ERRAND_FDS], void *answer, unsigned ms);
/* For who has other things to do: asks, unless the last ask is still under way, and waits so long.
 * -EINPROGRESS: come back later, for as long as you like; errand_end gives it up. */
int errand_try(struct errand *e, const void *ask, void *answer, unsigned ms);
/* Lets go of everything that the child holds. The next ask goes to another one. */
void errand_end(struct errand *e);
