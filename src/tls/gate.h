/* brig-tls: the certificate's key of `brig serve --tls`, and what its files share.
 *
 * It accepts connections on the TCP sockets of the daemon, shakes hands, hands the front one end of
 * a socket pair with the address of the client, and carries bytes between the two. The front
 * thereby has neither the key nor a library that parses what strangers send before they have said
 * anything; and this process has no sandbox, no other tenant's state, and no way to a file.
 *
 * TL-1  The key is in this process alone. It comes in a sealed file after the process was sealed.
 * TL-2  What strangers make it hold is bounded: connections in all; those that the front does not
 *       have, not yet or no more, in all and for each address, and they give way to new ones, the
 *       longest wait first; a handshake in time; bytes in each direction; the pace of clients
 *       that do not read; records that bring no data.
 * TL-3  Nothing is ever served without TLS on its sockets. A client that speaks plain HTTP is told
 *       so.
 * TL-4  A pair that cannot be used changes nothing: the one before stays in force. Connections
 *       that are open go on with the one that they began with. */
#pragma once

#include "base/err.h"
#include "base/ring.h"
#include "os/loop.h"
#include "os/peer.h"

#include <openssl/ssl.h>

#define GATE_LISTENERS_MAX 8
/* Started by root it becomes a uid of its own, beside the recorder's and the front's. */
#define GATE_UID 0x78000003u

struct gate_listener {
    struct loop_io io;
    struct loop_timer pause;
    struct gate *gate;
};

struct gate {
    struct loop *loop;
    struct loop_io door; /* to the front */
    SSL_CTX *settings;   /* with the pair in force; NULL: none yet, and nobody is let in */
    struct gate_listener listeners[GATE_LISTENERS_MAX];
    unsigned listener_count;
    struct ring all;
    /* Those that may give way: before the handshake is done, after the front's end, and lingering.
     */
    struct ring waiting;
    struct ring at_door; /* the front has not taken those before */
    unsigned count, waiting_count;
    unsigned count_max, waiting_max, waiting_of_one; /* the last for each address */
    void (*idle)(void *ctx);                         /* at the end: the last connection is gone */
    void *ctx;
    bool ending;
};

/* gate.c */
void gate_init(struct gate *g, struct loop *loop, int door);
int gate_listen(struct gate *g, int fd, struct err *err); /* takes it; is set up already */
void gate_use(struct gate *g, SSL_CTX *settings); /* takes it; for connections from now on */
/* No more connections; those that are open go on until their end, or for a moment. */
void gate_end(struct gate *g, void (*idle)(void *ctx), void *ctx);
void gate_knock(struct gate *g); /* somebody is at the door: wait until the front has room */

/* link.c: one connection */
struct link;
void link_new(struct gate *g, int fd, const struct peer_address *from); /* takes it */
/* Closes the one that has waited longest: of these callers, or (NULL) of all. */
bool link_evict(struct gate *g, const struct peer_group *of);
/* At the end: all of them but those that the front has answered. */
void link_end_waiting(struct gate *g);
unsigned link_waiting(const struct gate *g, const struct peer_group *of);
/* False: it still waits. */
bool link_hand_over(struct ring *at_door);
void link_end_all(struct gate *g);

/* pair.c */
struct pair_words {
    const char *certificate, *key; /* names, for messages */
    const char *domain;            /* that the certificate must name, or NULL */
    bool again;                    /* was in force already: its dates are not looked at */
};
#define PAIR_DATE_SIZE 32
int pair_load(int certificate, int key, const struct pair_words *words, SSL_CTX **ret,
              char until[static PAIR_DATE_SIZE], struct err *err);
/* Once, before the process is sealed. */
int pair_prepare(struct err *err);

/* seal.c */
int gate_seal(struct err *err);
int gate_seal_calls(struct err *err); /* the filter alone */
