/* One SEQPACKET socket of the front: to the launcher, the recorder or a warden.
 *
 * PE-1  Every question is answered exactly once: by the other side, by its time-out, or by the end
 *       of the connection.
 * PE-2  What waits is bounded on both sides: bytes to be sent and questions without an answer. A
 *       peer that does not read or does not answer costs an error, not memory.
 * PE-3  An answer that comes after its time-out reaches nobody; its descriptors are closed, and the
 *       owner may undo what it stands for (`late`). */
#pragma once

#include "os/loop.h"
#include "wire/wire.h"

#include <stdint.h>

struct account; /* daemon/base/account.h */
struct peer;
struct peer_ask;
struct peer_out;

/* m is NULL on failure. Descriptors that are not stolen from it are closed afterwards. */
typedef void peer_answer_fn(void *ctx, struct wire_msg *m, const struct err *err);

struct peer_ops {
    const char *name;                                                       /* for messages */
    void (*message)(struct peer *p, struct wire_msg *m);                    /* what is no answer */
    void (*late)(struct peer *p, enum wire_type asked, struct wire_msg *m); /* or NULL */
    void (*closed)(struct peer *p,
                   const struct err *why); /* by the other side; it is closed here */
    size_t out_max;                        /* bytes that may wait */
    unsigned ask_max;
};

struct peer {
    struct loop *loop;
    struct wire_msg *room; /* shared by all peers: one message is looked at, at a time */
    const struct peer_ops *ops;
    struct loop_io io;       /* fd -1: closed */
    struct account *account; /* that answers for what waits to be sent, or NULL */
    struct peer_out *out, **out_end;
    size_t out_bytes;
    struct peer_ask *asks;
    unsigned ask_count;
    uint32_t next_request;
};

void peer_init(struct peer *p, struct loop *loop, struct wire_msg *room,
               const struct peer_ops *ops); /* closed */
/* Takes fd. */
int peer_open(struct peer *p, int fd, struct err *err);
bool peer_is_open(const struct peer *p);
/* Questions that are open get `why`; `closed` is not called. Safe at any time, also twice. */
void peer_close(struct peer *p, const struct err *why);
/* 0, or -errno: -EPIPE closed, -ENOBUFS too much is waiting, -EMSGSIZE. */
int peer_send(struct peer *p, enum wire_type type, uint32_t request, int64_t value,
              const char *text, size_t len);
/* fn may be called before this returns. 0: no time-out. */
void peer_ask(struct peer *p, enum wire_type type, int64_t value, const char *text, size_t len,
              uint64_t timeout_ms, peer_answer_fn *fn, void *ctx);
uint32_t peer_number(struct peer *p); /* a request number of its own, never 0 */
/* Reads what has arrived but was not read yet. Overwrites `room`, so no other message may be in use
 * there. */
void peer_drain(struct peer *p);
