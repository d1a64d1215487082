/* Two sockets joined for good, after a WebSocket upgrade. Bytes pass both ways until both sides
 * have ended, one fails, one takes nothing for too long, or the sandbox ends; neither buffers more
 * than a piece. Its key answers for it, and the client's socket still counts as one of its
 * caller's. */
#pragma once

#include "base/buf.h"
#include "daemon/box/box.h"
#include "daemon/server/server.h"
#include "os/loop.h"

/* Is there room for one more of this account's? 0: it is charged, and tunnel_start takes that over.
 */
int tunnel_charge(struct account *a, struct err *err);
/* Takes the seat, both descriptors (negative: nothing happens but that the other is closed) and
 * both buffers, whose contents are sent first. */
void tunnel_start(struct box *b, struct account *a, struct loop *loop, struct seat *seat,
                  const int fds[2], struct buf out[2]);
