/* Packets over a UNIX socket that carry descriptors (SCM_RIGHTS). The only place that packs and
 * unpacks them: a descriptor that came is handed out or closed, whatever the other side sent. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <sys/uio.h>

#define RIGHTS_MAX 128 /* descriptors in a packet */

/* As sendmsg(2), with -errno; signals do not interrupt it, and there is no SIGPIPE. */
ssize_t rights_send(int sock, const struct iovec *parts, size_t part_count, const int *fds,
                    unsigned count, int flags);

struct rights {
    int *fds;      /* the receiver's, close-on-exec; -1 beyond count */
    unsigned room; /* how many are wanted; any further are closed. 0, and the socket tells who sent
                    * (SO_PASSCRED): they never become this process's, which closes none then */
    unsigned count;
    bool cut;  /* there were further descriptors, or the packet did not fit */
    pid_t pid; /* the sender, where the socket tells it (SO_PASSCRED); else 0 */
};

/* How long the packet was; 0 at the end, and after a reset; -errno. An empty packet cannot be told
 * from the end; nobody sends one. */
ssize_t rights_receive(int sock, const struct iovec *parts, size_t part_count, int flags,
                       struct rights *r);
void rights_close(struct rights *r);
/* Nobody has descriptors to give over this socket: who reads from it closes those that come along,
 * and may have to wait for it. Where the kernel cannot refuse them (before Linux 6.16) the other
 * side is trusted with that. */
void socket_take_no_rights(int sock);
