/* A receipt for people. What it says may come from inside a sandbox: it is cleaned before a
 * terminal sees it. */
#pragma once

#include "base/buf.h"
#include "base/json.h"

#include <stdbool.h>

void receipt_text(const struct json *receipt, bool colour, struct buf *out);
/* What `verify` found. */
void receipt_verdict(const struct json *result, bool colour, struct buf *out);
