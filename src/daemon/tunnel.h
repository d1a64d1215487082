/* Two sockets joined for good, after a WebSocket upgrade. Bytes pass both ways until both sides
 * have ended or one fails; neither buffers more than a piece. */
#pragma once

#include "base/buf.h"
#include "os/loop.h"

/* Takes both descriptors (negative: nothing happens but that the other is closed) and both buffers,
 * whose contents are sent first. */
void tunnel_start(struct loop *loop, int client, int inside, struct buf *to_client,
                  struct buf *to_inside);
