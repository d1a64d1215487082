/* The caller at the other end of a connection that was accepted, by its address. What is counted
 * and limited for each caller goes by this, wherever the connection was accepted. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

struct peer_address {
    unsigned family;   /* AF_INET, AF_INET6; 0: none that is known */
    uint8_t bytes[16]; /* of IPv4 the first four, and zeroes */
};
/* An IPv4 address that came to a socket of IPv6 (::ffff:192.0.2.1) is that IPv4 address: all who
 * come so would else count as one. */
struct peer_address peer_address(const struct sockaddr_storage *sa);

/* Whom to count together: an address; of IPv6 the network that a single caller has (/64). */
struct peer_group {
    uint64_t id[2];
};
struct peer_group peer_group(const struct peer_address *of);
bool peer_group_equal(const struct peer_group *a, const struct peer_group *b);

/* What holds for every connection that is accepted on a TCP socket, without a call for each: a
 * client that vanished without a word is noticed, small answers leave at once, little of what it
 * does not take waits in the kernel, and closing it waits for nobody, whoever made the socket and
 * however. 0 or -errno. */
int tcp_listener_set_up(int fd);
