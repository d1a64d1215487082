/* What brig-gvisor is given of a container: descriptors, arguments, and descriptions of the code
 * for the Sentry (engines/gvisor/contain.c). */
#pragma once

#include "kernel/gvisor.h"
#include "oci/config.h"
#include "oci/state.h"

#define OCI_SENTRY_SOCKET "sentry.sock" /* of the state: where the Sentry hears from us */
#define OCI_SENTRY_ARGS   13
#define OCI_NUMBER_SIZE   12

enum oci_sentry_fd {
    OCI_SENTRY_ENGINE, /* brig-gvisor, as a file that nobody inside can change */
    OCI_SENTRY_RUNSC,  /* the same of runsc; of the first process */
    OCI_SENTRY_SPEC,
    OCI_SENTRY_LISTENER, /* of the first process */
    OCI_SENTRY_WAIT,
    OCI_SENTRY_SIGNALS,
    OCI_SENTRY_FDS,
};

struct oci_sentry {
    struct gvisor_build build;
    int fd[OCI_SENTRY_FDS]; /* -1: none */
};

void oci_sentry_init(struct oci_sentry *s);
void oci_sentry_close(struct oci_sentry *s);
/* What of a whole configuration could not be kept behind the Sentry. */
int oci_sentry_judge(const struct oci_config *c, struct err *err);
/* Of a container that is made: finds runsc, opens both programs, and makes the control socket. */
int oci_sentry_open(struct oci_sentry *s, const char *engine, const struct oci_state *state,
                    struct err *err);
/* Of exec: the Sentry that is there. */
int oci_sentry_join(struct oci_sentry *s, const char *engine, const struct oci_state *state,
                    struct err *err);
/* `caps` are those that the process gets. */
int oci_sentry_describe(struct oci_sentry *s, const struct oci_config *c, char *const *env,
                        const uint64_t caps[OCI_CAPS_COUNT], struct err *err);
int oci_sentry_describe_exec(struct oci_sentry *s, const struct oci_process *p, char *const *env,
                             const uint64_t caps[OCI_CAPS_COUNT], struct err *err);
/* A list of its own; NULL: no memory. *ret_number is a place among them: of the descriptor that is
 * closed when the code has begun. */
char **oci_sentry_arguments(const struct oci_sentry *s, const struct oci_config *c,
                            char **ret_number);
char **oci_sentry_exec_arguments(const struct oci_sentry *s);
