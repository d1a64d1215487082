/* POST, DELETE /mcp: the same sandboxes for models, as MCP's streamable HTTP (docs/mcp.md).
 *
 * One JSON-RPC message per request. A request is answered with one JSON object, or, where it has
 * something to say before its end, with a stream of events whose last one is the answer. A client
 * that leaves cancels: what ran for it is killed.
 *
 * MC-1  The key of the request owns everything that the request makes or names. What belongs to
 *       another key does not exist.
 * MC-2  Bytes from a sandbox are only ever the inside of a JSON string.
 * MC-3  A call without a session leaves nothing: its sandbox ends with it, however it ends. */
#pragma once

#include "daemon/api/long_answer.h"
#include "mcp/envelope.h"
#include "mcp/offer.h"

#define MCP_SESSION_LEN 32

/* One request on its way. */
struct mcp_call {
    struct activity activity; /* its call: NULL where it was answered, or nobody waits any more */
    struct mcp_call *next, **at; /* all of them, for notifications/cancelled */
    struct mcp_state *state;
    const struct key *key;
    struct buf body; /* which msg points into */
    struct rpc_msg msg;
    bool modern;
    bool takes_json, takes_events; /* as Accept says */
    bool streaming;
    char session[MCP_SESSION_LEN + 1]; /* the protocol's, or empty */
    const struct json *token;          /* of progress, or NULL */
    uint64_t progress;
    struct loop_timer keepalive;
    struct long_answer answer;
    /* The handler's: */
    void *data; /* freed with it */
    struct mcp_box *place;
    /* It is answered, or nobody waits any more: kill what runs; once, or NULL. */
    void (*stop)(struct mcp_call *c);
    void (*resume)(struct mcp_call *c); /* the client can take more; or NULL */
    void (*forget)(struct mcp_call *c); /* frees what hangs on data; or NULL */
};

/* call.c */
/* Takes the message. NULL: no memory, and the call is answered. */
struct mcp_call *mcp_call_new(struct call *call, struct rpc_msg *msg);
/* So many zeroed bytes for the handler's data, freed with the call. NULL: it is answered. */
void *mcp_data_new(struct mcp_call *c, size_t size);
/* A running request of that session, as notifications/cancelled names it. */
void mcp_cancel(struct mcp_state *s, const struct key *key, const char *session,
                const struct json *id);
/* One line of output, as notifications/progress. False: enough for now. */
bool mcp_progress(struct mcp_call *c, const char *text, size_t len);

struct mcp_result {
    struct json_writer w;
};
/* Opens the result object; the caller adds members; result_send answers and lets go of the call.
 * Texts that may be long are not written, but named (c->answer), and stay with the call. */
void result_begin(struct mcp_call *c, struct mcp_result *r);
void result_cacheable(struct mcp_call *c, struct mcp_result *r, uint64_t ttl_ms, bool shared);
void result_send(struct mcp_call *c, struct mcp_result *r);
void mcp_fail(struct mcp_call *c, int status, int code, const char *message,
              const struct json *data);
/* A list under a key: finished JSON values, with commas between them. */
void result_list(struct mcp_call *c, struct json_writer *w, const char *key,
                 const struct buf *items);
void result_string(struct mcp_call *c, struct json_writer *w, const char *key,
                   const struct buf *text, enum long_form form);

/* tools_call.c */
void mcp_tools_call(struct mcp_call *c);
/* Of a tool: content[0], then structuredContent is opened. `more`: further content blocks as JSON,
 * each with a comma before it, or NULL; they stay. */
void tool_result_begin(struct mcp_call *c, struct mcp_result *r, const struct buf *text,
                       enum long_form form, const struct buf *more, bool failed);
void tool_result_send(struct mcp_call *c, struct mcp_result *r);
void tool_fail(struct mcp_call *c, const struct err *err);
void tool_write_error(struct json_writer *w, const struct err *err); /* the member "error" */
/* The sandbox of a session; NULL and the call is answered. */
struct box *tool_box(struct mcp_call *c, const char *session_id);
/* Its arguments, by a table; none at all are good. */
int tool_fields(const struct mcp_call *c, const struct field *fields, size_t count,
                struct err *err);
#define TOOL_FIELDS(c, table, err) tool_fields(c, table, ARRAY_LEN(table), err)
/* Whom a call wants to be in this sandbox; `user` may be NULL. */
int tool_user(const struct box *b, const char *user, bool *ret_as_root, struct err *err);
int tool_has_template(const struct mcp_call *c, const char *name, struct err *err);
/* What its sandboxes work on a view of unless it says otherwise: `brig mcp --project` asks for the
 * first that its daemon offers, with a header. NULL: nothing. */
const char *tool_project(const struct mcp_call *c);

void mcp_run_code(struct mcp_call *c);    /* run.c */
void mcp_run_command(struct mcp_call *c); /* command.c */
void mcp_read_file(struct mcp_call *c);   /* files.c */
void mcp_write_file(struct mcp_call *c);
void mcp_list_files(struct mcp_call *c);
void mcp_create_session(struct mcp_call *c); /* manage.c */
void mcp_destroy_session(struct mcp_call *c);
void mcp_diff(struct mcp_call *c);
void mcp_resources_list(struct mcp_call *c); /* resources.c */
void mcp_resources_templates(struct mcp_call *c);
void mcp_resources_read(struct mcp_call *c);

/* sessions.c: the protocol's own sessions, those sandboxes that are a model's, and the requests
 * that are on their way. The core keeps them. */
struct mcp_state;
struct mcp_state *mcp_state(struct core *core); /* NULL: no memory */
struct mcp_call **mcp_running(struct mcp_state *s);
const char *mcp_session_new(struct mcp_state *s, const struct key *key);
bool mcp_session_use(struct mcp_state *s, const struct key *key, const char *id); /* false: none */
bool mcp_session_end(struct mcp_state *s, const struct key *key, const char *id);
void mcp_sessions_forget(struct mcp_state *s, const struct key *key); /* it was revoked */
/* A place for one more: bounded per key. NULL: none. Then mcp_box_made, with its id or with NULL.
 */
struct mcp_box *mcp_box_reserve(struct mcp_state *s, const struct key *key, int64_t idle_ms,
                                struct err *err);
void mcp_box_made(struct mcp_state *s, struct mcp_box *m, const char *box_id);
void mcp_boxes_touch(struct mcp_state *s, struct box *b); /* its time begins anew */
size_t mcp_boxes_of(struct mcp_state *s, const struct key *key, const char **ret, size_t max);
#define MCP_BOXES_MAX 32u
