/* What the daemon holds, and for whom: memory, connections, open answers, tunnels, watchers,
 * questions, readers of events, descriptors. The daemon's death is the death of every tenant's
 * sandboxes, so nothing that a client can make it keep is kept outside of an account.
 *
 * There is one account per key, and one per address for what comes before a key is known. Whoever
 * holds something charges it first and returns it at its end; what is charged is what is there.
 *
 * AC-1  A key has at most its own limit of each kind, and never more than it leaves for all the
 *       others: one that takes all it can gets half, two of them a third each, and so on.
 *
 * AC-2  A part of each kind is for operators alone: whatever tenants do, the operator can look and
 *       end it.
 *
 * AC-3  A refusal says which account it is about, what it has and what the limit is; it is counted,
 *       and somebody is told.
 *
 * AC-4  Of each round of the event loop a key has a part; what it has beyond that waits for the
 *       next round, and nobody else does.
 *
 * One thread. An account that is NULL is the daemon's own: nothing is counted. */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "daemon/base/keys.h"
#include "os/loop.h"

#include <stdint.h>

enum account_kind {
    ACCOUNT_BYTES,
    ACCOUNT_CONNECTIONS, /* of a key: those with a request of its own */
    ACCOUNT_STREAMS,     /* answers that stay open */
    ACCOUNT_TUNNELS,     /* connections that were handed over for good */
    ACCOUNT_WATCHERS,
    ACCOUNT_QUESTIONS,   /* to a person */
    ACCOUNT_READERS,     /* of events */
    ACCOUNT_DESCRIPTORS, /* of what runs inside: pipes, terminals, channels */
    ACCOUNT_KINDS,
};
const char *account_kind_name(enum account_kind kind); /* "bytes", … */

enum account_class { ACCOUNT_OF_KEY, ACCOUNT_OF_ADDRESS, ACCOUNT_CLASSES };

struct account_limit {
    uint64_t each;    /* of one account */
    uint64_t all;     /* of all of the class */
    uint64_t reserve; /* of `all`: for operators alone */
};
struct account_limits {
    struct account_limit of[ACCOUNT_CLASSES][ACCOUNT_KINDS];
};
/* The default limits. */
extern const struct account_limits account_limits_default;

struct accounts;
struct account {
    struct accounts *all;
    struct account *next; /* of the keys' */
    const struct key *key;
    enum account_class class;
    uint64_t used[ACCOUNT_KINDS], peak[ACCOUNT_KINDS], refused[ACCOUNT_KINDS];
    uint64_t said_ms, unsaid; /* of whoever is told of refusals */
    struct loop_share share;  /* of each round of the event loop */
};

struct accounts *accounts_new(const struct account_limits *limits); /* NULL: no memory */
void accounts_free(struct accounts *all);
/* Called for each refusal (AC-3). */
typedef void account_refused_fn(void *ctx, struct account *a, enum account_kind kind);
void accounts_on_refused(struct accounts *all, account_refused_fn *fn, void *ctx);
/* That of a key; it stays as long as all do. NULL: no memory, or no key. */
struct account *account_of(struct accounts *all, const struct key *key);
/* One that the caller keeps, and that is empty when it goes. */
void account_init(struct account *a, struct accounts *all, enum account_class class);
void accounts_each(const struct accounts *all, void (*fn)(void *ctx, const struct account *a),
                   void *ctx);
uint64_t accounts_used(const struct accounts *all, enum account_class class,
                       enum account_kind kind);
const struct account_limit *accounts_limit(const struct accounts *all, enum account_class class,
                                           enum account_kind kind);

/* 0, or ERR_LIMIT and nothing was charged. */
int account_charge(struct account *a, enum account_kind kind, uint64_t n, struct err *err);
void account_return(struct account *a, enum account_kind kind, uint64_t n);
/* For what the loop watches on its behalf; NULL: nobody's. */
struct loop_share *account_share(struct account *a);
/* How much more of it there may be now. */
uint64_t account_room(const struct account *a, enum account_kind kind);
/* What it could have in all, with what it has. */
uint64_t account_most(const struct account *a, enum account_kind kind);

/* Memory that one holder has for an account. Buffers with its meter are charged as they grow; the
 * rest is added and taken off by hand. */
struct hold {
    struct buf_meter meter;
    struct account *account;
    uint64_t bytes;
    uint64_t wanted; /* what a buffer was refused last */
};
void hold_init(struct hold *h, struct account *a);
int hold_add(struct hold *h, uint64_t bytes, struct err *err);
/* The same for what can be done without: only where half of the room stays free. */
bool hold_add_spare(struct hold *h, uint64_t bytes);
void hold_sub(struct hold *h, uint64_t bytes);
/* Moves all of it to another account; ERR_LIMIT: it stays where it is. */
int hold_move(struct hold *h, struct account *to, struct err *err);
/* Between two holds for the same account: so much, or a buffer. */
void hold_give(struct hold *from, struct hold *to, uint64_t bytes);
void hold_adopt(struct hold *h, struct buf *b);
/* As much of it as a buffer of the hold's, and the account, have room for; false: not all of it. */
bool hold_fill(struct hold *h, struct buf *b, const void *data, size_t len);
void hold_done(struct hold *h); /* returns what is left of it */
/* Why a buffer with its meter has failed: ERR_LIMIT where that was the account, else 0. Counts as
 * the refusal. */
int hold_refusal(struct hold *h, struct err *err);
