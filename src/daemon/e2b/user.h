/* Whom a request of envd's wants to be inside: see user.c. */
#pragma once

#include "daemon/api/call.h"

/* False: the request was refused and answered. */
bool user_given(struct call *call, const struct box *b);
