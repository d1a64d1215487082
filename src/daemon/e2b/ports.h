/* A user's own port inside a sandbox, by Host or by headers. */
#pragma once

#include "daemon/api/call.h"

void ports_serve(struct call *call);
