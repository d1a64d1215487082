/* The record of a run's network, for people. */
#pragma once

#include "base/buf.h"
#include "base/json.h"

#include <stdbool.h>

/* One record, whole. What stands in it came from outside: everything is cleaned. */
void net_text(const struct json *record, bool colour, struct buf *out);
/* One line of the list of runs. */
void net_line(const char *id, const struct json *record, struct buf *out);
/* "running", "ended", or "gone": its supervisor was killed before it could say so. */
const char *net_state(const struct json *record);
