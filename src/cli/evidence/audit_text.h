/* Audit records for people. What a record says may have come from inside a sandbox: it is cleaned
 * before a terminal sees it. */
#pragma once

#include "base/buf.h"
#include "base/json.h"

#include <stdbool.h>

/* One line: number, time, boundary, kind, box, key, detail. */
void audit_line(const struct json *record, bool colour, struct buf *out);
/* All of one record. */
void audit_whole(const struct json *record, const char *hash, bool colour, struct buf *out);
void audit_summary(const struct json *summary, bool colour, struct buf *out);
/* What `verify` found. */
void audit_verdict(const struct json *result, bool colour, struct buf *out);
