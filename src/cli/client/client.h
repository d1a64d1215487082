/* The shell's side of the daemon's API: one connection per call, over the daemon's UNIX socket or a
 * TCP address. What comes back is checked by the same strict codec that the daemon uses. */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "cli/options.h"
#include "http/chunk.h"
#include "http/message.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Shared by every verb that talks to the daemon: --host, --key-file, --state. */
extern const struct opt_table client_option_table;
struct client {
    const char *host;     /* as given, or NULL */
    const char *key_file; /* the same */
    const char *state;
    char path[108];     /* of the UNIX socket; empty: TCP */
    char address[64];   /* TCP */
    char authority[80]; /* what stands in Host */
    uint16_t port;
    char key[128];
};
/* 1: it was one of client_option_table's; 0: it was not. */
int client_take(struct client *c, const struct opt *opt, const char *value);
/* Where the daemon is and with which key; nothing is connected yet. */
int client_open(struct client *c, struct err *err);

/* A connected socket, blocking. */
int client_connect(const struct client *c, struct err *err);

/* A request; `box` sends it to that sandbox's own services. */
struct ask {
    const char *method;
    const char *path;    /* with the query, already encoded */
    const char *box;     /* or NULL */
    const char *type;    /* of the body; NULL: application/json */
    uint64_t timeout_ms; /* of what is started; 0: none */
    const char *body;
    size_t body_len;
};

/* One answer while it comes. */
struct call {
    int fd;
    int status;
    struct http_response response;
    struct chunk_reader chunks;
    uint64_t left; /* BODY_LENGTH */
    struct buf in; /* received, not yet handed out */
    size_t taken;
    bool done;
};
void call_init(struct call *call);
/* Sends the request and waits for the head. A status of 400 and above is an error, said with the
 * words of the daemon. */
int call_start(struct call *call, const struct client *c, const struct ask *ask, struct err *err);
/* The same with the body still to be sent: `length` bytes through call_send, then call_head. */
int call_begin(struct call *call, const struct client *c, const struct ask *ask, uint64_t length,
               struct err *err);
int call_send(struct call *call, const void *data, size_t len, struct err *err);
int call_head(struct call *call, struct err *err);
/* The next piece of the body: > 0; 0 at its end. Blocks, unless there is something already. */
ssize_t call_read(struct call *call, const char **ret, struct err *err);
/* The same for a caller that polls call->fd itself: a piece of what is already here, or 0; then
 * call->done tells whether that was the end. call_fill receives once. */
ssize_t call_take(struct call *call, const char **ret, struct err *err);
int call_fill(struct call *call, struct err *err);
void call_done(struct call *call);

/* A whole exchange. *ret is NULL where the answer has no body. */
int client_json(const struct client *c, const struct ask *ask, struct json **ret, struct err *err);
int client_text(const struct client *c, const struct ask *ask, struct buf *ret, struct err *err);

/* All sandboxes that this key may see, the newest first, page by page: a negative answer of `fn` is
 * the end of it. */
int client_boxes(const struct client *c,
                 int (*fn)(void *ctx, const struct json *box, struct err *err), void *ctx,
                 struct err *err);

/* Percent-encoded for a query. */
void client_encode(struct buf *out, const char *text);
/* The sandbox's id: whole, or a beginning that only one has. */
int client_find(const struct client *c, const char *text, char ret[static 64], struct err *err);
bool client_id_good(const char *text);

/* {"process":{"pid":PID}, and whatever the caller writes behind it: a request about a process. */
void process_begin(struct json_writer *w, struct buf *out, int64_t pid);
/* A member as a whole number, a fraction cut off; or what stands for "not there". */
int64_t member_int(const struct json *j, const char *name, int64_t missing);
