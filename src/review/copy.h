/* A copy of a project for the process tier, and what it was made of. */
#pragma once

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define REVIEW_COPY_MAX                                                                            \
    150000 /* entries; more are for the container tier, which copies nothing                       \
            */

struct review_copy {
    int project;
    int dir;  /* of the review: "tree" and "base" are made in it */
    bool own; /* give it to this uid */
    uid_t uid;
    gid_t gid;
    uint64_t bytes, inodes; /* filled in */
};
int review_copy(struct review_copy *c, struct err *err);
