/* The HTTP side of brig-daemon: listeners, connections, limits, and one request at a time per
 * connection. Knows nothing of sandboxes.
 *
 * DM-1  The key is checked, in constant time, when the head is complete and before a byte of the
 *       body is looked at; so are Host and Origin. A refused request has no effect and its
 *       connection is closed.
 * DM-2  Everything is bounded: connections in all and per peer, header bytes, body bytes, time
 *       without progress, bytes waiting to be sent. A client that does not read stops what feeds
 *       it, never the loop. What is held is on an account (account.h).
 * DM-4  A connection without a request in it keeps nobody out: it gives way, the longest wait
 * first. So does one that is in the middle of a head. DM-5  Bodies and answers move at a minimum
 * pace, or end. DM-3  A GET changes nothing.
 * DM-8  Nothing that a key opened outlives it: when it is revoked its connections are cut, whatever
 *       became of them. This is the one place that knows them all. */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "base/id.h"
#include "http/message.h"
#include "os/loop.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct server;
struct exchange; /* one request and its answer */
struct key;      /* daemon/base/keys.h */

struct accounts; /* daemon/base/account.h */
struct account;
struct caller;

struct server_limits {
    struct accounts *accounts;     /* that are charged; NULL: its own, with these limits */
    unsigned connections;          /* 2048 */
    unsigned connections_per_peer; /* by uid of a local peer, else by address; 512 */
    unsigned streams_per_key;      /* answers that stay open; 1024 */
    uint64_t head_timeout_ms, idle_timeout_ms; /* 10 s, 75 s */
};

/* Calls the router for every request that passed the checks. The handler must, now or later, end
 * the exchange with one of exchange_reply*, exchange_end or exchange_tunnel. */
typedef void server_fn(void *ctx, struct exchange *x);
/* Finds out who the client is. Called with the head alone (DM-1). NULL: nobody, the answer is 401.
 * `ret_sandbox`: for requests that show a sandbox's own access token instead of a key (envd, code
 * interpreter) or a signature. */
struct auth {
    const struct key *key; /* of the owner */
    const struct key *by;  /* that was shown, or that what was shown is good for as long as */
    /* The one sandbox that the request may touch; empty: all of the key's. By its name, for it may
     * end before the handler hears of the request. */
    char box[BOX_ID_LEN + 1];
    bool anonymous;  /* health checks: no key needed, no key known */
    const char *why; /* it is refused: in words, or NULL for what is said in general */
    /* What the callback read in the head, for the handler: the server does not look at it. */
    unsigned face;
    uint16_t port;
    /* A port inside a sandbox: errors name both. */
    bool is_port;
    char id[BOX_ID_LEN + 1];
};
typedef int server_auth_fn(void *ctx, const struct http_request *r, struct auth *ret,
                           int *ret_status);

int server_new(struct server **ret, struct loop *loop, const struct server_limits *limits,
               server_auth_fn *auth, server_fn *fn, void *ctx, struct err *err);
/* What follows from them for the accounts. */
struct account_limits server_account_limits(const struct server_limits *limits);
void server_free(struct server *s);
/* Takes a listening socket. `local`: a UNIX socket (Host is not checked there). */
int server_listen(struct server *s, int fd, bool local, struct err *err);
/* Takes the socket by which brig-tls hands connections over (wire/handover.h): they are as those of
 * a TCP listener, of the address that it says. */
int server_take_handed(struct server *s, int fd, struct err *err);
/* Names, besides 127.0.0.1, [::1], localhost and what is below it, with any port, that may stand in
 * Host; a name that begins with a dot stands for everything below it. Only what is below a name may
 * have an Origin, and only its own: the pages that a sandbox serves. */
int server_allow_host(struct server *s, const char *name, struct err *err);
void server_drain(struct server *s, void (*fn)(void *ctx),
                  void *ctx); /* stop accepting; fn when idle */
unsigned server_connections(const struct server *s);
/* DM-8: cuts every connection whose last request was good by this key, answered or not, and leaves
 * every seat that came of one. Returns how many there were. Not from within a handler. */
unsigned server_cut(struct server *s, const struct key *by);
struct server_stats {
    uint64_t accepted, requests;
    uint64_t no_room;   /* connections turned away: too many, in all or of one peer */
    uint64_t evicted;   /* that waited for their client and gave way to others */
    uint64_t malformed; /* requests that are none */
    uint64_t foreign;   /* Host or Origin */
    uint64_t no_key;    /* the auth callback said no */
    uint64_t timed_out; /* too slow */
};
const struct server_stats *server_stats(const struct server *s);

/* ---- for handlers ---- */
const struct http_request *exchange_request(const struct exchange *x);
const struct auth *exchange_auth(const struct exchange *x);
/* The account of its key, which is charged for what the request makes the daemon hold; NULL: it has
 * no key. */
struct account *exchange_account(const struct exchange *x);
/* Path without the query, percent-decoded strictly (no %00, no %2f, no "." and ".."), valid while x
 * lives. A target that is malformed in its path or its query has the path "": a handler that
 * forwards it uses the request's own, every other one answers 400. */
const char *exchange_path(const struct exchange *x);
const char *exchange_header(const struct exchange *x, const char *name);

/* Before reading: a body with a Content-Encoding is not refused, the handler unpacks it. */
void exchange_take_coded(struct exchange *x);
/* Before reading: what is read in pieces is kept until it is complete, and must come at a certain
 * pace. */
void exchange_keep_body(struct exchange *x);
/* The body, piece by piece. fn may be called before this returns. It returns how many bytes it
 * took; fewer: it calls exchange_body_resume later. done: the end, or (good = false) the client
 * went away. */
void exchange_read_stream(struct exchange *x, size_t (*fn)(void *ctx, const char *data, size_t len),
                          void (*done)(void *ctx, bool good), void *ctx);
void exchange_body_resume(struct exchange *x);

/* Whole answers. The exchange is gone afterwards. */
void exchange_reply(struct exchange *x, int status, const char *type, const char *body, size_t len);
/* In the shape that this route's clients expect: {"code":STATUS,"message"} (E2B control plane),
 * {"code":"not_found","message"} (Connect), text (interpreter), {"code":-400,…} (dify), a JSON-RPC
 * error (MCP). */
enum error_style {
    ERRORS_API,
    ERRORS_CONNECT,
    ERRORS_CONNECT_STREAM,
    ERRORS_TEXT,
    ERRORS_DIFY,
    ERRORS_RPC,
    ERRORS_PORT, /* of a user's own port: {"sandboxId","message","port","code"} */
};
void exchange_set_style(struct exchange *x, enum error_style style);
void exchange_fail(struct exchange *x, int status, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void exchange_fail_err(struct exchange *x,
                       const struct err *err); /* err code → status, message + hint */
/* Before a reply or begin: one more header. */
void exchange_add_header(struct exchange *x, const char *name, const char *value);

/* Answers in pieces: chunked, or with a length if it is known (≥ 0). The head is sent at once. */
void exchange_begin(struct exchange *x, int status, const char *type, int64_t length);
/* Queues; true: go on; false: enough for now, `writable` will be called. */
bool exchange_write(struct exchange *x, const void *data, size_t len);
size_t exchange_waiting(const struct exchange *x); /* bytes that the client has not taken yet */
void exchange_end(struct exchange *x);             /* complete */
void exchange_abort(
    struct exchange *x); /* cut the connection: the client sees that it is not complete */
/* gone: the client went away before the end; the exchange is freed after the call. It is also
 * called where the server itself had to answer (a body that is too long, too slow or malformed, too
 * many streams). Both are called from the loop, never from within another call of this header.
 *
 * Without `gone`: a handler that reads the body hears of it by `done` (exchange_read_stream), and
 * the exchange is freed. Everybody else may go on as if nothing had happened: what is
 * written goes nowhere, and the exchange is freed when its handler ends it. */
void exchange_on(struct exchange *x, void (*writable)(void *ctx), void (*gone)(void *ctx),
                 void *ctx);
/* Hands the client's socket over for good (a user's own port, WebSocket): everything already read
 * of the body is in *ret_rest. The socket still counts as one of its caller's until the seat is
 * left.
 */
struct seat {
    struct server *server; /* NULL: none */
    struct caller *caller;
    const struct key *by;
    void (*cut)(struct seat *seat); /* leave it, at once */
    struct seat *next, **at;        /* of those that were taken */
};
int exchange_tunnel(struct exchange *x, struct buf *ret_rest, struct seat *ret_seat);
/* Moves it to where it stays; `cut` is called when its key is revoked. */
void seat_take(struct seat *seat, struct seat *from, void (*cut)(struct seat *seat));
void seat_leave(struct seat *seat);
