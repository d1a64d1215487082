/* From brig-tls to the front: a connection that speaks TLS outside, as one that does not, and who
 * is at its other end. One packet each over a SEQPACKET socket, with one end of a socket pair.
 *
 * TL-5  The front does not trust brig-tls, which reads what strangers send: it takes streams
 * between processes of this machine and nothing else. An address can be made up, and is used to
 * count by and for nothing else. */
#pragma once

#include "os/peer.h"

#include <stddef.h>
#include <stdint.h>

struct handover_packet {
    uint32_t family; /* 4 or 6 */
    uint8_t address[16];
};

/* -errno; -EAGAIN when the front has not taken those before. `fd` stays the caller's. */
int handover_send(int door, const struct peer_address *from, int fd);
/* 1: *ret_fd is the caller's, a connected stream that does not block; 0: end of file; -EAGAIN;
 * -EPROTO: nonsense, whose descriptors are closed; the next one can be received all the same. */
int handover_receive(int door, struct peer_address *ret_from, int *ret_fd);
/* Pure: what the packet says. 0 or -EPROTO. */
int handover_parse(const void *packet, size_t len, struct peer_address *ret);
