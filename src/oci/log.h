/* What is told while nobody asks: denials as they happen, and a receipt at the end. Into the log
 * that the engine names (--log), and into the operator's. Both were opened once, by descriptor. */
#pragma once

#include "base/buf.h"
#include "base/err.h"

#include <stdbool.h>

struct oci_log {
    int engine; /* -1: none */
    bool engine_json;
    int operators; /* -1: none; JSON */
};
void oci_log_init(struct oci_log *l);
void oci_log_close(struct oci_log *l);
struct oci_operator;
/* The engine's where it can be written; the operator's must be, where root has one. */
int oci_log_open(struct oci_log *l, const char *engine, bool json, const struct oci_operator *o,
                 struct err *err);
/* A plain file of the caller's own, not through a link: whoever can write beside it cannot turn it
 * elsewhere. Negative: it is none. */
int oci_log_file(const char *path);
/* `detail` is JSON, told under the name `key`. */
void oci_log_tell(const struct oci_log *l, const char *level, const char *message, const char *key,
                  const struct buf *detail);
/* As people and logs write it, in UTC. */
void oci_log_time(char out[static 40]);
