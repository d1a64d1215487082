/* Addresses of this machine's own interfaces: public by their number, and yet behind them stands
 * what listens on this machine, which trusts itself more than it trusts the world.
 *
 * N-5  What is not plainly public is never dialled without a pin. */
#pragma once

#include "base/err.h"

#include <stdbool.h>
#include <sys/socket.h>

/* Before the seal; the kernel is asked for each address anew, since interfaces change. */
int own_open(struct err *err);
/* Is this an address of an interface of this machine? Also where that is not to be known. Those of
 * the loopback interface are not meant: 127.0.0.1 is no public one, and a public one is there to be
 * answered on many machines at once (anycast). */
bool own_has(const struct sockaddr_storage *sa);
