/* The hand: what brokers, reports, learn mode and the log of connections do to things of the
 * code's: its memory, its descriptors, its folders, paths that it chose. The supervisor does none
 * of it itself; it sends the hand on an errand (os/errand.h) and goes on without an answer if there
 * is none.
 *
 * K-11  No object that the code controls is read, used, looked up, closed last or waited for in the
 * supervisor. Of two kinds it takes hold, only to hand them on at once: a descriptor of the code's
 * and its /proc/PID/mem, which a host may open to ancestors alone (Yama). The memory of another
 * user, root inside of an ordinary user's sandbox, is opened by the hand, from there (ER-5). */
#pragma once

#include <limits.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

struct kernel;

void hand_init(struct kernel *k);
/* Have one ready, so that the next call need not wait for it. */
void hand_ready(struct kernel *k);
/* The hand is not needed for now. */
void hand_rest(struct kernel *k);

/* Each returns 0 or more, or a negative errno for the caller; -ETIMEDOUT where what was touched did
 * not answer. */

int hand_signal(struct kernel *k, const struct seccomp_notif *n); /* broker.h */
int hand_change(struct kernel *k, const struct seccomp_notif *n);
int hand_watch(struct kernel *k, const struct seccomp_notif *n);
int hand_shm(struct kernel *k, const struct seccomp_notif *n); /* or SHM_PASS */
/* The address of a connect, copied once; at most as long as the kernel itself accepts. */
int hand_address(struct kernel *k, const struct seccomp_notif *n, struct sockaddr_storage *ret);
/* SO_TYPE of the socket that a call names. */
int hand_kind(struct kernel *k, const struct seccomp_notif *n);

struct hand_connected {
    struct sockaddr_storage own; /* the socket's own address */
    uint64_t cookie;             /* which socket it is */
};
/* Connects the code's TCP socket, of the family of `to`. 0 or -EINPROGRESS: it is, or will be, from
 * that address. -EISCONN: it was already, and this is its cookie. The hand holds the socket until
 * hand_release, which takes the connection apart again if it is not `wanted`. */
int hand_connect(struct kernel *k, const struct seccomp_notif *n, const struct sockaddr *to,
                 socklen_t len, struct hand_connected *ret);
void hand_release(struct kernel *k, bool wanted);

/* The path that a call names at this address, from its folder on; and, for learn mode, what there
 * is of it (ASKED_…), unless `state` is NULL. */
int hand_path(struct kernel *k, const struct seccomp_notif *n, int dir, uint64_t address,
              char out[static PATH_MAX], unsigned *state);
int hand_word(struct kernel *k, const struct seccomp_notif *n, uint64_t address, uint64_t *ret);
/* Report mode: 1 if the host has it. */
int hand_exists(struct kernel *k, const char *path);
/* Does the sandbox have it in its own root? Of one without a view of its own: it does not. */
int hand_has(struct kernel *k, const struct seccomp_notif *n, const char *path);
