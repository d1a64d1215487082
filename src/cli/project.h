/* Level medium gives the program one folder of its user's, read-write. Which one is a decision with
 * teeth: never a home folder as a whole, nor anything that holds one. */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "policy/policy.h"

/* `asked` is --project's value or NULL: the current folder. Leaves `ret` empty if the policy grants
 * no project. */
int project_choose(const struct policy *policy, const char *asked, struct buf *ret,
                   struct err *err);
/* "DIR[:DEST]" of --review: both absolute; DEST is DIR unless given. */
int project_review(const char *spec, struct buf *ret, struct buf *ret_dest, struct err *err);
