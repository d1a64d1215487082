/* WebSocket frames (RFC 6455), as far as a proxy must know them: after an upgrade only well-formed
 * frames pass, so that "Upgrade: websocket" is no way to get an arbitrary tunnel. */
#pragma once

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ws_reader {
    bool from_client; /* then every frame must be masked, else none may be */
    uint8_t head[14];
    unsigned have;
    uint64_t left; /* payload bytes of the current frame still to come */
    bool fragmented;
    bool closed; /* a close frame has passed */
};
void ws_reader_init(struct ws_reader *r, bool from_client);
/* Checks the next bytes of one direction. 0, or negative at the first malformed frame: reserved
 * bits or opcodes, fragmented or long control frames, non-minimal lengths, data after close. */
int ws_check(struct ws_reader *r, const void *data, size_t len, struct err *err);
