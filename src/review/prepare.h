/* The folder of one review, around the run whose changes it holds. */
#pragma once

#include "filesystem/filesystem.h"

/* Makes it, with its layers or its copy; before filesystem_prepare, which mounts the layers. */
int review_make(struct filesystem *fs, uid_t uid, gid_t gid, struct err *err);
/* Removes it if nothing was changed, or `failed`. 1: there is something to review; negative: what
 * should have gone is still there. */
int review_settle(struct filesystem *fs, bool failed, struct err *err);
/* The code has ended: what it changed may be applied or discarded. */
void review_release(struct filesystem *fs);
