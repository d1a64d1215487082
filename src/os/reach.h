/* From a path that a person named to the object that it stands for: one step at a time, each from
 * the descriptor of the folder before.
 *
 * A sandbox may have written wherever it was granted to, in this run or in an earlier one, and what
 * it made there belongs to the folder's owner: nothing tells a link of the code's from one of a
 * person's. So a link counts only in a folder that is never granted and that nobody but root and
 * the caller can write; anywhere else the path is refused, with the name that it would have
 * without the link. No memory of earlier runs is needed for that. */
#pragma once

#include "base/err.h"

#include <limits.h>
#include <stdbool.h>

/* ---- a walk ---- */

struct reach_walk {
    int dir;             /* the folder that is held */
    char at[PATH_MAX];   /* its path, without links; "" for the root */
    char left[PATH_MAX]; /* what is left to go */
    unsigned links;
};
/* `path` is absolute. Results are 0 or a negative errno. */
int reach_begin(struct reach_walk *w, const char *path);
/* The next name, which may be "." or ".."; 0: there is none. */
int reach_name(struct reach_walk *w, char name[static NAME_MAX + 1]);
bool reach_is_last(const struct reach_walk *w);
/* Into the folder `fd`, which is taken over; `fd` < 0: no step but in the text. */
int reach_enter(struct reach_walk *w, const char *name, int fd);
int reach_up(struct reach_walk *w);
/* What the link says comes before what is left. */
int reach_follow(struct reach_walk *w, int link);
void reach_end(struct reach_walk *w);

/* ---- what a path stands for ---- */

struct reached {
    int fd;              /* O_PATH */
    char path[PATH_MAX]; /* without links */
    char link[PATH_MAX]; /* the link that was not followed, or empty */
    char real[PATH_MAX]; /* the path as it would be with that link taken by its word */
};
/* Negative errno; -ELOOP with a `link` is a refusal. */
int reach_open(const char *path, struct reached *ret);
void reach_close(struct reached *r);
/* The same object, opened with these flags. */
int reach_reopen(const struct reached *r, int flags);
/* The refusal in words; `what` is in front of them ("cannot grant"). */
int reach_refused(const struct reached *r, const char *what, const char *path, struct err *err);
/* May links that lie directly in this folder be followed, as far as its name goes? Each of these is
 * refused as a grant (filesystem/protect.c). */
bool reach_is_closed(const char *folder);
