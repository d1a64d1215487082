/* Files that brig obeys or believes: policies, templates, keys, secrets. Whoever can change one, or
 * put another in its place, decides what a sandbox may do; so there is one way to open them.
 *
 * FS-9  It is a plain file, reached through no link that somebody else or a sandbox may have made
 *       (os/reach.h).
 * FS-10  It belongs to root or to the caller, and nobody else can write it (a private one: nor read
 *       it).
 * FS-11  Nobody else can put another in its place: each folder on the way belongs to root or to the
 *       caller, and others may write there at most under a sticky bit. */
#pragma once

#include "base/err.h"

enum trusted_kind {
    TRUSTED_FILE,
    TRUSTED_PRIVATE, /* holds a secret */
    /* In a user namespace it may also be somebody's for whom there is no number there, such as
     * root: the caller takes from it then only what makes things stricter. */
    TRUSTED_STRICTER,
};
/* For reading. `dir` may be AT_FDCWD; `what` stands before the path in messages: "the policy". A
 * file that is not there: ERR_SYSTEM and ENOENT. */
int trusted_open(int dir, const char *path, const char *what, enum trusted_kind kind,
                 struct err *err);
/* A folder of such files, for listing. Checked too, since whoever can write it can add and remove
 * files. */
int trusted_folder(int dir, const char *path, const char *what, struct err *err);
