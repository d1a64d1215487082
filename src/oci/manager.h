/* The service manager (systemd) where an engine leaves the groups to it (--systemd-cgroup): a
 * container has a scope there, which is delegated to brig, and its group lies in that one. What the
 * manager writes into its own groups, also later, does not reach the container's limits. */
#pragma once

#include "base/err.h"

#include <sys/types.h>

#define OCI_SCOPE_GROUP "container" /* the container's own, in the scope */

struct oci_scope {
    char unit[256];  /* of the scope */
    char slice[256]; /* it lies in that one */
};

/* "slice:prefix:name" of linux.cgroupsPath; none: a scope of the container's id. A slice that is
 * left out is the engine's usual one. Pure. */
int oci_scope_parse(const char *path, const char *id, bool users, struct oci_scope *ret,
                    struct err *err);
/* The container's group below the manager's own. Pure. */
int oci_scope_path(const struct oci_scope *s, const char *manager, char out[static 1024],
                   struct err *err);

/* The group of the manager of this caller: the host's, or the user's. */
int oci_manager_group(char out[static 512], struct err *err);
/* Makes the scope with this process in it; it is in its group when this returns. */
int oci_manager_start(const struct oci_scope *s, pid_t pid, struct err *err);
/* Ends the scope; one that is gone is fine, and so is a manager that does not answer: the scope of
 * a container that ended has nobody in it. */
void oci_manager_stop(const char *unit);
