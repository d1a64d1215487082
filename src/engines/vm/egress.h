/* The code's connections, in the monitor: what init in the guest carries here goes on in the
 * sandbox's own network, which is empty but for the listeners of brig-proxy.
 *
 * The guest has no card. Inside of it every address is local and ends in init, which sends each
 * connection here, as a stream that begins with where it leads. The monitor dials that address, as
 * code of the container tier would, and brig-proxy sees what it always sees.
 *
 * VM-18  What the guest says of a connection is twenty bytes, copied and then checked; where it
 * leads is dialled in the sandbox's network and nowhere else: the monitor has no other.
 * VM-19  What one side does not take is not read from the other, and no line waits for another. */
#pragma once

#include "base/err.h"
#include "engines/vm/vsock.h"
#include "plan/guest.h"

#include <poll.h>

#define EGRESS_NAMES 0u                   /* the place of the names among what is watched */
#define EGRESS_FDS   (1u + VSOCK_CARRIED) /* that it watches */

struct egress_line {
    int fd;        /* -1: not dialled yet, or closed */
    bool dialled;  /* it was tried */
    bool full;     /* the other side took no more; poll says when it does */
    bool deaf;     /* the other side reads no more: what comes is dropped */
    bool torn;     /* and broke off: what ends now is not all that it wanted to say */
    bool in_ended; /* all that the other side sent is on its way to the guest */
    bool out_ended;
    bool broken; /* the guest hears of it when it has what came before */
};

struct egress {
    struct vsock *vsock;
    int family;   /* of the sockets: AF_INET6, which does for both, or AF_INET without it */
    int names_fd; /* -1: nobody answers */
    /* A descriptor, or negative. Of the tests and fuzzers another one. */
    int (*dial)(int family, const struct guest_target *to);
    struct egress_line lines[VSOCK_CARRIED];
};

/* Before the filter is loaded. names: somebody inside answers questions on 127.0.0.1:53; carry:
 * there are rules, and listeners of brig-proxy. */
int egress_open(struct egress *e, struct vsock *v, bool names, bool carry, struct err *err);
/* Fills in the first EGRESS_FDS. */
void egress_watch(const struct egress *e, struct pollfd *fds);
/* After a poll. */
void egress_step(struct egress *e, const struct pollfd *fds);
/* Is this a place that can be dialled? Pure. */
bool egress_target(int family, const uint8_t *data, size_t len, struct guest_target *ret);
