/* Stems: template processes that sandboxes are cloned from, one per Python template.
 *
 * A stem is a process in a sandbox of its own (namespaces, view, cgroup) that is not sealed, since
 * its clones must be able to build theirs. It runs the interpreter, the modules that the template
 * names, and brig-template.so; nothing that a user sent ever reaches it. Its warden is a process
 * like a sandbox's warden, without a front: it lives until the launcher lets go of it.
 *
 * ST-1  All clones of a stem are in its pid namespace: its sandbox stays until the last is gone,
 * and whoever kills its first process kills them all. ST-2  The death of the stem itself does not
 * touch its clones; new sandboxes are started cold until there is another. */
#pragma once

#include "base/err.h"
#include "warden/template.h"

#include <stdbool.h>
#include <sys/types.h>

#define STEM_WHY_SIZE 200
/* Can sandboxes of this template be cloned? If not, `why` says it. */
bool stem_possible(const struct template *t, char why[static STEM_WHY_SIZE]);
/* The whole life of a stem's warden. `sock`: its end is the end; what went wrong is said there.
 * `door`: the stem's end. */
int stem_main(int sock, int door, const struct template *t, uid_t lease);
