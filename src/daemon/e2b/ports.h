/* A user's own port inside a sandbox, by Host or by headers. */
#pragma once

#include "daemon/api/call.h"

#define PORTS_NO_SANDBOX "The sandbox was not found"
void ports_serve(struct call *call);

/* What a service inside sees as Host, if its owner wants it masked: "${PORT}" stands for the port.
 * False: it would be too long, or no text for a header. */
bool mask_host_write(const char *mask, uint16_t port, char out[static MASK_HOST_SIZE]);
