/* Programs outside that the operator allows to be run beside a container (OC-5): with the state on
 * stdin, a PATH of the host's own programs and no other variable, and a time limit. */
#pragma once

#include "oci/config.h"
#include "oci/state.h"

#define OCI_HOOK_SECONDS 30

/* All of a stage, in their order; the first that fails is the error. `docker` is the program that
 * the operator allowed as Docker's own, or NULL. */
int oci_hooks_run(const struct oci_config *c, const char *stage, const struct oci_state *s,
                  enum oci_status status, const char *docker, struct err *err);
/* poststart and poststop: the specification has all of them run; one that fails is told, on stderr
 * and in the logs (`log_path` is the engine's, or NULL), and changes nothing. */
void oci_hooks_run_late(const struct oci_config *c, const char *stage, const struct oci_state *s,
                        enum oci_status status, const char *log_path, bool json);
