/* One request as its handler sees it: the exchange, who asks, for which sandbox, and the body.
 *
 * A handler answers at once, or hands the call to something that calls back (call_wait before,
 * call_back in the callback). The client may go away meanwhile: then call_back says false and the
 * call is gone, or `on_gone` is called where there is something to stop. Sandboxes end at any time:
 * a box is looked up again after every wait, never kept.
 *
 * What is kept for a call is charged to its key (account.h).
 *
 * CL-1  A call that was answered is freed when the callbacks of this round are done: who is further
 *       up may still look at it. A second answer goes nowhere.
 * CL-2  No body, whatever it consists of, keeps the front from serving others.
 * CL-3  What there is no room for is not written on, and no byte of an answer costs more than a
 *       few nanoseconds, whatever it is (base/json_write.c).
 * CL-4  What lists many things is made a few of them in each round, and page by page. */
#pragma once

#include "daemon/api/fields.h"
#include "daemon/api/route.h"
#include "daemon/api/target.h"
#include "daemon/base/account.h"

struct call {
    struct loop_task release;
    bool released;
    struct core *core;
    struct exchange *x; /* NULL: answered, or the client went away */
    const struct route *route;
    const struct key *key;
    struct hold hold;        /* of all that is kept for it */
    char id[BOX_ID_LEN + 1]; /* of the sandbox that the head named, or empty */
    uint16_t port;
    bool as_root; /* it asks to be the second user of that sandbox, who is there */
    struct params params;
    unsigned pending; /* callbacks that are still to come */
    void (*on_gone)(struct call *call);
    void (*on_writable)(struct call *call);
    void *data; /* the handler's */
    /* call_json and call_body */
    struct buf body;
    struct json *json;
    struct json_parser *parser; /* while the body is read */
    size_t parsed;              /* what of its tree is on the account */
    struct loop_timer turn;     /* the next one to read more of it */
    void (*on_parsed)(struct call *call, const struct err *err);
    void (*on_json)(struct call *call, const struct json *body);
    void (*on_body)(struct call *call, const char *data, size_t len);
};

struct call *call_new(struct core *core, struct exchange *x, const struct route *route);
/* The whole body. Malformed, too long or cut off is dealt with here. */
void call_json(struct call *call, void (*fn)(struct call *call, const struct json *body));
void call_body(struct call *call, size_t cap,
               void (*fn)(struct call *call, const char *data, size_t len));
/* A text of the body's as call->json, in place and `limits` as far as they go. It may be long, and
 * is read in pieces (CL-2): `fn` comes at once, or later, or not at all if the client leaves. */
void call_parse(struct call *call, char *text, size_t len, const struct json_limits *limits,
                void (*fn)(struct call *call, const struct err *err));
/* The same, for those whose text is a JSON object: call->on_json gets it, else it is answered. */
void call_parse_object(struct call *call, char *text, size_t len, const struct json_limits *limits);
/* What was read is not needed any more. */
void call_forget_body(struct call *call);
/* A buffer that the call's key answers for. It ends before the call does. */
void call_buf(struct call *call, struct buf *b, size_t cap);
/* From here on: on_gone when the client leaves. call_json and call_body do it by themselves. */
void call_watch(struct call *call);
void call_unwatch(struct call *call); /* on_writable stays */

void call_wait(struct call *call);
bool call_back(struct call *call); /* false: nobody waits any more, do not touch the call */

/* The same where a callback may bring an error: false also where that was the answer. */
bool call_came(struct call *call, const struct err *err);

/* Each answers and lets go of the call. */
void call_empty(struct call *call, int status);
void call_text(struct call *call, int status, const char *type, const char *body, size_t len);
void call_fail(struct call *call, int status, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void call_fail_err(struct call *call, const struct err *err);
void call_fail_memory(struct call *call);
/* Takes a finished JSON text; 500 if it did not fit. */
void call_reply(struct call *call, int status, struct buf *json);
/* The end of an answer in pieces: complete, or cut off so that the client sees that it is not. */
void call_end(struct call *call);
void call_abort(struct call *call);
/* After exchange_tunnel, and after the client has left. */
void call_ended(struct call *call);

/* The sandbox that a control route names as its first parameter and that belongs to the key: NULL
 * and 404 (400 for what is no id). */
struct box *call_box(struct call *call);
/* The sandbox of an envd, interpreter or port request: NULL and 502 if it is gone or paused. */
struct box *call_sandbox(struct call *call);
/* The members of a JSON object; false: answered with what is wrong. */
bool call_fields(struct call *call, const struct json *object, enum fields_mode mode,
                 const struct field *fields, size_t count);
#define CALL_FIELDS(call, object, mode, table)                                                     \
    call_fields(call, object, mode, table, ARRAY_LEN(table))
/* A query parameter, decoded into `out`; 1, 0, or negative and 400. */
int call_query(struct call *call, const char *name, char *out, size_t size);
/* A handler's answer to box_done_fn: 204 or the error. */
void call_done(void *call, const struct err *err);
/* The same with a finished JSON text: review_fn, core_query_fn. */
void call_answered(void *call, const char *json, size_t len, const struct err *err);

void accounts_get(struct call *call); /* accounts.c */
/* brig.c: GET /sandboxes/{id}/logs as text: the last of what processes said, as it came. */
void logs_get_text(struct call *call);

#define CALL_JSON_MAX (16u << 20)
