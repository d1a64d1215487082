/* The interpreters of a sandbox of the daemon's: their drivers are shown inside. */
#pragma once

#include "base/err.h"
#include "interpreters/interpreters.h"

/* By the name that the wire uses. NULL: there is none. */
const struct interpreter *interpreter_find(const char *language);

struct filesystem;
/* Between prepare and plan: every driver can be read inside. */
int interpreters_show(struct filesystem *fs, struct err *err);
