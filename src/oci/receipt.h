/* The receipt of a container: what was asked for and what was in force, noted at create; what came
 * of it, at delete. It goes to the logs as one line of JSON. */
#pragma once

#include "oci/porter.h"

#define OCI_RECEIPT_FILE "receipt.json" /* of the state: what create noted */

/* After everything was attested: notes it. */
int oci_receipt_begin(const struct oci_state *s, const struct oci_config *c, struct oci_porter *p,
                      pid_t pid, struct err *err);
/* A container that was never created has none. Nothing that fails here keeps it from being removed.
 */
void oci_receipt_end(const struct oci_state *s, const char *log, bool log_json);
