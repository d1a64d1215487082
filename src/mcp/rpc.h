/* JSON-RPC 2.0 as MCP uses it: one message per line (stdio) or per body (HTTP); no batches.
 *
 * Everything that comes in is hostile: it is read strictly (base/json.h), bounded in bytes, depth
 * and nodes, and what goes on is written anew, never passed through as it came. */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"

#include <stdbool.h>
#include <stddef.h>

#define RPC_BYTES_MAX  (16u << 20) /* of one message */
#define RPC_ID_MAX     256u        /* bytes of an id that is a string */
#define RPC_METHOD_MAX 128u

/* JSON-RPC's own codes, and those that MCP adds. */
enum rpc_code {
    RPC_PARSE_ERROR = -32700,
    RPC_INVALID_REQUEST = -32600,
    RPC_METHOD_NOT_FOUND = -32601,
    RPC_INVALID_PARAMS = -32602,
    RPC_INTERNAL_ERROR = -32603,
    RPC_RESOURCE_NOT_FOUND = -32002,
    RPC_HEADER_MISMATCH = -32020,
    RPC_UNSUPPORTED_VERSION = -32022,
};

enum rpc_kind {
    RPC_NONE,
    RPC_REQUEST,      /* id, method, params? */
    RPC_NOTIFICATION, /* method, params? */
    RPC_RESPONSE,     /* id, result */
    RPC_ERROR,        /* id (null where the other side could not read ours), error */
};

/* Everything below points into the tree. */
struct rpc_msg {
    enum rpc_kind kind;
    struct json *tree;
    const struct json *id;     /* a string or a whole number; NULL where there is none */
    const char *method;        /* or NULL */
    const struct json *params; /* an object, or NULL */
    const struct json *result; /* an object, or NULL */
    const struct json *error;  /* an object with "code" and "message", or NULL */
};

/* On failure *ret_code is what the sender is to be told, err->message the words, and ret->id the id
 * that the answer should bear, as far as one could be read. rpc_msg_done in every case. */
int rpc_parse(const char *text, size_t len, struct rpc_msg *ret, int *ret_code, struct err *err);
/* The same of what was parsed already, within these limits; takes the tree. */
extern const struct json_limits rpc_limits;
int rpc_read(struct json *tree, struct rpc_msg *ret, int *ret_code, struct err *err);
void rpc_msg_done(struct rpc_msg *m); /* takes one that is all zero */
#define cleanup_rpc_msg __attribute__((cleanup(rpc_msg_done)))

/* Two ids are the same one: same type, same value. */
bool rpc_id_equal(const struct json *a, const struct json *b);

/* Cuts a stream of bytes into lines. A line that is too long is dropped as a whole, in constant
 * memory, and reported once. */
struct rpc_lines {
    struct buf in;
    size_t at, looked; /* where the next line begins; up to where there is no line feed */
    size_t max;
    bool dropping;
};
void rpc_lines_init(struct rpc_lines *l, size_t max);
void rpc_lines_done(struct rpc_lines *l);
/* Copies; negative: no memory. Take all lines out before adding more. */
int rpc_lines_add(struct rpc_lines *l, const void *data, size_t len, struct err *err);
/* 1: a line, without its end ("\n" or "\r\n"), valid until the next add; empty ones are left out.
 * 0: no whole one is there. -E2BIG: one was dropped. */
int rpc_lines_next(struct rpc_lines *l, const char **ret, size_t *ret_len);

/* ---- writing ---- */
/* {"jsonrpc":"2.0","id":…,"result": and the caller writes the value, then rpc_end. */
void rpc_result_begin(struct json_writer *w, const struct json *id);
/* {"jsonrpc":"2.0","method":…,"params": and the caller writes the value, then rpc_end. */
void rpc_notification_begin(struct json_writer *w, const char *method);
void rpc_request_begin(struct json_writer *w, const struct json *id, const char *method);
void rpc_end(struct json_writer *w);
/* A whole message; id NULL writes null. */
void rpc_write_error(struct buf *out, const struct json *id, int code, const char *message,
                     const struct json *data);
