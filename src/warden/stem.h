/* Stems: what sandboxes are cloned from, one per template that can have one. A stem comes to be in
 * a sandbox of its own, in which nothing that a user sent ever runs. Its warden is a process like a
 * sandbox's warden, without a front: it lives until the launcher lets go of it, or the stem needs
 * it no more.
 *
 * A process: the interpreter of a Python template, with the modules that this names and
 * brig-template.so. Its sandbox (namespaces, view, cgroup) is not sealed, since its clones must be
 * able to build theirs.
 * ST-1  All clones of it are in its pid namespace: its sandbox stays until the last is gone, and
 * whoever kills its first process kills them all. ST-2  Its own death does not touch its clones;
 * new sandboxes are started cold until there is another.
 *
 * A machine (sandbox/parked.h): its sandbox is one like any other, with all walls, in which init
 * starts a monitor that boots the guest and parks it. Then the sandbox is gone, and two sealed
 * files are what is left. ST-3  Clones have nothing in common with each other but those files,
 * which nobody can change. */
#pragma once

#include "base/err.h"
#include "sandbox/parked.h"
#include "warden/template.h"

#include <stdbool.h>
#include <sys/types.h>

#define STEM_WHY_SIZE 200
/* Can sandboxes of this template be cloned? If not, `why` says it. */
bool stem_possible(const struct template *t, char why[static STEM_WHY_SIZE]);
/* Is it a machine that is cloned there? */
bool stem_parks(const struct template *t);
/* The whole life of a stem's warden. `sock`: its end is the end; what went wrong is said there.
 * `door`: the stem's end of a process; of a machine, where its facts are said when it is parked.
 * `park`: NULL, or the files of the machine. */
int stem_main(int sock, int door, const struct template *t, uid_t lease, const struct parked *park);
