/* The receipt of a container: what was asked for and what was in force, noted at create; what came
 * of it, at delete. It goes to the logs as one line of JSON, in the form of those of runs, and is
 * signed where the operator's file says so.
 *
 * OC-17  A container whose receipt is to be signed is not made where it could not be. */
#pragma once

#include "oci/engine.h"
#include "oci/porter.h"

#define OCI_RECEIPT_FILE "receipt.json" /* of the state: what create noted */

/* Whether it is to be signed: from the operator's file, or from the annotation where he lets it. */
int oci_receipt_decide(const struct json *annotations, const struct oci_operator *o, bool *ret,
                       struct err *err);
/* Could it be signed now? Nothing is. */
int oci_receipt_try(struct err *err);

/* What a receipt is made of besides the configuration. */
struct oci_facts {
    const struct oci_walls *walls;
    const struct oci_engine *engine;
    const struct oci_cgroup *groups;
    struct oci_porter *porter;
    pid_t pid; /* the first process */
};
/* After everything was attested: notes it. */
int oci_receipt_begin(const struct oci_state *s, const struct oci_config *c,
                      const struct oci_facts *f, struct err *err);
/* What the groups counted; before they are removed. */
struct oci_usage {
    bool counted;
    uint64_t cpu_usec, memory_peak;
};
void oci_receipt_count(const struct oci_cgroup *g, struct oci_usage *ret);
/* A container that was never created has none. Nothing that fails here keeps it from being removed.
 */
void oci_receipt_end(const struct oci_state *s, const struct oci_usage *usage, const char *log,
                     bool log_json);
