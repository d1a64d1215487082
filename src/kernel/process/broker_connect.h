/* TCP connections on the process tier, where there is no network namespace: the code can make
 * sockets but never connect one. The supervisor does, to a listener of its own on loopback and to
 * nothing else, and hands the other end on, together with the address that was asked for.
 *
 * K-9   No packet of the code's own goes to an address that the code chose: what is connected is
 * the socket that the supervisor's hand holds, to the supervisor's listener. K-10  What is handed
 * on is a connection of this sandbox: the accepted peer is the very socket that was just connected;
 * any other that knocks is closed. */
#pragma once

#include "base/err.h"

#include <netinet/in.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

#define CONNECT_UNANSWERED_MAX 16

struct connect_broker {
    int listener4, listener6; /* -1: none */
    struct sockaddr_in at4;
    struct sockaddr_in6 at6;
    /* Sockets that are connected, of which the code has not been told: it will ask once more. */
    uint64_t unanswered[CONNECT_UNANSWERED_MAX];
    unsigned next;
    uint64_t last; /* the socket that was connected last */
};

void broker_connect_init(struct connect_broker *b);
int broker_connect_open(struct connect_broker *b, struct err *err);
void broker_connect_close(struct connect_broker *b);
/* Can descriptors be taken out of this process? Asked before the code starts. */
int broker_connect_probe(pid_t pid, struct err *err);

struct kernel;
struct seccomp_notif;
/* 0, -EINPROGRESS, or another negative errno for the caller. */
int broker_connect(struct kernel *k, const struct seccomp_notif *n);
/* Container tier: looks where a connection goes that the kernel will make or refuse by itself.
 * Nothing is decided by it. */
void watch_connect(struct kernel *k, const struct seccomp_notif *n);
/* The last answer of broker_connect did not reach the caller, which was interrupted by a signal:
 * the call will be made again. */
void broker_connect_unanswered(struct connect_broker *b);
