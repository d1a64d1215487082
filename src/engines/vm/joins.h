/* The programs of a sandbox that lives on, in the monitor: each `brig-vmm join` that stands beside
 * it connects to its socket, and gets a stream that init in the guest dialled beforehand. Bytes are
 * carried between the two, both ways; what they mean is between those two (plan/lines.h).
 *
 * VM-26  A program's stream is carried as it is, between one connection and one stream, each of
 * which holds no more than its window: none waits for another. The socket has a name of the
 *        sandbox's own network namespace, where nobody else is. */
#pragma once

#include "base/err.h"
#include "engines/vm/vsock.h"
#include "plan/join.h"

#include <poll.h>

#define JOINS_FDS (1u + VSOCK_JOINED) /* that it watches */

struct joins_line {
    int fd;    /* -1: the stream waits for somebody, or is not there */
    bool full; /* the connection took no more; poll says when it does */
    bool used; /* somebody had it */
};

struct joins {
    struct vsock *vsock;
    int listener; /* -1: a run, which has none */
    char name[JOIN_NAME_LEN + 1];
    struct joins_line lines[VSOCK_JOINED];
};

void joins_init(struct joins *j, struct vsock *v);
/* Before the filter is loaded. */
int joins_open(struct joins *j, struct err *err);
/* Fills in the first JOINS_FDS. */
void joins_watch(const struct joins *j, struct pollfd *fds);
/* After a poll. */
void joins_step(struct joins *j, const struct pollfd *fds);
