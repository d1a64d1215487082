/* Namespaces that a configuration names by path: opened once, and looked at by descriptor. */
#pragma once

#include "oci/build.h"

struct oci_joins {
    int fd[OCI_NS_COUNT];  /* what is joined, or -1 */
    int own[OCI_NS_COUNT]; /* where this process belongs, to come back */
};
void oci_joins_init(struct oci_joins *j);
/* OC-3: it is a namespace of that kind, and not the host's. */
int oci_joins_open(struct oci_joins *j, const struct oci_config *c, struct err *err);
/* This process goes there, so that its child is born there, makes what only a member can make (file
 * systems of theirs, settings of the network), and comes back. */
int oci_joins_enter(struct oci_joins *j, struct oci_build *b, struct err *err);
int oci_joins_leave(struct oci_joins *j, struct err *err);
void oci_joins_close(struct oci_joins *j);
int oci_ns_flag(enum oci_ns ns);
