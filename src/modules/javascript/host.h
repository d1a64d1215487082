/* What the prelude gets of WASI, as functions on one object. */
#pragma once

#include "quickjs.h"

#include <stdbool.h>

/* Where requests come from, where answers go, and what can be read when a cell is to be
 * interrupted; all -1: this is no context. */
struct channel {
    int requests, answers, interrupts;
};
/* The object that prelude.js is called with. */
JSValue host_new(JSContext *ctx, const struct channel *channel);
