/* The hand's side of connections: what is done to a socket of the code's, in a process that is
 * killed afterwards and never closes it itself. */
#pragma once

#include "kernel/process/hand.h"

/* The process that a thread belongs to. */
int hand_socket_leader(pid_t tid);
int hand_socket_kind(int sock);
/* A buffer of it then holds at most so much; 0: as the kernel has it. */
int hand_socket_connect(int sock, const struct sockaddr *to, socklen_t len, uint64_t buffer,
                        struct hand_connected *ret);
/* Back to a socket that is not connected. */
int hand_socket_disconnect(int sock);
/* Returns the result. */
int hand_socket_let_go(int sock, int result);
