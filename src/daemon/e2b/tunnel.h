/* Two sockets joined for good, after a WebSocket upgrade. Bytes pass both ways until both sides
 * have ended, one fails, one takes nothing for too long, or the sandbox ends; neither buffers more
 * than a piece. Its key answers for it, and the client's socket still counts as one of its
 * caller's. */
#pragma once

#include "base/buf.h"
#include "daemon/api/activity.h"

struct tunnel;
/* NULL: the account has no room for one more. */
struct tunnel *tunnel_new(struct core *core, struct box *b, struct account *account,
                          struct err *err);
/* Takes the seat, both descriptors (negative: nothing happens but that the other is closed) and
 * both buffers, whose contents are sent first. */
void tunnel_start(struct tunnel *t, struct seat *seat, const int fds[2], struct buf out[2]);
