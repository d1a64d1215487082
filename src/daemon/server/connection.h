/* What the files of the server share: listeners, connections and the exchange on each.
 *
 * A connection is in one phase at a time and has at most one exchange. Nothing here calls a handler
 * from within a call that the handler made, but for the body that is already there: what must be
 * said later (the client is gone, the next request is waiting) is said by the connection's task, in
 * the same round of the loop. A closed connection is freed by that task too, once its exchange has
 * ended. */
#pragma once

#include "base/ring.h"
#include "daemon/base/account.h"
#include "daemon/server/server.h"
#include "http/chunk.h"
#include "os/peer.h"

#include <stddef.h>
#include <sys/uio.h>

#define IN_SIZE    (32u * 1024) /* also the longest head */
#define OUT_LITTLE (16u * 1024) /* waits for the end of the round, to be sent with others */
#define OUT_ENOUGH (16u * 1024) /* that the kernel did not take: who writes is told to wait */
#define OUT_MAX    (32u << 20)  /* who does not wait is cut off, if the account allows as much */
#define SKIP_MAX   (64u * 1024) /* of a body that nobody reads, for the sake of the connection */

enum phase {
    PHASE_HEAD,     /* waits for a request, or for the rest of its head */
    PHASE_EXCHANGE, /* a request is being answered */
    PHASE_SKIP,     /* it was; a little of its body is still to come */
    PHASE_LINGER,   /* the last answer is out; what still comes is thrown away, or else the answer
                       could be lost with the reset */
    PHASE_DEAD,     /* closed */
};

/* What a connection waits for from its client; those that wait give way to new ones, the longest
 * wait first. */
enum waiting { WAITS_NOT, WAITS_REQUEST, WAITS_HEAD, WAITINGS };

/* An address, or a user of this machine. */
struct caller {
    struct caller *next;
    struct peer_group group; /* of a local one the uid */
    bool local;
    struct account account;
    struct ring waiting[WAITINGS];
};

/* Where the body of the request ends. */
struct framing {
    enum http_body kind;
    struct chunk_reader chunk;
    uint64_t piece; /* so many bytes of the body come next, without anything between them */
    uint64_t taken; /* of the body so far */
    bool done;
};

struct connection {
    struct loop_io io;
    struct loop_timer timer;
    struct loop_task task;
    struct server *server;
    struct connection *next, **at; /* of all */
    struct caller *caller;         /* NULL: not counted, it is being refused */
    struct hold hold; /* of both buffers: the caller's, or its key's during a request */
    enum waiting waiting;
    struct ring by_age, by_caller;
    struct exchange *x;
    const struct key *by; /* that its last request was good by */
    enum phase phase;
    bool local;          /* a UNIX socket */
    bool keep;           /* another request may follow */
    bool shut;           /* PHASE_LINGER: our side is closed */
    bool advancing;      /* is in connection_advance */
    bool feeding;        /* is in body_feed */
    uint64_t mark_ms;    /* when this wait began, or when something last moved */
    uint64_t mark_bytes; /* of the body, then */
    uint64_t moved;      /* of the answer, since then */
    uint64_t requests;
    char *in; /* IN_SIZE bytes while there is something in it, else NULL */
    size_t in_at, in_len, scanned;
    struct framing framing;
    struct buf out;
    size_t out_at;
    size_t skipped; /* PHASE_SKIP, PHASE_LINGER */
};

struct exchange {
    struct connection *c;
    struct http_request request;
    struct auth auth;
    enum error_style style;
    struct http_headers extra; /* of the answer */
    bool target_known;
    char *path;
    /* the body */
    bool reading;
    bool takes_coded;  /* the handler looks after Content-Encoding itself */
    bool is_kept;      /* the body is, until it is complete: it must come at a pace */
    bool continue_due; /* the client waits for "100 Continue" */
    bool paused, resumed;
    size_t (*stream_fn)(void *ctx, const char *data, size_t len);
    void (*stream_done)(void *ctx, bool good);
    void *body_ctx;
    /* the answer */
    bool begun;
    bool over;    /* nothing can be said to the client any more; the handler may not know yet */
    bool leaving; /* the handler is being told */
    bool head_only, chunked;
    bool bounded; /* the length was said: so much is left of it */
    uint64_t left;
    bool wants_writable;
    struct account *account; /* of its key; NULL: it has none */
    struct hold hold;        /* of the request */
    size_t head_len;
    bool counted, streaming; /* in the account */
    bool waits_turn;         /* its handler has not heard of it yet */
    unsigned turns;          /* that it has waited */
    void (*writable)(void *ctx);
    void (*gone)(void *ctx);
    void *ctx;
};

struct listener {
    struct loop_io io;
    struct loop_timer pause;
    struct server *server;
    struct listener *next;
    bool local;
    int reserve_fd; /* given up to be able to say no when there are no descriptors left */
};

struct host_rule {
    struct host host;
    bool below; /* everything below it, not itself */
};

#define CALLER_SLOTS 256
#define SPARES       32
struct server {
    struct loop *loop;
    struct server_limits limits;
    server_auth_fn *auth;
    server_fn *fn;
    void *ctx;
    struct listener *listeners;
    struct connection *all;
    struct seat *seats;
    unsigned connections; /* counted ones */
    unsigned refusing;    /* those that are only told to come back later */
    struct caller *callers[CALLER_SLOTS];
    struct accounts *accounts, *own_accounts; /* own: nobody else gave any */
    struct ring waiting[WAITINGS];
    struct host_rule *hosts;
    size_t host_count;
    char *spare[SPARES]; /* input buffers */
    unsigned spares;
    bool draining;
    void (*drained)(void *ctx);
    void *drained_ctx;
    struct loop_task drain_task;
    struct server_stats stats;
    char date[40];
    uint64_t date_ms;
};

/* ---- callers.c ---- */
/* NULL: has too many, or no memory. */
struct caller *caller_take(struct server *s, const struct caller *who);
void caller_drop(struct server *s, struct caller *p);
void callers_free(struct server *s);
/* Into the list of those that wait for this. */
void connection_waits(struct connection *c, enum waiting waiting);
/* Closes the one that has waited longest: of one caller, or of all; without a request before it, or
 * in the middle of a head. False: there is none. */
bool callers_evict(struct server *s, struct caller *of, enum waiting waiting);

/* ---- listener.c ---- */
/* Takes a connection that was accepted, or says no where there is no room. */
void connection_admit(struct server *s, int fd, bool local, struct peer_group group);
/* Closes one that waits for its client (DM-4). False: there is none. */
bool server_make_room(struct server *s);

/* ---- hosts.c: pure ---- */
/* 0, or the status to answer with. */
int host_check(const struct server *s, const struct http_request *r, bool local,
               const char **ret_why);

/* ---- connection.c ---- */
/* Takes fd. `caller` NULL: it is only told that there is no room. */
void connection_new(struct server *s, int fd, bool local, struct caller *caller);
/* What to wait for, and how long. At the end of everything that changed something. */
void connection_settle(struct connection *c);
void connection_later(struct connection *c);
void connection_lost(struct connection *c);     /* closes it; a running exchange is told later */
void connection_answered(struct connection *c); /* the exchange is gone; its answer is in `out` */
/* Hands out its descriptor; the new owner keeps its place among the caller's connections. */
int connection_detach(struct connection *c, struct seat *ret);
void connection_free(struct connection *c);     /* at the end of the server */
void server_connection_ended(struct server *s); /* server.c */

/* ---- input.c ---- */
/* As recv(): into c->in. -EDQUOT: the account has no room for that. */
ssize_t input_receive(struct connection *c);
void input_release(struct connection *c); /* the buffer, if nothing is in it */
/* The next bytes of the body among those that are there. 1; 0: none (framing.done: nor ever);
 * negative: malformed. */
int input_piece(struct connection *c, const char **ret, size_t *ret_len, struct err *err);
void input_take(struct connection *c, size_t len);

/* ---- output.c ---- */
size_t output_waiting(const struct connection *c);
/* Sends what the kernel takes of the queue and of these bytes, queues the rest. Little is only
 * queued, unless `now`. */
#define OUTPUT_PARTS 3
void output_add_parts(struct connection *c, const struct iovec *parts, size_t count, bool now);
void output_add(struct connection *c, const void *data, size_t len, bool now);
void output_flush(struct connection *c);
void output_release(struct connection *c);

/* ---- exchange.c, body.c, answer.c, failure.c ---- */
struct exchange *exchange_new(struct connection *c, struct http_request *r); /* takes what r has */
void exchange_free(struct exchange *x);
/* The client is gone, or the server itself has answered: tell the handler and free the exchange,
 * unless the handler cannot be told and may still use it. */
void exchange_leave(struct exchange *x);
void body_begin(struct connection *c, const struct http_request *r);
void body_feed(struct exchange *x);
void answer_writable(struct exchange *x);
void answer_whole(struct exchange *x, int status, const char *type, const char *body, size_t len);
/* The server's own last word in an exchange: the handler hears "gone". */
void exchange_refuse(struct exchange *x, int status, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* Heads, anywhere. */
struct answer_head {
    int status;
    const char *type; /* or NULL */
    enum http_body body;
    uint64_t length;
    bool length_only; /* HEAD: the length is said, nothing follows */
    bool keep;
};
void answer_head_write(struct server *s, const struct answer_head *h,
                       const struct http_headers *extra, struct buf *out);
const char *answer_reason(int status);
/* The body of an error in a style; the status may become another one (Connect's streams). */
struct failure {
    int status;
    const char *type;
};
int failure_status(enum err_code code);
struct failure failure_write(enum error_style style, int status, const char *message,
                             struct buf *out);
